//! Taking over what exists: all of a state file, or one resource by its id.
//!
//! *Guarantees*: a manifest is written only where the provider itself plans no change for it, and each thing has one; what
//! cannot be taken over is told with the reason; no secret is in a manifest. It deliberately writes nothing, neither to the
//! cloud nor to a folder: states that an id does not lead to are handed to [`Handover`](crate::Handover).

pub(crate) mod document;
mod elsewhere;
pub(crate) mod existing;
mod fit;
mod marked;
mod tfstate;

use crate::{
    Config,
    catalog::{Catalog, ResourceType},
    change,
    cty::{Value, write_json},
    handover::BY_STATE,
    hidden::Hidden,
    host::Host,
    kept::Kept,
    kind,
    plugin::{Known, Plugin},
    schema::{
        Block,
        canonical::{self, Clear},
    },
};
use document::{Head, document};
use elsewhere::{LeftToOthers, Look};
use fit::{Fit, fit};
use futures_util::{StreamExt as _, stream};
use marked::Marked;
use reconciled_provider::{Cx, Error, Hash, RemoteNames};
use serde_json::{Map, Value as Json, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
};
use tfstate::{Held, Place};

/// Why a manifest does not declare what others say all of.
const SAID: &str = "which resources of their own declare";

/// Why it does not declare what came about after the file was written.
const SINCE: &str = "which was empty in the state file, while other resources name this one";

/// Why it does not declare what its provider calls deprecated.
const OLD: &str = "which is deprecated, while other resources name this one";

/// So many resources are looked at at a time.
const AT_ONCE: usize = 10;

/// What was taken over.
#[derive(Default)]
pub struct TakenOver {
    /// Manifests, by file name.
    pub files: BTreeMap<String, String>,
    /// How many.
    pub count: usize,
    /// How many of them wait with their state for the manifest.
    pub handed: usize,
    /// What was not.
    pub left: Vec<Left>,
    /// What manifests do not declare since others do: an address, the names of its attributes, and why.
    pub elsewhere: Vec<(String, String, &'static str)>,
    /// Secrets that manifests name, in clear.
    pub secrets: BTreeMap<String, Arc<str>>,
}

/// What was not taken over.
pub struct Left {
    /// Its address in the state file.
    pub address: String,
    /// False for data sources: nobody misses them.
    pub is_managed: bool,
    /// Why.
    pub error: Error,
}

/// One resource as it is now.
struct Read {
    entry: Arc<str>,
    known: Known,
    marked: Marked,
    /// The id, where that leads to all of it.
    id: Option<String>,
    look: Look,
}

/// One resource, with all that its manifest says.
struct Found {
    held: Held,
    elsewhere: LeftToOthers,
    entry: Arc<str>,
    form: Form,
    import: String,
    fit: Fit,
    block: Block,
    /// What it is called there.
    names: RemoteNames,
    state: Value,
    /// Where else in the state file it is.
    also: Vec<Place>,
}

impl Found {
    /// True for one thing under two addresses. Some ids are no names, such as the time at which something was made, so
    /// where it is not found by its id the rest has to be equal too.
    fn is_one_with(&self, other: &Found) -> bool {
        let are_of_one_type = (&self.entry, &self.held.type_name) == (&other.entry, &other.held.type_name);
        are_of_one_type
            && (self.import == other.import
                || self.names.is(&other.names) == Some(true) && self.state == other.state)
    }

