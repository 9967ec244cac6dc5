//! What is there: kept state, brought up to date by the provider.

use crate::{
    catalog::ResourceType,
    change,
    config::Named,
    cty::Value,
    handover::BY_STATE,
    hidden::Hidden,
    host::Host,
    kept::Kept,
    kind,
    lifecycle::Lifecycle,
    mark::Mark,
    normalize::Declared,
    plugin::{Identity, Known, Plugin},
    schema::{
        self, Block,
        canonical::{self, Clear},
    },
};
use reconciled_provider::{
    Cx, Error, Focus, Hash, Observation, Observed, Owner, ResourceId, Sealed, Version, Want,
};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use time::{Date, Month, PrimitiveDateTime, Time};

/// Reads what is known of one scope: what is tracked, and what a manifest gives the id of.
pub(crate) async fn observe(host: &Host, cx: &Cx, want: &Want<'_>) -> Result<Observation, Error> {
    let ids: BTreeSet<&ResourceId> =
        want.desired.iter().map(|d| &d.id).chain(want.tracked.iter().map(|t| &t.id)).collect();
    let mut resources = Vec::new();
    for id in ids.into_iter().filter(|id| want.focus.covers(id)) {
        resources.extend(match kind::data_in(id) {
            Some(name) => data(host, cx, want, id, name).await?,
            None => look(host, cx, want, id).await?,
        });
    }
    let mut of_scope = want.desired.iter().map(|d| &d.id).chain(want.tracked.iter().map(|t| &t.id));
    let covered = match of_scope.all(|id| want.focus.covers(id)) {
        true => Focus::All,
        false => want.focus.clone(),
    };
    Ok(Observation { covered, complete: true, version: rests(host, cx, want, &resources), resources })
}

/// A version that stands for as long as the manifest says, ±20 % so that not all are looked at together, or until the next
/// resync where it says nothing; unknown where something is still to be seen.
fn rests(host: &Host, cx: &Cx, want: &Want<'_>, resources: &[Observed]) -> Version {
    let ([desired], [seen], [tracked]) = (want.desired, resources, want.tracked) else {
        return Version::Unknown;
    };
    if desired.id != seen.id || desired.id != tracked.id {
        return Version::Unknown;
    }
    let kept = |sealed: &Sealed| Kept::open(sealed).ok().flatten();
    if let Some(now) = kept(&seen.private) {
        // By its identity it is told from others meanwhile.
        let is_remembered = kept(&tracked.private).is_some_and(|was| was.identity == now.identity);
        let is_whole = now.former.is_empty() && !now.is_tainted && !now.is_making;
        if !(is_remembered && is_whole) {
            return Version::Unknown;
        }
    }
    let now = cx.clock.now();
    match desired.spec.bytes().and_then(Declared::read).and_then(|declared| declared.interval) {
        None => host.resting(cx),
        Some(0) => Version::until(Duration::MAX),
        Some(interval) => {
            let chance = Hash::of(format!("{} {}", want.scope, now.as_secs()).as_bytes()).0[0];
            let share = 0.8 + 0.4 * f64::from(chance) / 255.0;
            Version::until_from(now, now + Duration::from_secs(interval).mul_f64(share))
        }
    }
}

/// What a data source tells. It is as declared by definition: what it tells is put out.
async fn data(
    host: &Host,
    cx: &Cx,
    want: &Want<'_>,
    id: &ResourceId,
    name: &str,
) -> Result<Option<Observed>, Error> {
    // What is no longer declared is not there any more; what is not known yet cannot be asked for.
    let Some(desired) = want.desired.iter().find(|desired| desired.id == *id) else { return Ok(None) };
    let Some(declared) = desired.spec.bytes().and_then(Declared::read) else { return Ok(None) };
    let plugin = host.running(cx).await?;
    let of = plugin.catalog.data_source(name)?;
    let clear = Named::of(cx, Some(&declared.config), [])?;
    let config = canonical::to_value(&declared.config, &of.schema.block, &clear)?;
    let state = plugin.read_data(cx, &of, &config, clear.hidden()).await?;
    let mut observed = Observed::new(id.clone(), declared.bytes());
    observed.remote = remote(&clear, &of.schema.block, &state);
    observed.outputs = outputs(&clear, &of, (&state, Some(&declared)), false);
    Ok(Some(observed))
}

