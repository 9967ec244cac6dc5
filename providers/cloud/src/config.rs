//! One entry of the host configuration: `type: terraform`.

use crate::{
    Handover, Mark,
    find::Program,
    hidden::Hidden,
    schema::{
        Block,
        canonical::{self, Clear},
        config::{Reader, Source},
    },
};
use reconciled_provider::{
    Cx, Error, Hash, Node, Problem, Secret, SecretRef, SourceFile, Span, yaml::NodeValue,
};
use std::{path::PathBuf, sync::Arc, time::Duration};

/// What an entry says.
#[derive(Clone, Debug)]
pub struct Config {
    /// `hashicorp/aws`: tells people what it is, and which prefix its types have.
    pub source: Arc<str>,
    /// The provider's program.
    pub program: Program,
    /// What the provider itself is to be told, by its own schema; secrets are `{file|env|credential|exec: …}`.
    pub config: Option<Node>,
    /// Variables that its process sees.
    pub environment: Vec<(String, Given)>,
    /// It may listen at an address of this machine, where every user can reach it.
    pub allow_tcp: bool,
    /// The file the entry is in.
    pub file: Arc<SourceFile>,
    /// Where the entry begins.
    pub span: Span,
    /// How long a write may stay unseen by reads.
    pub settle: Duration,
    /// How long each call may take that changes nothing.
    pub timeout: Duration,
    /// A process that nobody needed for so long ends; none does, where it is missing.
    pub idle: Option<Duration>,
    /// A process is replaced after so many calls: some providers grow.
    pub max_calls: u64,
    /// Where schemas are kept from one start to the next; nowhere, if there is no such folder.
    pub cache: Option<PathBuf>,
    /// A program and its first arguments that see to it that a provider ends when this process does.
    pub keeper: Vec<PathBuf>,
    /// The socket of a unit that starts the provider with fewer rights, in place of this process.
    pub sandbox: Option<PathBuf>,
    /// Where states wait that were taken from a state file.
    pub handover: Option<Arc<dyn Handover>>,
    /// How it is written on resources whose they are; not at all where nobody says so.
    pub mark: Option<Mark>,
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
    /// What [`Config::idle`] is where nobody says so.
    pub const IDLE: Duration = Duration::from_secs(300);
    /// What [`Config::timeout`] is where nobody says so: as long as a look at one resource may take in all.
    pub const TIMEOUT: Duration = Duration::from_secs(300);
    /// What [`Config::max_calls`] is where nobody says so.
    pub const MAX_CALLS: u64 = 200_000;

    /// The group of its kinds: `aws` of `hashicorp/aws`.
    pub fn group(&self) -> &str {
        self.source.rsplit('/').next().unwrap_or_default()
    }

    /// The secrets among the variables, in clear.
    pub(crate) fn secret_variables(&self, cx: &Cx) -> Result<Vec<Arc<str>>, Error> {
        let secrets = self.environment.iter().filter_map(|(_, given)| match given {
            Given::Secret(place) => Some(place),
            Given::Text(_) => None,
        });
        secrets.map(|place| Ok(clear(&cx.secrets.reveal(place)?)?.into())).collect()
    }

    /// What tells one account from another: all that the entry says, and of its secrets where they are.
    pub(crate) fn account(&self, declared: &serde_json::Value) -> Hash {
        let mut said = declared.to_string();
        for (name, given) in &self.environment {
            said += &match given {
                Given::Text(text) => format!("\n{name}={text}"),
                Given::Secret(place) => format!("\n{name}={place:?}"),
            };
        }
        Hash::of(said.as_bytes())
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
        let node = self.config.as_ref().unwrap_or(&nothing);
        let mut reader = Reader::new(self);
        let declared = reader.block(node, block, self.span, &[]);
        match reader.problems.into_iter().find(Problem::is_error) {
            None => Ok(declared),
            Some(problem) => {
                let place = problem.place.as_ref().map(|place| format!("{}:{}: ", place.file, place.line));
                let error = Error::invalid(format!("{}{}", place.unwrap_or_default(), problem.message));
                Err(error.hint_if(problem.hint))
            }
        }
    }
}

