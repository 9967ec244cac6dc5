//! What a message says: who, what, since when, why, and what to type.

use crate::{config::Topic, store::Stamp, text::cut};
use serde::{Deserialize, Serialize};

/// Subjects that are named; of more the number is told.
const NAMED: usize = 10;
/// Characters of a cause.
const CAUSE: usize = 600;

/// What is known of a trouble beside its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Body {
    /// The entry it lies behind.
    pub(super) provider: Option<String>,
    /// The source it is of.
    pub(super) source: Option<String>,
    pub(super) since: Stamp,
    pub(super) cause: String,
    pub(super) hint: Option<String>,
    /// Resources that are concerned.
    pub(super) count: usize,
}

impl Body {
    pub(super) fn new(since: Stamp) -> Body {
        Body { provider: None, source: None, since, cause: String::new(), hint: None, count: 1 }
    }
}

/// A message, as templates and the default webhook see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Name of the instance.
    pub instance: String,
    /// `degraded`, `held`, `suspended`, `expiring`, `recovered` or `test`.
    pub topic: String,
    /// What is over, where the topic is `recovered`.
    pub of: Option<String>,
    /// The entry it is about.
    pub provider: Option<String>,
    /// The source it is about.
    pub source: Option<String>,
    /// One word for machines.
    pub reason: String,
    /// Scopes, domains or sources, as `subjects` would name all of them.
    pub count: usize,
    /// The first of them.
    pub subjects: Vec<String>,
    /// How many of the same are not over, where the topic is `recovered`.
    pub remaining: usize,
    /// Since when.
    pub since: Stamp,
    /// When this was decided.
    pub at: Stamp,
    /// Why.
    pub cause: String,
    /// What to type.
    pub hint: Option<String>,
    /// One line.
    pub title: String,
    /// All of it, for people.
    pub text: String,
}

/// What belongs into one message.
pub(super) struct Group<'a> {
    pub(super) instance: &'a str,
    /// What was told of is over.
    pub(super) is_over: bool,
    pub(super) topic: Topic,
    pub(super) reason: &'a str,
    pub(super) members: Vec<(&'a str, &'a Body)>,
    pub(super) remaining: usize,
    pub(super) at: Stamp,
}

impl Group<'_> {
    pub(super) fn message(&self) -> Message {
        let first = self.members.first().map(|(_, body)| *body);
        // Nothing began later than now: that was a clock that was ahead, or this one is behind.
        let since = self.members.iter().map(|(_, body)| body.since).fold(self.at, Stamp::min);
        let subjects: Vec<String> = self.members.iter().take(NAMED).map(|(s, _)| s.to_string()).collect();
        let count = self.members.len();
        let topic = if self.is_over { Topic::Recovered } else { self.topic };
        let provider = first.and_then(|body| body.provider.clone());
        let what = match (count, &provider) {
            (0 | 1, _) => subjects.first().cloned().unwrap_or_default(),
            (_, Some(provider)) => format!("{count} of {provider}"),
            (_, None) => format!("{count} subjects"),
        };
        let said = if self.is_over { format!("{} is over", self.reason) } else { self.reason.to_owned() };
        let title = format!("{}: {}: {what}: {said}", self.instance, topic.word());
        let cause = first.map(|body| cut(&body.cause, CAUSE).into_owned()).unwrap_or_default();
        let hint = match (self.is_over, count, self.topic) {
            (true, ..) => None,
            (_, 0 | 1, _) => first.and_then(|body| body.hint.clone()),
            (_, _, Topic::Held) => Some("reconciled approvals".to_owned()),
            _ => Some("reconciled status".to_owned()),
        };
        let mut text = format!("{title}\n");
        if count > 1 {
            let more = if count > NAMED { format!(" and {} more", count - NAMED) } else { String::new() };
            text += &format!("{}{more}\n", subjects.join(", "));
        }
        text += &match self.is_over {
            true => format!("from {since} until {}\n", self.at),
            false => format!("since {since}\n"),
        };
        if self.remaining > 0 {
            text += &format!("not over: {}\n", self.remaining);
        }
        text += &format!("{}: {cause}\n", if self.is_over { "it was" } else { "cause" });
        let hint = hint.or_else(|| (!self.is_over).then(|| "reconciled status".to_owned()));
        if let Some(hint) = &hint {
            text += &format!("to do: {hint}\n");
        }
        Message {
            instance: self.instance.to_owned(),
            topic: topic.word().to_owned(),
            of: self.is_over.then(|| self.topic.word().to_owned()),
            provider,
            source: first.and_then(|body| body.source.clone()),
            reason: self.reason.to_owned(),
            count,
            subjects,
            remaining: self.remaining,
            since,
            at: self.at,
            cause,
            hint,
            title,
            text,
        }
    }
}

/// A message that says that the way works.
pub fn sample(instance: &str, at: Stamp) -> Message {
    let title = format!("{instance}: test: this way works");
    Message {
        instance: instance.to_owned(),
        topic: Topic::Test.word().to_owned(),
        of: None,
        provider: None,
        source: None,
        reason: "Test".to_owned(),
        count: 0,
        subjects: Vec::new(),
        remaining: 0,
        since: at,
        at,
        cause: "somebody typed `reconciled notify test`".to_owned(),
        hint: None,
        text: format!("{title}\nsomebody typed `reconciled notify test` at {at}; nothing is the matter\n"),
        title,
    }
}