async fn look(host: &Host, cx: &Cx, want: &Want<'_>, id: &ResourceId) -> Result<Option<Observed>, Error> {
    let desired = want.desired.iter().find(|desired| desired.id == *id);
    let declared = desired.and_then(|desired| Declared::read(desired.spec.bytes()?));
    let so_far = desired.and_then(|desired| Declared::read(desired.spec.so_far()?));
    // The last that was put down counts: an unanswered intent comes after its row.
    let kept = want
        .tracked
        .iter()
        .filter(|t| t.id == *id)
        .find_map(|t| Kept::open(&t.private).transpose())
        .transpose()?;
    let import = declared.as_ref().and_then(|declared| declared.import.clone());
    let handed = match (&kept, &import) {
        (None, Some(import)) if import.starts_with(BY_STATE) => Some(handed_over(host, id, import)?),
        _ => None,
    };
    let is_handed = handed.is_some();
    let kept = kept.or(handed);
    if kept.is_none() && import.is_none() {
        return Ok(None);
    }
    let plugin = host.running(cx).await?;
    let of = plugin.catalog.resource(kind::type_in(id))?;
    let before = kept.iter().flat_map(|kept| kept.secrets.iter().cloned());
    let clear = Named::of(cx, declared.as_ref().map(|declared| &declared.config), before)?;
    let before = match (&kept, &import) {
        (Some(kept), _) => {
            if kept.version > of.schema.version {
                let text = format!("the state of {id} is from a newer version of the provider");
                return Err(Error::unsupported(text).hint("install that version again, or a newer one"));
            }
            state_of(&plugin, &of, kept).await?
        }
        (None, Some(import)) => match plugin.import(cx, &of, import, clear.hidden()).await? {
            Some(found) => found,
            None => return Err(nothing_there(id, import)),
        },
        (None, None) => return Ok(None),
    };
    let mut found = plugin.read(cx, &of, &before, clear.hidden()).await?;
    // Where a write has no answer, what is there may be what that made in the place of what is known.
    let is_open = want.tracked.iter().filter(|tracked| tracked.id == *id).nth(1).is_some();
    let mut is_successor = false;
    if found.state.is_null()
        && is_open
        && kept.is_some()
        && !is_handed
        && let Some(import) = &import
    {
        // A person looked, and says which it is.
        if let Some(known) = plugin.import(cx, &of, import, clear.hidden()).await? {
            found = plugin.read(cx, &of, &known, clear.hidden()).await?;
            is_successor = !found.state.is_null();
        }
    }
    let state = &found.state;
    let (account, mark) = (host.said(&plugin.catalog)?.1, host.config.mark.as_ref());
    let is_elsewhere =
        kept.as_ref().and_then(|kept| kept.account.as_ref()).is_some_and(|was| *was != account.to_string());
    // A secret may lead elsewhere too, and nobody can tell from where it is kept.
    let told = if is_elsewhere { Told::PerhapsElsewhere } else { Told::Here };
    if kept.is_some()
        && !is_successor
        && !(is_open && told == Told::Here)
        && let Some(name) = told_apart(&of.schema.block, &before, &found, told)
    {
        return Err(another(id, name, told));
    }
    match (state.is_null(), &kept, &import) {
        (false, ..) => {}
        (true, Some(_), Some(import)) if is_handed => return Err(nothing_there(id, import)),
        (true, Some(kept), _) => {
            return match (is_elsewhere, desired) {
                (true, _) => Err(elsewhere(id)),
                // Nobody wants any of them: what is left of those before goes one by one.
                (false, None) => left_of(host, cx, id, &of, kept).await,
                (false, Some(_)) => Ok(None),
            };
        }
        // Many importers give back the id that they were given: only reading tells.
        (true, None, Some(import)) => return Err(nothing_there(id, import)),
        (true, None, None) => return Ok(None),
    }
    let mut now = Kept::new(&of, &found, account);
    plugin.told_as(&of, state, &now.state);
    match &kept {
        Some(kept) if !is_handed && !is_successor => now = now.going_on_from(kept),
        // What is taken over was made with what is declared now, as far as anybody can tell.
        _ => now.triggers = declared.as_ref().and_then(|declared| declared.lifecycle.made_with()),
    }
    let has_news = kept.as_ref().is_some_and(|kept| {
        let is_same = !is_open && !is_handed && !is_successor;
        is_same && (kept.version, &kept.identity, &kept.account) != (now.version, &now.identity, &now.account)
    });
    if let Some(kept) = kept.filter(|_| is_successor) {
        now.former = kept.former;
    }
    now.secrets = clear.hidden().within(state);
    let seen = observed(&clear, id, &of, state, (&now, mark), (declared.as_ref(), so_far.as_ref()));
    Ok(Some(Observed { has_news, ..seen }))
}

