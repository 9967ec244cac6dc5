//! Entries and sources that were renamed (`was`): what is known of them goes along before anything else is done.

use crate::{
    config::Config,
    failure::Failure,
    source::Mirror,
    store::{Db, Named, Rename},
};

/// What the configuration says was renamed.
pub fn renames(config: &Config) -> Vec<Rename> {
    let providers = config.providers.iter().map(|entry| (Named::Provider, &entry.was, &entry.name));
    let sources = config.sources.iter().map(|source| (Named::Source, &source.was, &source.name));
    let named = providers.chain(sources);
    named.filter_map(|(what, was, to)| Some(Rename { what, from: was.clone()?, to: to.clone() })).collect()
}

/// Gives what is known the names it has now.
///
/// Errors: a write under a name of before has no answer yet, or both names track the same.
pub async fn take_along(config: &Config, db: &Db) -> Result<(), Failure> {
    let renames = renames(config);
    db.rename(&renames).await?;
    // The mirror is a copy: without it the repository is fetched anew.
    for rename in renames.iter().filter(|rename| rename.what == Named::Source) {
        if let Err(error) = Mirror::rename(&config.state_dir, &rename.from, &rename.to) {
            tracing::warn!(source = %rename.to, error = %error, "the mirror of the source's former name stays");
        }
    }
    Ok(())
}
