//! What exists in the cloud, as declarations that leave it as it is: one resource by its id, or all of a type that its
//! provider can list.

use super::{AT_ONCE, Fit, LeftToOthers, Marked, fit, written};
use crate::{
    catalog::{Catalog, ResourceType},
    config::Places,
    cty::Value,
    hidden::Hidden,
    host::Host,
    kept::Kept,
    kind,
    mark::Mark,
    plugin::{Listed, Plugin},
    schema::{
        canonical,
        config::{Reader, Source},
    },
};
use futures_util::{StreamExt as _, stream};
use reconciled_provider::{
    Cx, Error, Hash, Node, Problem, Sealed, SourceFile, Span,
    address::glob,
    problem::did_you_mean,
    yaml::{self, NodeValue},
};
use serde_json::Value as Json;
use std::{collections::BTreeSet, sync::Arc};

/// As many of one type are taken over at once; who has more asks for a part.
const MOST: usize = 10_000;
/// Where an argument of a list stands.
const FLAG: &str = "--filter";

/// What is asked for: `TYPE ID`, `TYPE`, or `TYPE?` with arguments of the list as YAML.
struct Query<'q> {
    /// A type, a kind, or a glob of such.
    wanted: &'q str,
    what: What<'q>,
}

enum What<'q> {
    One(&'q str),
    All(&'q str),
}

/// What was found.
pub(crate) struct One {
    /// Its type.
    pub(crate) type_name: Arc<str>,
    /// What its manifest is called.
    pub(crate) name: String,
    /// What `reconciled/import` says.
    pub(crate) import: Arc<str>,
    /// The declaration in the canonical form.
    pub(crate) config: Json,
    /// What is left as it is.
    pub(crate) ignore: Vec<Arc<str>>,
    /// Its state, to be compared with what is tracked.
    pub(crate) private: Sealed,
}

/// What was found, and in words what could not be written.
#[derive(Default)]
pub(crate) struct Existing {
    pub(crate) all: Vec<One>,
    pub(crate) left_out: Vec<String>,
}

/// What `query` means.
///
/// Errors: `Invalid` when there is no such resource, or no declaration of it leaves it as it is; `Unsupported` when there is
/// no such type, or it cannot be listed; and what the provider says.
pub(crate) async fn existing(host: &Host, cx: &Cx, query: &str) -> Result<Existing, Error> {
    let query = Query::read(query);
    let plugin = &*host.running(cx).await?;
    let (catalog, mark) = (&plugin.catalog, host.config.mark.as_ref());
    match query.what {
        What::One(id) => {
            let of = meant(catalog, query.wanted)?;
            let name = id.rsplit(['/', ':']).find(|part| !part.is_empty()).unwrap_or(id);
            let one = find(cx, (plugin, mark), &of, id, named(name)).await?;
            Ok(Existing { all: vec![one], left_out: Vec::new() })
        }
        What::All(arguments) if query.wanted.contains(['*', '?']) => {
            let types = catalog.listable().filter(|name| {
                glob(query.wanted, name)
                    || kind::kind_of(catalog, name).is_some_and(|(_, kind)| glob(query.wanted, &kind))
            });
            let types: Vec<&Arc<str>> = types.collect();
            if types.is_empty() {
                return Err(unlisted(catalog, None));
            }
            let mut existing = Existing::default();
            for type_name in types {
                let of = catalog.resource(type_name)?;
                if let Err(error) = list(cx, (plugin, mark), &of, arguments, &mut existing).await {
                    existing.left_out.push(in_words(type_name, &error));
                }
            }
            Ok(existing)
        }
        What::All(arguments) => {
            let of = meant(catalog, query.wanted)?;
            let mut existing = Existing::default();
            list(cx, (plugin, mark), &of, arguments, &mut existing).await?;
            Ok(existing)
        }
    }
}

impl<'q> Query<'q> {
    fn read(query: &'q str) -> Query<'q> {
        // An id may hold whatever it likes, and a type neither a space nor a line.
        if let Some((wanted, arguments)) = query.split_once("?\n") {
            return Query { wanted, what: What::All(arguments) };
        }
        match query.split_once(' ').filter(|(_, id)| !id.is_empty()) {
            Some((wanted, id)) => Query { wanted, what: What::One(id) },
            None => Query { wanted: query.trim_end(), what: What::All("") },
        }
    }
}

/// The type that a person means, by its name or its kind.
///
/// Errors: `Unsupported`, with what may have been meant.
fn meant(catalog: &Catalog, wanted: &str) -> Result<ResourceType, Error> {
    let found = catalog.resource(typed(catalog, wanted).map_or(wanted, |name| name));
    found.map_err(|error| {
        if error.hint.is_some() {
            return error;
        }
        let types = || catalog.types().filter_map(|name| Some((name, name.split_once('_')?.1)));
        let without_group = types().find(|(_, rest)| *rest == wanted).map(|(name, _)| name.to_string());
        let kinds: Vec<String> = types().map(|(_, rest)| kind::camel(rest)).collect();
        let kind = did_you_mean(wanted, kinds.iter().map(String::as_str)).map(String::from);
        error.hint_if(without_group.or(kind).map(|near| format!("did you mean `{near}`?")))
    })
}

/// The type that a person means.
fn typed<'c>(catalog: &'c Catalog, wanted: &str) -> Option<&'c Arc<str>> {
    catalog.types().find(|name| {
        ***name == *wanted || kind::kind_of(catalog, name).is_some_and(|(_, kind)| kind == wanted)
    })
}