    /// Why it has no manifest beside that of `first`.
    fn left_to(&self, first: &Found) -> Left {
        let address = &first.held.address;
        let error = Error::invalid(format!("it is the same resource as {address}, which has the manifest"))
            .hint("nothing is missing; to have this one instead, `terraform state rm` the other, and import again");
        Left { address: self.held.address.clone(), is_managed: self.held.is_managed, error }
    }
}

/// How a type is written in a manifest.
#[derive(Clone)]
struct Form {
    api_version: String,
    kind: String,
    /// `terraform/v1 Resource`, which names its type.
    type_name: Option<String>,
}

impl Form {
    fn of(catalog: &Catalog, type_name: &str) -> Form {
        match kind::kind_of(catalog, type_name) {
            Some((group, kind)) => Form { api_version: format!("{group}/v1"), kind, type_name: None },
            None => Form {
                api_version: kind::API_VERSION.into(),
                kind: kind::RESOURCE.into(),
                type_name: Some(type_name.into()),
            },
        }
    }
    fn group(&self) -> &str {
        self.api_version.trim_end_matches("/v1")
    }
    fn spec(&self, attributes: Json, before_destroy: bool) -> Json {
        let lifecycle = before_destroy.then(|| json!({ "createBeforeDestroy": true }));
        let mut spec = match &self.type_name {
            Some(type_name) => json!({ "type": type_name, "attributes": attributes }),
            None => attributes,
        };
        if let Some(lifecycle) = lifecycle {
            spec["lifecycle"] = lifecycle;
        }
        spec
    }
    fn file(&self) -> String {
        match &self.type_name {
            Some(type_name) => format!("{type_name}.yaml"),
            None => format!("{}.yaml", self.kind),
        }
    }
}

/// Takes over what a state file holds, as far as `entries` have its providers.
///
/// Errors: it is no state file of a format that is known.
pub async fn take_over(
    cx: &Cx,
    entries: &BTreeMap<Arc<str>, Config>,
    file: &[u8],
    with_secrets: bool,
) -> Result<TakenOver, Error> {
    let held = tfstate::read(file)?;
    let hosts: BTreeMap<&Arc<str>, Host> =
        entries.iter().map(|(name, config)| (name, Host::new(name, config.clone()))).collect();
    let mut out = TakenOver::default();
    let mut found: Vec<Found> = Vec::new();
    let reads: Vec<_> = held.iter().map(|held| read(cx, &hosts, held)).collect();
    let mut reads: Vec<Result<Read, Error>> = stream::iter(reads).buffered(AT_ONCE).collect().await;
    // What others declare with one is told by all of them, so each manifest waits until all was read.
    let looks = held.iter().zip(&mut reads).map(|(held, read)| match read {
        Ok(read) => mem::take(&mut read.look),
        Err(_) => Look::unread(&held.type_name, held.is_managed, &held.attributes),
    });
    let elsewhere = elsewhere::find(&looks.collect::<Vec<_>>());
    let looks = held.into_iter().zip(reads).zip(elsewhere).map(|((held, read), elsewhere)| {
        let (address, is_managed) = (held.address.clone(), held.is_managed);
        let hosts = &hosts;
        async move {
            let found = match read {
                Ok(read) => declare(cx, hosts, held, read, elsewhere, with_secrets).await,
                Err(error) => Err(error),
            };
            found.map_err(|error| Left { address, is_managed, error })
        }
    });
    let looks: Vec<_> = looks.collect();
    // In the order of the file, whichever is there first.
    let mut looks = stream::iter(looks).buffered(AT_ONCE);
    while let Some(look) = looks.next().await {
        match look {
            Ok(one) => match found.iter_mut().find(|first| first.is_one_with(&one)) {
                Some(first) => {
                    out.left.push(one.left_to(first));
                    first.also.push(one.held.place);
                }
                None => found.push(one),
            },
            Err(left) => out.left.push(left),
        }
    }
    let names = names(found.iter().map(|one| (&one.form, &*one.held.name)));
    found.iter_mut().zip(names).for_each(|(one, name)| one.held.name = name);
    // What others depend on, by its address without keys.
    let mut addresses: BTreeMap<&str, Vec<(&Place, String)>> = BTreeMap::new();
    let mut needs: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for one in &found {
        let address = format!("{}.{}/{}", one.form.kind, one.form.group(), one.held.name);
        for place in std::iter::once(&one.held.place).chain(&one.also) {
            addresses.entry(&place.resource).or_default().push((place, address.clone()));
        }
        needs
            .entry(&one.held.place.resource)
            .or_default()
            .extend(one.held.dependencies.iter().map(String::as_str));
    }
    for one in &found {
        let mut attributes = written(&one.block, &one.fit.config);
        if let Some(mark) = entries.get(&one.entry).and_then(|entry| entry.mark.as_ref()) {
            mark.leave_out(&one.block, &mut attributes);
        }
        for (name, clear) in &one.fit.secrets {
            let secret = secret_name(&out.secrets, &one.held, name);
            attributes.insert(name.to_string(), json!({ "secret": secret }));
            out.secrets.insert(secret, clear.clone());
        }
        let after = nearest(&one.held, &needs);
        let after = after.iter().filter_map(|name| addresses.get(name));
        let after: BTreeSet<&str> = after.flat_map(|all| seen_from(&one.held.place, all)).collect();
        let spec = one.form.spec(Json::Object(attributes), one.held.create_before_destroy);
        let mut annotations = Vec::new();
        if *one.entry != *one.form.group() {
            annotations.push(("provider", one.entry.to_string()));
        }
        annotations.push(("import", one.import.clone()));
        let after: Vec<&str> = after.into_iter().collect();
        annotations.extend((!after.is_empty()).then(|| ("depends-on", after.join(","))));
        let ignore = &one.fit.ignore;
        annotations.extend((!ignore.is_empty()).then(|| ("ignore", ignore.join(","))));
        let head = Head {
            api_version: &one.form.api_version,
            kind: &one.form.kind,
            namespace: "",
            name: &one.held.name,
            annotations,
        };
        let text = out.files.entry(one.form.file()).or_default();
        if !text.is_empty() {
            text.push_str("---\n");
        }
        text.push_str(&document(&head, &spec));
        let old = one.fit.left.iter().filter(|name| !one.elsewhere.has(name)).cloned().collect();
        for (why, names) in [(SAID, &one.elsewhere.said), (SINCE, &one.elsewhere.since), (OLD, &old)] {
            let left = names.iter().filter(|name| one.fit.left.contains(*name));
            let left: Vec<String> = left.map(|name| format!("`{name}`")).collect();
            if !left.is_empty() {
                out.elsewhere.push((one.held.address.clone(), left.join(", "), why));
            }
        }
        out.count += 1;
        out.handed += usize::from(one.import.starts_with(BY_STATE));
    }
    Ok(out)
}

/// Names for manifests that are loaded together: types of any number are `terraform/v1 Resource`, and each has its own `www`.
fn names<'a>(wanted: impl Iterator<Item = (&'a Form, &'a str)>) -> Vec<String> {
    let mut taken: BTreeMap<(&str, &str), BTreeSet<String>> = BTreeMap::new();
    let name = |(form, name): (&'a Form, &str)| {
        tfstate::free(taken.entry((&form.api_version, &form.kind)).or_default(), name)
    };
    wanted.map(name).collect()
}