/// The first that is still there of those that were in the place of what is gone, with the others.
async fn left_of(
    host: &Host,
    cx: &Cx,
    id: &ResourceId,
    of: &ResourceType,
    kept: &Kept,
) -> Result<Option<Observed>, Error> {
    let plugin = host.running(cx).await?;
    let (account, mark) = (host.said(&plugin.catalog)?.1, host.config.mark.as_ref());
    let mut former = kept.former.iter();
    while let Some(one) = former.next() {
        let clear = Named::of(cx, None, one.kept.secrets.iter().cloned())?;
        let before = state_of(&plugin, of, &one.kept).await?;
        let found = plugin.read(cx, of, &before, clear.hidden()).await?;
        let is_elsewhere = one.kept.account.as_ref().is_some_and(|was| *was != account.to_string());
        is_still_it(id, &of.schema.block, (&before, &found), is_elsewhere, mark)?;
        if found.state.is_null() {
            continue;
        }
        let mut now = Kept::new(of, &found, account).going_on_from(&one.kept);
        now.former = former.cloned().collect();
        now.secrets = clear.hidden().within(&found.state);
        return Ok(Some(observed(&clear, id, of, &found.state, (&now, mark), (None, None))));
    }
    Ok(None)
}

/// What cannot be found with what the entry says now, and could with what it said before, may be in another account.
fn elsewhere(id: &ResourceId) -> Error {
    let text = format!("{id} is not there, and the entry's `config` or `env` changed since it was written");
    Error::invalid(text).hint(
        "if that leads to another account or region, undo it; if it is gone: reconciled forget ADDRESS, take its \
         manifest out, and put it back once that is in force",
    )
}

/// Makes sure that what is `found` is what was kept as `before`, and nobody else's by now: it is to be deleted, and has no look of
/// its own before that.
pub(crate) fn is_still_it(
    id: &ResourceId,
    block: &Block,
    (before, found): (&Known, &Known),
    is_elsewhere: bool,
    mark: Option<&Mark>,
) -> Result<(), Error> {
    let told = if is_elsewhere { Told::PerhapsElsewhere } else { Told::Here };
    if found.state.is_null() {
        return if is_elsewhere { Err(elsewhere(id)) } else { Ok(()) };
    }
    if let Some(name) = told_apart(block, before, found, told) {
        return Err(another(id, name, told));
    }
    match mark.map(|mark| mark.owner(block, &found.state)) {
        Some(Owner::Other(other)) => {
            let text = format!("what {id} was before it was replaced carries the mark of `{other}` by now");
            Err(Error::invalid(text)
                .hint("it is left to them: reconciled forget ADDRESS; reconciled adopt ADDRESS"))
        }
        _ => Ok(()),
    }
}

/// What is known of where a resource is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// Where it was, as far as the entry says.
    Here,
    /// The entry says something else since.
    PerhapsElsewhere,
}