fn clear(secret: &Secret) -> Result<String, Error> {
    Ok(secret.reveal_str()?.to_string())
}

impl Source for Config {
    /// A secret by its place, `{env: TOKEN}`, goes by the name `env:TOKEN`; one that a command prints by its words in JSON.
    fn secret(&self, node: &Node) -> Option<String> {
        let [(key, place)] = node.entries() else { return None };
        match (key.as_str()?, &place.value) {
            (EXEC, NodeValue::Seq(argv)) => {
                let argv: Vec<&str> = argv.iter().map(Node::as_str).collect::<Option<_>>()?;
                argv.first().filter(|program| !program.is_empty())?;
                Some(format!("{EXEC}:{}", serde_json::json!(argv)))
            }
            (key, _) if PLACES.contains(&key) => Some(format!("{key}:{}", place.as_str()?)),
            _ => None,
        }
    }
    fn form(&self) -> &'static str {
        "{file: PATH}, {env: NAME}, {credential: NAME} or {exec: [PROGRAM, ARGUMENT]}"
    }
    fn mark(&self, _: &str) -> Result<String, Error> {
        Ok(String::new())
    }
    fn problem(&self, span: Span, message: String) -> Problem {
        Problem::error(message).at(&self.file, span)
    }
}

const PLACES: [&str; 3] = ["file", "env", "credential"];
const EXEC: &str = "exec";

/// Clear values for host configuration.
pub(crate) struct Places<'a>(pub(crate) &'a Cx, pub(crate) Hidden);

impl Clear for Places<'_> {
    fn reveal(&self, name: &str) -> Result<String, Error> {
        let no_place = || Error::invalid("in host configuration a secret is {file|env|credential|exec: …}");
        let place = match name.split_once(':') {
            Some(("file", path)) => SecretRef::File(path.into()),
            Some(("env", variable)) => SecretRef::Env(variable.into()),
            Some((EXEC, argv)) => {
                let argv: Vec<String> = serde_json::from_str(argv).map_err(|_| no_place())?;
                SecretRef::Exec(argv.into_iter().map(Arc::from).collect())
            }
            Some((_, credential)) => SecretRef::Credential(credential.into()),
            None => return Err(no_place()),
        };
        clear(&self.0.secrets.reveal(&place)?)
    }
    fn mark(&self, clear: &str) -> Hash {
        self.0.secrets.mark(clear.as_bytes()).0
    }
    fn hidden(&self) -> &Hidden {
        &self.1
    }
}

/// Clear values for manifests, and what of them must not be seen.
pub(crate) struct Named<'a> {
    cx: &'a Cx,
    hidden: Hidden,
}

impl<'a> Named<'a> {
    /// What a declaration names, and what was put into the resource before.
    ///
    /// Errors: a secret that cannot be read.
    pub(crate) fn of(
        cx: &'a Cx,
        declared: Option<&serde_json::Value>,
        before: impl IntoIterator<Item = Arc<str>>,
    ) -> Result<Named<'a>, Error> {
        let nothing = Named { cx, hidden: Hidden::default() };
        let now = declared.map(|declared| canonical::revealed(declared, &nothing)).transpose()?;
        Ok(Named { cx, hidden: now.into_iter().flatten().chain(before).collect() })
    }

    /// The same, for what is shown: with `hidden` in place of what must not be seen otherwise.
    pub(crate) fn hiding(&self, hidden: Hidden) -> Named<'a> {
        Named { cx: self.cx, hidden }
    }
}

