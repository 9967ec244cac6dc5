//! Annotations `reconciled/…`: how a manifest's resources may be treated and what comes before them.

use crate::config::Period;
use reconciled_engine::Selector;
use reconciled_provider::{
    Address, Adopt, Deletion, Drift, EntryPolicy, Node, Policy, Problem, SourceFile, Span,
    problem::did_you_mean, yaml::NodeValue,
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Prefix of the annotations that are ours.
pub(super) const PREFIX: &str = "reconciled/";

/// Every annotation there is, without the prefix.
pub(super) const KNOWN: [&str; 15] = [
    "provider",
    "deletion",
    "drift",
    "adopt",
    "suspend",
    "depends-on",
    "wave",
    "ignore",
    "lint-ignore",
    "hosts",
    "import",
    "moved-from",
    "merge",
    "policy",
    "interval",
];

/// How a selector is written.
pub(super) const SELECTOR: &str = "write terms as in role=web,env!=staging,!gpu,name in (a,b)";

/// Longest `interval`: whoever means longer means never.
const LONGEST_INTERVAL: Duration = Duration::from_secs(3_650 * 86_400);

/// What the annotations of a manifest say.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    pub(super) policy: Policy,
    pub(super) hosts: Option<Selector>,
    pub(super) providers: Vec<(Arc<str>, Span)>,
    pub(super) depends_on: Vec<(Address, Span)>,
    pub(super) wave: i32,
    pub(super) moved_from: Option<Address>,
}

/// Reads `metadata.annotations`; foreign ones are kept as they are.
pub(super) fn read(
    node: &Node,
    file: &SourceFile,
    problems: &mut Vec<Problem>,
) -> (BTreeMap<Arc<str>, Arc<str>>, Settings) {
    let (mut all, mut settings) = (BTreeMap::new(), Settings::default());
    for (key, value) in node.entries() {
        let word = key.as_str().unwrap_or("");
        let text = match &value.value {
            NodeValue::Scalar(text, _) => &**text,
            NodeValue::Null => "",
            _ => {
                let message = format!("expected text for annotation `{word}`, found {}", value.describe());
                problems.push(Problem::error(message).at(file, value.span));
                continue;
            }
        };
        all.insert(word.into(), text.into());
        let Some(ours) = word.strip_prefix(PREFIX) else { continue };
        if !KNOWN.contains(&ours) {
            let problem = Problem::error(format!("unknown annotation `{word}`")).at(file, key.span);
            problems.push(match did_you_mean(ours, KNOWN) {
                Some(near) => problem.hint(format!("did you mean `{PREFIX}{near}`?")),
                None => problem.hint(format!("known: {PREFIX}{}", KNOWN.join(&format!(", {PREFIX}")))),
            });
        } else if let Err((message, hint)) = settings.set(ours, text, value.span) {
            problems.push(Problem::error(format!("{word}: {message}")).at(file, value.span).hint(hint));
        }
    }
    settings.settle(node, file, problems);
    (all, settings)
}

type Refusal = (String, String);

fn one_of<T: Copy>(text: &str, values: &[(&str, T)]) -> Result<T, Refusal> {
    values.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(|| {
        let words: Vec<&str> = values.iter().map(|(word, _)| *word).collect();
        (format!("unknown value `{text}`"), format!("write one of: {}", words.join(", ")))
    })
}

fn address(text: &str) -> Result<Address, Refusal> {
    text.trim().parse().map_err(|_| {
        (format!("`{text}` is not an address"), "write KIND/NAME, as in Zone/example.com".into())
    })
}

fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