/// A name for a secret that no other one has: those of `a_b` and `a-b` would be one.
fn secret_name(taken: &BTreeMap<String, Arc<str>>, held: &Held, attribute: &str) -> String {
    let name = format!("{}-{}-{attribute}", held.type_name, held.name).replace(['_', '.'], "-");
    let mut names = std::iter::once(name.clone()).chain((2..).map(|number| format!("{name}-{number}")));
    names.find(|name| !taken.contains_key(name)).unwrap_or(name)
}

/// What something depends on, without what those depend on: a state file has all of it.
fn nearest<'a>(held: &'a Held, needs: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> BTreeSet<&'a str> {
    let all: BTreeSet<&str> = held.dependencies.iter().map(String::as_str).collect();
    let is_behind = |name: &str| {
        all.iter().any(|other| *other != name && needs.get(other).is_some_and(|theirs| theirs.contains(name)))
    };
    all.iter().copied().filter(|name| *name != held.place.resource && !is_behind(name)).collect()
}

/// Of what has one address without keys, that which a resource at `place` can refer to; all of it, where the file says otherwise.
fn seen_from<'a>(place: &Place, all: &'a [(&Place, String)]) -> Vec<&'a str> {
    let is_seen = |one: &&(&Place, String)| one.0.is_seen_from(place);
    let name = |one: &'a (&Place, String)| one.1.as_str();
    let seen: Vec<&str> = all.iter().filter(is_seen).map(name).collect();
    if seen.is_empty() { all.iter().map(name).collect() } else { seen }
}

/// Reads one.
///
/// Errors: why it cannot be taken over.
async fn read(cx: &Cx, hosts: &BTreeMap<&Arc<str>, Host>, held: &Held) -> Result<Read, Error> {
    if let Some(fault) = held.fault {
        return Err(Error::unsupported(fault));
    }
    let (entry, host) = entry_of(hosts, held)?;
    let plugin = host.running(cx).await?;
    let of = plugin.catalog.resource(&held.type_name)?;
    if held.version > of.schema.version {
        return Err(Error::unsupported("its state is from a newer version of the provider")
            .hint("install that version, or a newer one"));
    }
    let in_file = Marked::of(&held.marked, &held.attributes, &of, &Value::Null).values;
    let json = held.attributes.to_string();
    let state = plugin.upgrade(&of, held.version, &json, &in_file).await?;
    let then = as_json(&state, &of);
    let identity = plugin.upgrade_identity(&of, held.identity.as_ref(), &in_file).await?;
    let known = Known { state, private: held.private.clone(), identity };
    let known = plugin.read(cx, &of, &known, &in_file).await?;
    if known.state.is_null() {
        return Err(Error::invalid("it is not there any more"));
    }
    let marked = Marked::of(&held.marked, &held.attributes, &of, &known.state);
    let look = Look {
        type_name: held.type_name.clone(),
        is_managed: held.is_managed,
        then,
        now: as_json(&known.state, &of),
    };
    // What no schema and no manifest calls secret is known to be by what is remembered with the state alone; and an id that
    // holds a secret would be in a manifest.
    let block = &of.schema.block;
    let hidden = marked.values.and_copies(change::secrets(block, &known.state), BTreeSet::new());
    let is_open = known.state.get("id").as_str().is_some_and(|id| !hidden.hides(id));
    let by_id = match is_open && marked.is_known_by(block) {
        true => by_id(cx, &plugin, &of, &known.state).await,
        false => None,
    };
    let (id, known) = match by_id {
        Some((id, found)) => (Some(id), found),
        None => (None, known),
    };
    Ok(Read { entry: entry.clone(), known, marked, id, look })
}