/// A name for a manifest.
fn named(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' };
    name.chars().map(safe).take(200).collect()
}

/// The types that can be listed, where another one, or any, was to be.
fn unlisted(catalog: &Catalog, of: Option<&ResourceType>) -> Error {
    let entry = match of {
        Some(of) => format!("the provider cannot list what there is of {}", of.name),
        None => "the provider can list nothing that is meant".into(),
    };
    let types: Vec<&str> = catalog.listable().map(|name| &**name).collect();
    let near = of.and_then(|of| did_you_mean(&of.name, types.iter().copied()));
    let what = match (near, &types[..]) {
        (Some(near), _) => format!("did you mean `{near}`, which it can? "),
        (None, []) => "it can list nothing at all: ".into(),
        (None, types) => format!("it can list {}; ", types.join(", ")),
    };
    let one = "one by its id: reconciled import ENTRY TYPE ID";
    Error::unsupported(entry).hint(format!("{what}{one}"))
}

/// All of a type.
async fn list(
    cx: &Cx,
    (plugin, mark): (&Plugin, Option<&Mark>),
    of: &ResourceType,
    arguments: &str,
    existing: &mut Existing,
) -> Result<(), Error> {
    let Some(list) = plugin.catalog.list(&of.name)? else { return Err(unlisted(&plugin.catalog, Some(of))) };
    let config = Arguments::read(cx, &list, arguments)?;
    let listed = plugin.list(cx, of, (&list, &config), MOST + 1).await?;
    if listed.len() > MOST {
        let text = format!("there are more than {MOST} of {}", of.name);
        return Err(Error::invalid(text).hint(format!("ask for a part of them: {FLAG} KEY=VALUE")));
    }
    let mut names = BTreeSet::new();
    let looks: Vec<_> = listed
        .into_iter()
        .map(|Listed { import, name }| {
            let name =
                super::tfstate::free(&mut names, &named(if name.is_empty() { "unnamed" } else { &name }));
            async move {
                let found = find(cx, (plugin, mark), of, &import, name.clone()).await;
                found.map_err(|error| in_words(&format!("{} {name} {import}", of.name), &error))
            }
        })
        .collect();
    let mut looks = stream::iter(looks).buffered(AT_ONCE);
    while let Some(look) = looks.next().await {
        match look {
            Ok(one) => existing.all.push(one),
            Err(why) => existing.left_out.push(why),
        }
    }
    Ok(())
}

