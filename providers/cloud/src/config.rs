//! One entry of the host configuration: `type: terraform`.

use crate::schema::{
    Block,
    canonical::Clear,
    config::{Reader, Source},
};
use reconciled_provider::{
    Cx, Error, Hash, Node, Problem, Secret, SecretRef, SourceFile, Span,
    yaml::{NodeValue, ScalarKind},
};
use std::{path::PathBuf, sync::Arc};

/// What an entry says.
#[derive(Clone, Debug)]
pub struct Config {
    /// `hashicorp/aws`: tells people what it is, and which prefix its types have.
    pub source: Arc<str>,
    /// The provider's program.
    pub path: PathBuf,
    /// What the provider itself is to be told, by its own schema; secrets are `{file|env|credential: …}`.
    pub config: Option<Node>,
    /// Variables that its process sees.
    pub environment: Vec<(String, Given)>,
    /// The file the entry is in.
    pub file: Arc<SourceFile>,
    /// Where the entry begins.
    pub span: Span,
    /// Where schemas are kept from one start to the next; nowhere, if there is no such folder.
    pub cache: Option<PathBuf>,
    /// A program and its first arguments that see to it that a provider ends when this process does.
    pub keeper: Vec<PathBuf>,
}

/// A value of a variable.
#[derive(Clone, Debug)]
pub enum Given {
    /// Written out.
    Text(String),
    /// A secret.
    Secret(SecretRef),
}

impl Config {
    /// The group of its kinds: `aws` of `hashicorp/aws`.
    pub fn group(&self) -> &str {
        self.source.rsplit('/').next().unwrap_or_default()
    }

    /// The variables, with secrets in clear.
    pub fn environment(&self, cx: &Cx) -> Result<Vec<(String, String)>, Error> {
        let value = |given: &Given| match given {
            Given::Text(text) => Ok(text.clone()),
            Given::Secret(place) => clear(&cx.secrets.reveal(place)?),
        };
        self.environment.iter().map(|(name, given)| Ok((name.clone(), value(given)?))).collect()
    }

    /// What the provider is to be told, read by its schema.
    ///
    /// Errors: `Invalid` with the first problem and its place.
    pub fn declared(&self, block: &Block) -> Result<serde_json::Value, Error> {
        let nothing = Node { span: self.span, value: NodeValue::Null };
        let node = self.config.clone().map_or(nothing, with_places);
        let mut reader = Reader::new(self);
        let declared = reader.block(&node, block, self.span, &[]);
        match reader.problems.into_iter().find(Problem::is_error) {
            None => Ok(declared),
            Some(problem) => {
                let place = problem.place.as_ref().map(|place| format!("{}:{}: ", place.file, place.line));
                let error = Error::invalid(format!("{}{}", place.unwrap_or_default(), problem.message));
                Err(match problem.hint {
                    Some(hint) => error.hint(hint),
                    None => error,
                })
            }
        }
    }
}

fn clear(secret: &Secret) -> Result<String, Error> {
    Ok(secret.reveal_str()?.to_string())
}

impl Source for Config {
    fn mark(&self, _: &str) -> Result<String, Error> {
        Ok(String::new())
    }
    fn problem(&self, span: Span, message: String) -> Problem {
        Problem::error(message).at(&self.file, span)
    }
}

const PLACES: [&str; 3] = ["file", "env", "credential"];

/// Secrets by their place, `{env: TOKEN}`, as secrets by a name, which is what a reader knows: `{secret: "env:TOKEN"}`.
fn with_places(node: Node) -> Node {
    let value = match node.value {
        NodeValue::Map(entries) => match &entries[..] {
            [(key, place)]
                if key.as_str().is_some_and(|key| PLACES.contains(&key)) && place.as_str().is_some() =>
            {
                let name =
                    format!("{}:{}", key.as_str().unwrap_or_default(), place.as_str().unwrap_or_default());
                let scalar =
                    |text: &str, span| Node { span, value: NodeValue::Scalar(text.into(), ScalarKind::Str) };
                NodeValue::Map(vec![(scalar("secret", key.span), scalar(&name, place.span))])
            }
            _ => NodeValue::Map(entries.into_iter().map(|(key, value)| (key, with_places(value))).collect()),
        },
        NodeValue::Seq(all) => NodeValue::Seq(all.into_iter().map(with_places).collect()),
        other => other,
    };
    Node { span: node.span, value }
}

/// Clear values for host configuration.
pub(crate) struct Places<'a>(pub(crate) &'a Cx);

impl Clear for Places<'_> {
    fn reveal(&self, name: &str) -> Result<String, Error> {
        let place = match name.split_once(':') {
            Some(("file", path)) => SecretRef::File(path.into()),
            Some(("env", variable)) => SecretRef::Env(variable.into()),
            Some((_, credential)) => SecretRef::Credential(credential.into()),
            None => return Err(Error::invalid("in host configuration a secret is {file|env|credential: …}")),
        };
        clear(&self.0.secrets.reveal(&place)?)
    }
    fn mark(&self, clear: &str) -> Hash {
        self.0.secrets.mark(clear.as_bytes()).0
    }
}

/// Clear values for manifests.
pub(crate) struct Named<'a>(pub(crate) &'a Cx);

impl Clear for Named<'_> {
    fn reveal(&self, name: &str) -> Result<String, Error> {
        clear(&self.0.secrets.reveal(&SecretRef::Named(name.into()))?)
    }
    fn mark(&self, clear: &str) -> Hash {
        self.0.secrets.mark(clear.as_bytes()).0
    }
}