fn as_json(state: &Value, of: &ResourceType) -> Json {
    serde_json::from_slice(&write_json(state, &of.schema.value_type)).unwrap_or_default()
}

/// Finds the declaration of what was read; hands its state over where no id leads to it.
async fn declare(
    cx: &Cx,
    hosts: &BTreeMap<&Arc<str>, Host>,
    held: Held,
    Read { entry, known, marked, id, .. }: Read,
    elsewhere: LeftToOthers,
    with_secrets: bool,
) -> Result<Found, Error> {
    let (_, host) = entry_of(hosts, &held)?;
    let plugin = host.running(cx).await?;
    let of = plugin.catalog.resource(&held.type_name)?;
    let fit = fit(&plugin, &of, &known, &marked, &elsewhere).await?;
    if !fit.secrets.is_empty() && !with_secrets {
        let names: Vec<&str> = fit.secrets.keys().map(|name| &**name).collect();
        return Err(Error::invalid(format!("{} has to be declared and is secret", names.join(", ")))
            .hint("to have such values written to files of their own: --secrets DIR"));
    }
    let import = match id {
        Some(id) => id,
        None => {
            let import = format!("{BY_STATE}{}", held.address);
            let account = host.said(&plugin.catalog)?.1;
            let mut kept = Kept::new(&of, &known, account);
            kept.secrets = marked.values.within(&known.state);
            let handover = host.config.handover.as_ref();
            let handover = handover.ok_or_else(|| Error::unsupported("there is no state to keep it in"))?;
            handover.put(&import, &kept.seal().0)?;
            import
        }
    };
    let form = Form::of(&plugin.catalog, &held.type_name);
    let block = of.schema.block.clone();
    let names = Kept::new(&of, &known, Hash::default()).remote_names(&of.name, Some(&block));
    let (entry, state) = (entry.clone(), known.state);
    Ok(Found { elsewhere, entry, form, import, fit, block, names, state, also: Vec::new(), held })
}

/// The id, where the provider finds all of the state by it.
async fn by_id(cx: &Cx, plugin: &Plugin, of: &ResourceType, state: &Value) -> Option<(String, Known)> {
    let id = state.get("id").as_str()?;
    let found = plugin.import(cx, of, id, &Hidden::default()).await.ok()??;
    let found = plugin.read(cx, of, &found, &Hidden::default()).await.ok()?;
    (found.state == *state).then(|| (id.to_string(), found))
}

/// The entry that stands for a provider of a state file.
fn entry_of<'a>(
    hosts: &'a BTreeMap<&Arc<str>, Host>,
    held: &Held,
) -> Result<(&'a Arc<str>, &'a Host), Error> {
    let is_of_source = |host: &Host| {
        let source = &*host.config.source;
        source == held.source || source.ends_with(&format!("/{}", held.source))
    };
    let of_source: Vec<(&Arc<str>, &Host)> =
        hosts.iter().filter(|(_, host)| is_of_source(host)).map(|(name, host)| (*name, host)).collect();
    let called = |wanted: &str| of_source.iter().find(|(name, _)| ***name == *wanted).copied();
    match (&held.alias, &of_source[..]) {
        (_, []) => {
            let text = format!("no entry has its provider, `source: {}`", held.source);
            Err(Error::unsupported(text).hint("add one under `providers` in the host configuration"))
        }
        (Some(alias), _) => called(alias).ok_or_else(|| {
            let text =
                format!("it is of the provider that is configured as `{alias}`, and no entry is called so");
            Error::unsupported(text).hint("give the entry that leads there that name for the import")
        }),
        (None, [one]) => Ok(*one),
        (None, several) => called(held.source.rsplit('/').next().unwrap_or_default()).ok_or_else(|| {
            let names: Vec<&str> = several.iter().map(|(name, _)| &***name).collect();
            Error::unsupported(format!("it may be of any of {}", names.join(", ")))
                .hint("call the one that is meant like the provider")
        }),
    }
}