fn in_words(what: &str, error: &Error) -> String {
    let hint = error.hint.as_ref().map(|hint| format!(" ({hint})"));
    format!("{what}: {}{}", error.chain(), hint.unwrap_or_default())
}

/// One, by its id or identity.
async fn find(
    cx: &Cx,
    (plugin, mark): (&Plugin, Option<&Mark>),
    of: &ResourceType,
    import: &str,
    name: String,
) -> Result<One, Error> {
    let nothing = Hidden::default();
    let nowhere = || Error::invalid(format!("there is no {} with the id `{import}`", of.name));
    let found = plugin.import(cx, of, import, &nothing).await?.ok_or_else(nowhere)?;
    let found = plugin.read(cx, of, &found, &nothing).await?;
    if found.state.is_null() {
        return Err(nowhere());
    }
    let Fit { config, ignore, secrets, left: _ } =
        fit(plugin, of, &found, &Marked::default(), &LeftToOthers::default()).await?;
    let mut attributes = written(&of.schema.block, &config);
    if let Some(mark) = mark {
        mark.leave_out(&of.schema.block, &mut attributes);
    }
    for name in secrets.keys() {
        // A person names it; what it is stays where it is.
        attributes.insert(name.to_string(), canonical::secret("NAME", ""));
    }
    Ok(One {
        type_name: of.name.clone(),
        name,
        import: import.into(),
        config: Json::Object(attributes),
        ignore,
        private: Kept::new(of, &found, Hash::default()).seal(),
    })
}

/// Arguments of a list, which a person wrote.
struct Arguments;

impl Arguments {
    fn read(cx: &Cx, list: &ResourceType, text: &str) -> Result<Value, Error> {
        let file = Arc::new(SourceFile::new(FLAG, text));
        let told = |problem: Problem| {
            let error = Error::invalid(format!("list each {}: {}", list.name, problem.message));
            let hint = problem.hint.unwrap_or_else(|| format!("what a list is asked for: {FLAG} KEY=VALUE"));
            error.hint(hint)
        };
        let nodes = yaml::parse(&file, yaml::Limits::default()).map_err(|problem| told(*problem))?;
        let nothing = Node { span: Span::default(), value: NodeValue::Null };
        let node = nodes.first().unwrap_or(&nothing);
        let block = &list.schema.block;
        let mut reader = Reader::new(&Arguments);
        let declared = reader.block(node, block, node.span, &[]);
        if let Some(problem) = reader.problems.into_iter().find(Problem::is_error) {
            return Err(told(problem));
        }
        canonical::to_value(&declared, block, &Places(cx, Hidden::default()))
    }
}

impl Source for Arguments {
    /// A secret has no business in what a person types.
    fn secret(&self, _: &Node) -> Option<String> {
        None
    }
    fn form(&self) -> &'static str {
        "nowhere"
    }
    fn mark(&self, _: &str) -> Result<String, Error> {
        Ok(String::new())
    }
    fn problem(&self, _: Span, message: String) -> Problem {
        Problem::error(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_one_or_all() {
        let check = |query: &str, expect: (&str, Result<&str, &str>)| {
            let read = Query::read(query);
            let what = match read.what {
                What::One(id) => Ok(id),
                What::All(arguments) => Err(arguments),
            };
            assert_eq!((read.wanted, what), expect, "{query:?}");
        };
        check("Thing thing-4", ("Thing", Ok("thing-4")));
        check("Thing a?b c", ("Thing", Ok("a?b c")));
        check("Thing", ("Thing", Err("")));
        check("toy_*", ("toy_*", Err("")));
        check("toy_????g", ("toy_????g", Err("")));
        check("Thing ", ("Thing", Err("")));
        check("Thing?\nprefix: a b", ("Thing", Err("prefix: a b")));
    }
}