impl Settings {
    /// What must not be deleted while it is declared is not deleted when its manifest goes either: then nobody is left to
    /// forbid it.
    fn settle(&mut self, node: &Node, file: &SourceFile, problems: &mut Vec<Problem>) {
        let writes = self.policy.writes;
        match self.policy.deletion {
            _ if writes == EntryPolicy::Sync => {}
            None => self.policy.deletion = Some(Deletion::Abandon),
            Some(Deletion::Delete) => {
                let word = writes.word();
                let text =
                    format!("{PREFIX}policy: {word} and {PREFIX}deletion: delete contradict each other");
                let hint = "leave the deletion out: it is left as it is when its manifest goes";
                problems.push(Problem::error(text).at(file, node.span).hint(hint));
            }
            Some(Deletion::Abandon | Deletion::Protect) => {}
        }
    }
    fn set(&mut self, word: &str, text: &str, span: Span) -> Result<(), Refusal> {
        const SWITCH: [(&str, bool); 2] = [("true", true), ("false", false)];
        match word {
            "provider" => {
                self.providers = list(text).map(|name| (name.into(), span)).collect();
                if self.providers.is_empty() {
                    return Err(("no provider is named".into(), "write the name of a provider entry".into()));
                }
            }
            "deletion" => {
                let modes = [
                    ("delete", Deletion::Delete),
                    ("abandon", Deletion::Abandon),
                    ("protect", Deletion::Protect),
                ];
                self.policy.deletion = Some(one_of(text, &modes)?);
            }
            "drift" => {
                let modes = [("heal", Drift::Heal), ("warn", Drift::Warn), ("ignore", Drift::Ignore)];
                self.policy.drift = Some(one_of(text, &modes)?);
            }
            "adopt" => self.policy.adopt = adopt(text)?,
            "policy" => {
                let all = [
                    EntryPolicy::Observe,
                    EntryPolicy::CreateOnly,
                    EntryPolicy::UpsertOnly,
                    EntryPolicy::Sync,
                ];
                self.policy.writes = one_of(text, &all.map(|policy| (policy.word(), policy)))?;
            }
            "suspend" => self.policy.suspend = one_of(text, &SWITCH)?,
            "merge" => self.policy.merge = one_of(text, &SWITCH)?,
            "lint-ignore" => self.policy.lint_ignore = list(text).map(Arc::from).collect(),
            "ignore" => self.policy.ignore = list(text).map(Arc::from).collect(),
            "depends-on" => {
                self.depends_on =
                    list(text).map(|item| Ok((address(item)?, span))).collect::<Result<_, Refusal>>()?;
            }
            "wave" => {
                self.wave = text
                    .parse()
                    .map_err(|_| (format!("`{text}` is not a wave"), "write a whole number".into()))?;
            }
            "interval" => {
                let hint = "write a duration such as 1h; 0: never again while nothing changes";
                let period = match text {
                    "0" => Ok(Period(Duration::ZERO)),
                    _ => text.parse::<Period>(),
                };
                let Period(interval) = period.map_err(|error| (error.to_string(), hint.into()))?;
                if interval > LONGEST_INTERVAL {
                    return Err((format!("`{text}` is more than ten years"), hint.into()));
                }
                // Shorter than a second would be no interval, and 0 means the opposite.
                if !interval.is_zero() && interval < Duration::from_secs(1) {
                    return Err((format!("`{text}` is less than a second"), hint.into()));
                }
                self.policy.interval = Some(interval);
            }
            "hosts" => {
                self.hosts = Some(text.parse().map_err(|e| (format!("{e}"), SELECTOR.into()))?);
            }
            "moved-from" => self.moved_from = Some(address(text)?),
            "import" if text.is_empty() => {
                return Err(("no id is given".into(), "write the id the remote gave the resource".into()));
            }
            // The id to import is read by the backend, from the annotations.
            _ => {}
        }
        Ok(())
    }
}

fn adopt(text: &str) -> Result<Adopt, Refusal> {
    match text {
        "true" => Ok(Adopt::Always),
        "never" => Ok(Adopt::Never),
        "octodns" => Ok(Adopt::From(text.into())),
        _ if text.strip_prefix("externaldns/").is_some_and(|owner| !owner.is_empty()) => {
            Ok(Adopt::From(text.into()))
        }
        _ => Err((
            format!("unknown value `{text}`"),
            "write \"true\", never, octodns or externaldns/OWNER".into(),
        )),
    }
}