/// The manifest of a declaration in the canonical form.
pub(crate) fn manifest(
    catalog: &Catalog,
    entry: &str,
    type_name: &str,
    name: &str,
    import: Option<&str>,
    (ignore, config): (&[Arc<str>], &Json),
) -> String {
    let form = Form::of(catalog, type_name);
    let mut annotations = Vec::new();
    if *entry != *form.group() {
        annotations.push(("provider", entry.to_string()));
    }
    annotations.extend(import.map(|id| ("import", id.to_string())));
    annotations.extend((!ignore.is_empty()).then(|| ("ignore", ignore.join(","))));
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    let head = Head { api_version: &form.api_version, kind: &form.kind, namespace, name, annotations };
    document(&head, &form.spec(for_people(config), false))
}

/// The canonical form as a person writes it: a secret by its name.
fn for_people(config: &Json) -> Json {
    match config {
        Json::Object(fields) if fields.contains_key("$secret") => json!({ "secret": fields["$secret"] }),
        Json::Object(fields) => {
            Json::Object(fields.iter().map(|(name, field)| (name.clone(), for_people(field))).collect())
        }
        Json::Array(all) => Json::Array(all.iter().map(for_people).collect()),
        scalar => scalar.clone(),
    }
}

/// A declaration as it is written: nothing of what is null or empty by itself.
fn written(block: &Block, config: &Value) -> Map<String, Json> {
    let mut out = Map::new();
    for name in block.attributes.keys() {
        let value = config.get(name);
        if !value.is_null() {
            out.insert(name.to_string(), canonical::plain(value, false, &InClear(Hidden::default())));
        }
    }
    for (name, nested) in &block.blocks {
        let one = |value: &Value| Json::Object(written(&nested.block, value));
        let shown = match config.get(name) {
            Value::Seq(all) if !all.is_empty() => Json::Array(all.iter().map(one).collect()),
            Value::Map(all) if nested.nesting == crate::schema::Nesting::Map && !all.is_empty() => {
                Json::Object(all.iter().map(|(key, value)| (key.to_string(), one(value))).collect())
            }
            single @ Value::Map(_) if *single != nested.empty() => one(single),
            _ => continue,
        };
        out.insert(name.to_string(), shown);
    }
    // A part of an object that is null is as good as none.
    out.into_iter().map(|(name, value)| (name, without_nulls(value))).collect()
}

fn without_nulls(value: Json) -> Json {
    match value {
        Json::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, field)| !field.is_null());
            Json::Object(fields.map(|(name, field)| (name, without_nulls(field))).collect())
        }
        Json::Array(all) => Json::Array(all.into_iter().map(without_nulls).collect()),
        scalar => scalar,
    }
}

/// Nothing of what is written is secret: what is was left out before.
struct InClear(Hidden);

impl Clear for InClear {
    fn reveal(&self, name: &str) -> Result<String, Error> {
        Err(Error::unexpected(format!("nothing names the secret `{name}` here")))
    }
    fn mark(&self, _: &str) -> Hash {
        Hash::default()
    }
    fn hidden(&self) -> &Hidden {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_manifests_of_one_kind_have_two_names() {
        let form = |kind: &str, type_name: Option<&str>| Form {
            api_version: if type_name.is_some() { kind::API_VERSION.into() } else { "aws/v1".into() },
            kind: kind.into(),
            type_name: type_name.map(String::from),
        };
        let (a, aaaa) = (
            form(kind::RESOURCE, Some("dns_a_record_set")),
            form(kind::RESOURCE, Some("dns_aaaa_record_set")),
        );
        let (queue, topic) = (form("SqsQueue", None), form("SnsTopic", None));
        let wanted =
            [(&a, "www"), (&a, "www-2"), (&aaaa, "www"), (&aaaa, "mail"), (&queue, "www"), (&topic, "www")];
        let expect = ["www", "www-2", "www-3", "mail", "www", "www"];
        assert_eq!(names(wanted.into_iter()), expect);
    }
}
