//! A folder with providers, laid out as Terraform and OpenTofu want a filesystem mirror: unpacked
//! (`HOST/NAMESPACE/TYPE/VERSION/OS_ARCH/`) or packed (`HOST/NAMESPACE/TYPE/terraform-provider-TYPE_VERSION_OS_ARCH.zip`).

use super::address::{Address, platform};
use semver::Version;
use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// An artefact of a mirror.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Artefact {
    /// A folder that has the program.
    Unpacked(PathBuf),
    /// An archive.
    Packed(PathBuf),
}

/// What a mirror has of a provider: for this machine, and which versions for others alone.
#[derive(Default)]
pub(super) struct Offer {
    pub(super) ours: Vec<(Version, Artefact)>,
    pub(super) elsewhere: Vec<Version>,
}

/// Looks what there is. Nothing is there where the provider has no folder.
pub(super) fn list(mirror: &Path, of: &Address) -> io::Result<Offer> {
    let mut offer = Offer::default();
    let (os, arch) = platform();
    let folder = mirror.join(of.host.replace(':', "_")).join(&of.namespace).join(&of.name);
    let with_colon = mirror.join(&of.host).join(&of.namespace).join(&of.name);
    let folder = if with_colon.is_dir() { with_colon } else { folder };
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(offer),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if let Some((version, platform)) = packed(of, name) {
            match platform == format!("{os}_{arch}") {
                true => offer.ours.push((version, Artefact::Packed(path))),
                false => offer.elsewhere.push(version),
            }
        } else if let Ok(version) = Version::parse(name) {
            let own = path.join(format!("{os}_{arch}"));
            match own.is_dir() {
                true => offer.ours.push((version, Artefact::Unpacked(own))),
                false => offer.elsewhere.push(version),
            }
        }
    }
    // Where there are both, no second copy is made.
    offer.ours.sort_by_key(|(_, artefact)| matches!(artefact, Artefact::Unpacked(_)));
    Ok(offer)
}

/// A host from which there is a provider of that name, where there is none from its own.
pub(super) fn other_host(mirror: &Path, of: &Address) -> Option<String> {
    let has_it = |host: &Path| host.join(&of.namespace).join(&of.name).is_dir();
    if has_it(&mirror.join(of.host.replace(':', "_"))) || has_it(&mirror.join(&of.host)) {
        return None;
    }
    let hosts = fs::read_dir(mirror).ok()?.flatten().filter(|host| has_it(&host.path()));
    hosts.filter_map(|host| host.file_name().into_string().ok()).min()
}

/// The version and platform in the name of an archive.
fn packed<'n>(of: &Address, name: &'n str) -> Option<(Version, &'n str)> {
    let rest = name.strip_prefix(&of.prefix())?.strip_prefix('_')?.strip_suffix(".zip")?;
    let (version, platform) = rest.split_once('_')?;
    Some((Version::parse(version).ok()?, platform))
}

/// The program in an unpacked folder.
pub(super) fn program(folder: &Path, of: &Address) -> io::Result<Option<PathBuf>> {
    let prefix = of.prefix();
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(&prefix));
        // `terraform-provider-google` is not `terraform-provider-google-beta`.
        let is_of_it = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['_', '.']));
        // A mirror may have links: it is for whoever keeps it to say what is in it.
        let meta = fs::metadata(entry.path())?;
        if is_of_it && meta.is_file() && meta.permissions().mode() & 0o111 != 0 {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found.into_iter().next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_layouts_are_read() {
        let world = tempfile::tempdir().unwrap();
        let of = Address::parse("example.com/team/toy").unwrap();
        assert!(list(world.path(), &of).unwrap().ours.is_empty());
        let folder = world.path().join("example.com/team/toy");
        let (os, arch) = platform();
        let unpacked = folder.join(format!("1.0.0/{os}_{arch}"));
        fs::create_dir_all(&unpacked).unwrap();
        fs::create_dir_all(folder.join("2.0.0/plan9_amd64")).unwrap();
        fs::create_dir_all(folder.join("not a version")).unwrap();
        let archive = folder.join(format!("terraform-provider-toy_1.5.0_{os}_{arch}.zip"));
        fs::write(&archive, "").unwrap();
        fs::write(folder.join("terraform-provider-toy_3.0.0_plan9_amd64.zip"), "").unwrap();
        let mut offer = list(world.path(), &of).unwrap();
        offer.ours.sort_by(|(a, _), (b, _)| a.cmp(b));
        offer.elsewhere.sort();
        let version = |text| Version::parse(text).unwrap();
        let expect = [
            (version("1.0.0"), Artefact::Unpacked(unpacked.clone())),
            (version("1.5.0"), Artefact::Packed(archive)),
        ];
        assert_eq!(offer.ours, expect);
        assert_eq!(offer.elsewhere, [version("2.0.0"), version("3.0.0")]);

        for name in ["terraform-provider-toy-beta_v1", "README", "terraform-provider-toy_v1.0.0"] {
            fs::write(unpacked.join(name), "").unwrap();
        }
        assert_eq!(program(&unpacked, &of).unwrap(), None, "none of them can be run");
        for name in ["terraform-provider-toy-beta_v1", "terraform-provider-toy_v1.0.0"] {
            fs::set_permissions(unpacked.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        assert_eq!(program(&unpacked, &of).unwrap(), Some(unpacked.join("terraform-provider-toy_v1.0.0")));
    }
}