/// What has the same name in another account is another one.
fn another(id: &ResourceId, attribute: &str, told: Told) -> Error {
    let text = format!("what is found as {id} has another `{attribute}` than what was written");
    let text = match told {
        Told::Here => text,
        Told::PerhapsElsewhere => format!("{text}, and the entry's `config` or `env` changed since"),
    };
    Error::invalid(text).hint(
        "if the entry, or a secret of it, leads to another account or region, undo that; if this is the one to manage from \
         now on: reconciled forget ADDRESS, give its id as reconciled/import in its manifest, and reconciled adopt ADDRESS",
    )
}

/// How the names of attributes end that the provider alone gives, and gives once.
const GIVEN_ONCE: [&str; 8] = ["id", "arn", "urn", "uuid", "uid", "guid", "self_link", "created"];
/// Words in the names of those that come anew with a change.
const GIVEN_AGAIN: [&str; 5] = ["version", "revision", "generation", "change", "qualified"];
/// Those that never change, whatever is done to a resource, or attached to it: many an id is that of something else.
const LASTING: [&str; 6] = ["arn", "urn", "owner_id", "account_id", "project_id", "self_link"];
/// How the names of those end that say when it was made.
const MADE_AT: [&str; 6] = ["date", "time", "timestamp", "at", "on", "created"];

/// What tells two apart that may be one resource: their identity, or an attribute.
fn told_apart<'b>(block: &'b Block, before: &Known, now: &Known, told: Told) -> Option<&'b str> {
    // It lasts, and may know of accounts and regions.
    if let (Some(was), Some(is)) = (&before.identity, &now.identity)
        && was.is_other(is)
    {
        return Some("identity");
    }
    let (before, now) = (&before.state, &now.state);
    let ends = |name: &str, word: &str| {
        name.strip_suffix(word).is_some_and(|rest| rest.is_empty() || rest.ends_with('_'))
    };
    let says_when = |name: &str| {
        (name.starts_with("creat") || ends(name, "created")) && MADE_AT.iter().any(|word| ends(name, word))
    };
    let is_given_once = |name: &str| {
        let is_so = match told {
            Told::Here => LASTING.contains(&name) || says_when(name),
            Told::PerhapsElsewhere => {
                GIVEN_ONCE.iter().any(|word| ends(name, word)) || name.starts_with("creat")
            }
        };
        is_so && !GIVEN_AGAIN.iter().any(|word| name.contains(word))
    };
    // The old SDK calls the id optional, and nobody declares it.
    let given = block.attributes.iter().filter(|(name, attribute)| {
        attribute.computed && (!attribute.is_declarable() || &***name == "id") && is_given_once(name)
    });
    let differs = |name: &str| match (before.get(name), now.get(name)) {
        (Value::String(before), Value::String(now))
            if says_when(name) && (moment(before).is_some() || moment(now).is_some()) =>
        {
            matches!((moment(before), moment(now)), (Some(before), Some(now)) if before.abs_diff(now) > 1)
        }
        (Value::String(before), Value::String(now)) if before.is_empty() || now.is_empty() => false,
        // What comes after the account may be a revision, which moves.
        (Value::String(before), Value::String(now)) if told == Told::Here && name == "arn" => {
            before.split(':').take(ARN_ACCOUNT).ne(now.split(':').take(ARN_ACCOUNT))
        }
        (Value::String(before), Value::String(now)) => before != now,
        _ => false,
    };
    given.map(|(name, _)| &**name).find(|name| differs(name))
}

/// Parts of an ARN up to the account: `arn:PARTITION:SERVICE:REGION:ACCOUNT:…`.
const ARN_ACCOUNT: usize = 5;