impl Clear for Named<'_> {
    fn reveal(&self, name: &str) -> Result<String, Error> {
        clear(&self.cx.secrets.reveal(&SecretRef::Named(name.into()))?)
    }
    fn mark(&self, clear: &str) -> Hash {
        self.cx.secrets.mark(clear.as_bytes()).0
    }
    fn hidden(&self) -> &Hidden {
        &self.hidden
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{schema::Schema, wire::message};
    use reconciled_provider::yaml;
    use reconciled_testkit::context::{TableSecrets, cx_with};
    use serde_json::{Value as Json, json};

    fn declared(text: &str) -> Result<Json, Error> {
        let attribute = |name: &str, of: &str| message::Attribute {
            name: name.into(),
            type_json: of.as_bytes().to_vec(),
            optional: true,
            ..message::Attribute::default()
        };
        let attributes = vec![
            attribute("token", r#""string""#),
            attribute("version", r#""string""#),
            attribute("tags", r#"["map","string"]"#),
            attribute("any", r#""dynamic""#),
        ];
        let block = message::Block { attributes, ..Default::default() };
        let schema = Schema::of(message::Schema { version: 0, block: Some(block) }).unwrap();
        let file = Arc::new(SourceFile::new("config.yaml", text));
        let node = yaml::parse(&file, yaml::Limits::default()).unwrap().remove(0);
        let config = Config {
            source: "example/toy".into(),
            program: Program::At("/toy".into()),
            span: node.span,
            config: Some(node),
            environment: Vec::new(),
            allow_tcp: false,
            file,
            settle: Duration::ZERO,
            timeout: Config::TIMEOUT,
            idle: None,
            max_calls: Config::MAX_CALLS,
            cache: None,
            keeper: Vec::new(),
            sandbox: None,
            handover: None,
            mark: None,
        };
        config.declared(&schema.block)
    }

    #[test]
    fn a_place_of_a_secret_is_one_only_where_a_scalar_is_wanted() {
        let found = declared("token: {file: /k}\ntags: {file: /k}\n").unwrap();
        assert_eq!(found["token"]["$secret"], "file:/k");
        assert_eq!(found["tags"], json!({ "file": "/k" }));
    }

    #[test]
    fn a_secret_of_manifests_is_none_of_the_configuration() {
        let error = declared("token: {secret: infra}\n").unwrap_err();
        assert_eq!(error.message, "config.yaml:1: expected text for `token`, found a mapping");
        assert_eq!(
            error.hint.as_deref(),
            Some(
                "a secret is written {file: PATH}, {env: NAME}, {credential: NAME} or {exec: [PROGRAM, ARGUMENT]} here"
            )
        );
    }

    #[test]
    fn each_place_of_a_secret_is_where_it_is_read() {
        let exec = SecretRef::Exec(["pass", "show", "a \"b\": c"].map(Arc::from).into());
        for (text, place) in [
            ("{file: /k}", SecretRef::File("/k".into())),
            ("{env: K}", SecretRef::Env("K".into())),
            ("{credential: k}", SecretRef::Credential("k".into())),
            ("{exec: [pass, show, 'a \"b\": c']}", exec),
        ] {
            let declared = declared(&format!("token: {text}")).unwrap();
            let cx = cx_with(TableSecrets([(place, b"hunter2".to_vec())].into()));
            let clear = canonical::revealed(&declared, &Places(&cx, Hidden::default())).unwrap();
            assert_eq!(clear.iter().map(|one| &**one).collect::<Vec<_>>(), ["hunter2"], "{text}");
        }
        for wrong in ["{exec: []}", "{exec: [[a]]}", "{exec: pass}", "{exec: ['']}"] {
            let error = declared(&format!("token: {wrong}")).unwrap_err();
            assert!(error.message.contains("expected text for `token`"), "{error}");
        }
    }

    #[test]
    fn what_marks_a_secret_cannot_be_written() {
        for wrong in
            ["tags: {$secret: x}", "any: {$secret: x}", "any: {a: {$unknown: x}}", "any: [{$mark: x}]"]
        {
            let error = declared(wrong).unwrap_err();
            assert!(error.message.starts_with("config.yaml:1: the key `$"), "{error}");
        }
    }

    #[test]
    fn a_number_is_a_text_as_it_is_written() {
        for text in ["8.0", "012", "1e3", "-0"] {
            assert_eq!(declared(&format!("version: {text}")).unwrap()["version"], text);
        }
    }
}