/// Seconds since 1970, however date, time of day and offset are written: a newer provider may write them otherwise, and a
/// cloud rounds. None for what is no such text.
fn moment(text: &str) -> Option<i64> {
    let (last, _) = text.char_indices().filter(|(_, c)| c.is_ascii_digit()).nth(13)?;
    let (until, rest) = text.split_at_checked(last + 1)?;
    let digits: String = until.chars().filter(char::is_ascii_digit).collect();
    let number = |from: usize, to: usize| digits.get(from..to)?.parse::<u8>().ok();
    let year = digits.get(..4)?.parse().ok()?;
    let date = Date::from_calendar_date(year, Month::try_from(number(4, 6)?).ok()?, number(6, 8)?).ok()?;
    let time = Time::from_hms(number(8, 10)?, number(10, 12)?, number(12, 14)?).ok()?;
    let rest =
        rest.strip_prefix('.').map_or(rest, |rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    let offset = match rest.trim_start().strip_prefix(['+', '-']) {
        Some(of) => {
            let digits: String = of.chars().filter(char::is_ascii_digit).take(4).collect();
            let (hours, minutes) =
                (digits.get(..2)?.parse::<i64>().ok()?, digits.get(2..4)?.parse::<i64>().ok()?);
            let sign = if rest.trim_start().starts_with('-') { -1 } else { 1 };
            sign * (hours * 3_600 + minutes * 60)
        }
        None => 0,
    };
    Some(PrimitiveDateTime::new(date, time).assume_utc().unix_timestamp() - offset)
}

/// The state that was taken from a state file for this manifest. It is never made instead: it may well be there.
fn handed_over(host: &Host, id: &ResourceId, import: &str) -> Result<Kept, Error> {
    let state = host.config.handover.as_ref().map(|handover| handover.get(import)).transpose()?.flatten();
    let missing = || {
        let file = import.strip_prefix(BY_STATE).unwrap_or(import);
        let text =
            format!("{id} was to be taken over with its state as `{file}`, and this host has no such state");
        let hint =
            "on this host: reconciled import FILE.tfstate --out DIR; or give an id as `reconciled/import`";
        Error::invalid(text).hint(hint)
    };
    Kept::open(&Sealed::new(state.ok_or_else(missing)?))?.ok_or_else(missing)
}

fn nothing_there(id: &ResourceId, import: &str) -> Error {
    let hint = "correct the id in `reconciled/import`, or leave the annotation out to make a new one";
    Error::invalid(format!("there is no {} with the id `{import}`", kind::type_in(id))).hint(hint)
}

/// A resource as it is reported: through its declaration, where there is one and all of it is known. What of that is known
/// `so_far` tells what is in Git in clear.
pub(crate) fn observed(
    clear: &Named<'_>,
    id: &ResourceId,
    of: &ResourceType,
    state: &Value,
    (kept, mark): (&Kept, Option<&Mark>),
    (declared, so_far): (Option<&Declared>, Option<&Declared>),
) -> Observed {
    let block = &of.schema.block;
    let open = so_far.map(|declared| canonical::written_out(&declared.config)).unwrap_or_default();
    let shown = &clear.hiding(clear.hidden().and_copies(change::secrets(block, state), open));
    let unmarked = mark.map(|mark| mark.without(block, state));
    let content = unmarked.as_ref().unwrap_or(state);
    let seen = match declared {
        Some(declared) => Declared {
            config: canonical::through(&declared.config, content, block, shown),
            ..declared.clone()
        },
        None => {
            let config = canonical::declarable(content, block, shown);
            let lifecycle = Lifecycle::default();
            Declared { config, ignore: Vec::new(), import: None, lifecycle, interval: None }
        }
    };
    let mut observed = Observed::new(id.clone(), seen.bytes());
    observed.remote = remote(clear, block, state);
    observed.owner = mark.map(|mark| mark.owner(block, state)).unwrap_or_default();
    let hidden = clear.hidden().and_copies(change::secrets(block, state), BTreeSet::new());
    observed.identity = kept.identity.as_ref().map(|identity| identified(&hidden, &of.name, identity));
    observed.outputs = outputs(clear, of, (state, so_far), true);
    observed.private = kept.seal();
    observed
}

/// By what a resource is told from all others, for people.
pub(crate) fn identified(hidden: &Hidden, type_name: &str, identity: &Identity) -> Arc<str> {
    match hidden.hides(&identity.value) {
        false => format!("{type_name} {}", identity.value).into(),
        true => format!("{type_name} {}", blake3::hash(identity.value.as_bytes()).to_hex()).into(),
    }
}

/// The id that nearly every resource has, for people. One that holds a secret is its mark: it is kept in clear, and what is read
/// by it is the state, which is not.
pub(crate) fn remote(clear: &Named<'_>, block: &Block, state: &Value) -> Option<Arc<str>> {
    let id = state.get("id").as_str()?;
    match clear.hidden().and_copies(change::secrets(block, state), BTreeSet::new()).hides(id) {
        false => Some(id.into()),
        true => Some(format!("(secret) {}", clear.mark(id)).into()),
    }
}

/// What others may refer to; `made` where it is a resource, which is not only read.
pub(crate) fn outputs(
    clear: &Named<'_>,
    of: &ResourceType,
    (state, declared): (&Value, Option<&Declared>),
    made: bool,
) -> Sealed {
    let block = &of.schema.block;
    let copies = change::made(block, state, declared.map(|declared| &declared.config));
    let outputs = schema::outputs::outputs(state, block, made, &copies, clear);
    Sealed::new(serde_json::to_vec(&outputs).unwrap_or_default())
}

/// What is remembered, as the provider wants it.
pub(crate) async fn state_of(plugin: &Plugin, of: &ResourceType, kept: &Kept) -> Result<Known, Error> {
    let hidden = kept.hidden();
    let state = plugin.upgrade(of, kept.version, &kept.state, &hidden).await?;
    let identity = plugin.upgrade_identity(of, kept.identity.as_ref(), &hidden).await?;
    Ok(Known { state, private: kept.private(), identity })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::fixture::{block, text};

    #[test]
    fn what_is_given_once_tells_two_of_one_name_apart() {
        let names = [
            "arn",
            "association_id",
            "create_date",
            "last_modified",
            "main_route_table_id",
            "owner_id",
            "status",
            "valid",
            "version_id",
        ];
        let mut attributes: Vec<_> = names.iter().map(|name| text(name, "c")).collect();
        attributes.extend([text("id", "oc"), text("key_id", "oc")]);
        let block = block(attributes, Vec::new());
        let check = |name: &str, told: Told, (before, now): (&str, &str), expect: Option<&str>| {
            let of =
                |text: &str| Known::new(Value::Map([(name.into(), Value::text(text))].into()), Vec::new());
            assert_eq!(told_apart(&block, &of(before), &of(now), told), expect, "{name} {told:?}");
        };
        let (one, other) = ("2026-01-02T03:04:05Z", "2026-01-02T03:04:07Z");
        for told in [Told::Here, Told::PerhapsElsewhere] {
            for (before, now) in [
                ("2026-01-02T03:04:59Z", "2026-01-02T03:05:00Z"),
                ("2026-01-01T23:59:59.9Z", "2026-01-02 00:00:00 +0000 UTC"),
                (one, "2026-01-02T04:04:05+01:00"),
            ] {
                check("create_date", told, (before, now), None);
            }
            check("create_date", told, (one, "2026-01-02T03:04:05+01:00"), Some("create_date"));
            for name in ["arn", "owner_id"] {
                check(name, told, ("a", "b"), Some(name));
                check(name, told, ("a", "a"), None);
                check(name, told, ("", "b"), None);
            }
            check("create_date", told, (one, other), Some("create_date"));
            check("create_date", told, (one, "2026-01-02 03:04:06.1 +0000 UTC"), None);
            for name in ["last_modified", "status", "valid", "version_id", "key_id"] {
                check(name, told, ("a", "b"), None);
            }
        }
        let task =
            |account, revision| format!("arn:aws:ecs:eu-west-1:{account}:task-definition/web:{revision}");
        check("arn", Told::Here, (&task(1, 1), &task(1, 2)), None);
        check("arn", Told::Here, (&task(1, 1), &task(2, 1)), Some("arn"));
        // An address that is attached to something has the id of that, and a table may be the main one no more.
        for name in ["id", "association_id", "main_route_table_id"] {
            check(name, Told::PerhapsElsewhere, ("a", "b"), Some(name));
            check(name, Told::Here, ("a", "b"), None);
        }
    }
}
