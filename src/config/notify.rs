//! The key `notify`: who is told when something is not well, and how.
//!
//! An address may itself be a secret, as Slack's is: it is written as text or as the place of a secret.

use super::{
    Period, SecretPlace,
    decode::{OneOrMore, decode_all},
    secret_place::FORMS,
    telemetry::http,
    values::from_text,
};
use lettre::message::Mailbox;
use reconciled_provider::{
    Node, Problem, SecretRef, SourceFile, Span,
    yaml::{NodeValue, unshown},
};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};
use std::{collections::BTreeSet, fmt, str::FromStr, sync::Arc, time::Duration};
use url::Url;

/// Somebody who is told.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// Name.
    pub name: Arc<str>,
    /// Of what.
    pub on: BTreeSet<Topic>,
    /// How long it must last, and be over, before that is told.
    pub settle: Duration,
    /// A page for people, shown with every message.
    pub link: Option<Url>,
    /// How.
    pub way: Way,
    /// Where the entry begins in the configuration.
    pub span: Span,
}

/// What is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topic {
    /// It fails, or a person must act.
    Degraded,
    /// A person must consent.
    Held,
    /// Somebody stopped it.
    Suspended,
    /// It will not be valid for long.
    Expiring,
    /// What was told of is over.
    Recovered,
    /// Nothing: somebody tries the way. Not for `on`.
    #[serde(skip_deserializing)]
    Test,
}

impl Topic {
    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Topic::Degraded => "degraded",
            Topic::Held => "held",
            Topic::Suspended => "suspended",
            Topic::Expiring => "expiring",
            Topic::Recovered => "recovered",
            Topic::Test => "test",
        }
    }
    /// The topic of a word.
    pub fn of(word: &str) -> Option<Topic> {
        let all =
            [Topic::Degraded, Topic::Held, Topic::Suspended, Topic::Expiring, Topic::Recovered, Topic::Test];
        all.into_iter().find(|topic| topic.word() == word)
    }
}

/// How somebody is told.
#[derive(Clone, Debug)]
pub enum Way {
    /// A POST of JSON, or of what a template makes.
    Webhook {
        /// Where.
        url: Place,
        /// Key of the signature.
        secret: Option<SecretRef>,
        /// Makes the body.
        template: Option<Arc<str>>,
        /// Media type of the body.
        content_type: Arc<str>,
    },
    /// An incoming webhook of Slack, or of a chat that speaks the same.
    Slack {
        /// Where.
        url: Place,
    },
    /// Prometheus' Alertmanager, API v2.
    Alertmanager {
        /// Its base.
        url: Place,
        /// Bearer token.
        token: Option<SecretRef>,
    },
    /// ntfy.
    Ntfy {
        /// The topic.
        url: Place,
        /// Access token.
        token: Option<SecretRef>,
    },
    /// Mail over SMTP.
    Email(Email),
}

/// Mail over SMTP.
#[derive(Clone, Debug)]
pub struct Email {
    /// Host of the server.
    pub host: String,
    /// Port of the server.
    pub port: u16,
    /// How the connection is protected.
    pub tls: Tls,
    /// Who logs in, if anybody.
    pub login: Option<(String, SecretRef)>,
    /// Sender.
    pub from: Mailbox,
    /// Recipients.
    pub to: Vec<Mailbox>,
}

/// How a connection to a mail server is protected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tls {
    /// It begins in clear and must become TLS.
    #[default]
    Starttls,
    /// TLS from the first byte.
    Tls,
    /// Not at all.
    None,
}

/// An address, in the file or kept as a secret.
#[derive(Clone, Debug)]
pub enum Place {
    /// In the file.
    Plain(Url),
    /// A secret.
    Secret(SecretRef),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawReceiver {
    name: String,
    r#type: Type,
    #[serde(default = "usual")]
    on: BTreeSet<Topic>,
    #[serde(rename = "for")]
    settle: Option<Period>,
    link: Option<Address>,
    url: Option<RawPlace>,
    secret: Option<SecretPlace>,
    template: Option<String>,
    content_type: Option<String>,
    token: Option<SecretPlace>,
    server: Option<String>,
    tls: Option<Tls>,
    username: Option<String>,
    password: Option<SecretPlace>,
    from: Option<Mail>,
    to: Option<OneOrMore<String>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Type {
    Webhook,
    Slack,
    Alertmanager,
    Ntfy,
    Email,
}

impl Type {
    /// Keys beside `name`, `type`, `on`, `for` and `link`.
    fn keys(self) -> &'static [&'static str] {
        match self {
            Type::Webhook => &["url", "secret", "template", "contentType"],
            Type::Slack => &["url"],
            Type::Alertmanager | Type::Ntfy => &["url", "token"],
            Type::Email => &["server", "tls", "username", "password", "from", "to"],
        }
    }
}

fn usual() -> BTreeSet<Topic> {
    BTreeSet::from([Topic::Degraded, Topic::Held, Topic::Expiring, Topic::Recovered])
}

struct Address(Url);

impl FromStr for Address {
    type Err = String;
    fn from_str(text: &str) -> Result<Address, String> {
        // The text is not repeated: what is wrong with it may be the password in it.
        http(text)
            .map(Address)
            .ok_or_else(|| "not an address of http or https, or one with a password in it".to_owned())
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Address, D::Error> {
        from_text(deserializer)
    }
}

struct Mail(Mailbox);

impl FromStr for Mail {
    type Err = String;
    fn from_str(text: &str) -> Result<Mail, String> {
        text.parse().map(Mail).map_err(|_| format!("`{text}` is not an address of mail"))
    }
}

impl<'de> Deserialize<'de> for Mail {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Mail, D::Error> {
        from_text(deserializer)
    }
}

struct RawPlace(Place);

impl<'de> Deserialize<'de> for RawPlace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RawPlace, D::Error> {
        struct PlaceVisitor;
        impl<'de> Visitor<'de> for PlaceVisitor {
            type Value = RawPlace;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(
                    f,
                    "an address of http or https without a password in it, or the place of a secret: {FORMS}"
                )
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<RawPlace, E> {
                let address: Address = text.parse().map_err(E::custom)?;
                Ok(RawPlace(Place::Plain(address.0)))
            }
            fn visit_map<A: MapAccess<'de>>(self, access: A) -> Result<RawPlace, A::Error> {
                let place = SecretPlace::deserialize(MapAccessDeserializer::new(access))?;
                Ok(RawPlace(Place::Secret(place.0)))
            }
        }
        // An address may be a secret.
        unshown(deserializer, PlaceVisitor)
    }
}

const SETTLE: Duration = Duration::from_secs(30);

/// Reads one receiver; none when something is wrong with it.
pub(super) fn read(node: &Node, file: &SourceFile, problems: &mut Vec<Problem>) -> Option<Receiver> {
    let raw = decode_all::<RawReceiver>(node, file, problems)?;
    let before = problems.len();
    let mut error = |key: &str, message: String, hint: &str| {
        let span = node.entry(key).map_or(node.span, |(key, _)| key.span);
        problems.push(Problem::error(message).at(file, span).hint(hint));
    };
    let general = ["name", "type", "on", "for", "link"];
    for key in node.entries().iter().filter_map(|(key, _)| key.as_str()) {
        if !general.contains(&key) && !raw.r#type.keys().contains(&key) {
            let message = format!("`{key}` is not for this type of receiver");
            error(key, message, &format!("keys of this type: {}", raw.r#type.keys().join(", ")));
        }
    }
    let is_empty = |list: &Node| matches!(&list.value, NodeValue::Seq(items) if items.is_empty());
    if node.get("on").is_some_and(is_empty) {
        let message = format!("receiver `{}` would be told of nothing", raw.name);
        error(
            "on",
            message,
            "leave `on` out for what is told usually, or write on: [degraded, held, recovered]",
        );
    }
    if let Some(text) = &raw.template
        && let Err(wrong) = minijinja::Environment::new().template_from_str(text)
    {
        let line = wrong.line().map(|line| format!(", line {line}")).unwrap_or_default();
        let message = format!("the template cannot be read: {}{line}", wrong.kind());
        error("template", message, "see docs/notifications.md for what a template is given");
    }
    let needs_url = |error: &mut dyn FnMut(&str, String, &str)| {
        if node.get("url").is_some() {
            // It is wrong, and that is said.
            return None;
        }
        let message = format!("receiver `{}` has no `url`", raw.name);
        error("name", message, "write url: \"https://…\", or url: {credential: NAME} where it is a secret");
        None
    };
    let secret = |place: &Option<SecretPlace>| place.as_ref().map(|place| place.0.clone());
    let way = match (raw.r#type, raw.url) {
        (Type::Email, _) => {
            email(raw.server, raw.tls, raw.username, raw.password, raw.from, raw.to, &mut error)
        }
        (_, None) => needs_url(&mut error),
        (Type::Slack, Some(RawPlace(Place::Plain(_)))) => {
            let hint = "keep it in a file or a credential: url: {credential: NAME}";
            let message = "whoever knows this address can write to the channel: it is a secret";
            let span = node.entry("url").map_or(node.span, |(key, _)| key.span);
            problems.push(Problem::error(message).at(file, span).without_line().hint(hint));
            None
        }
        (Type::Slack, Some(RawPlace(url))) => Some(Way::Slack { url }),
        (Type::Alertmanager, Some(RawPlace(url))) => {
            Some(Way::Alertmanager { url, token: secret(&raw.token) })
        }
        (Type::Ntfy, Some(RawPlace(url))) => Some(Way::Ntfy { url, token: secret(&raw.token) }),
        (Type::Webhook, Some(RawPlace(url))) => Some(Way::Webhook {
            url,
            secret: secret(&raw.secret),
            template: raw.template.map(Arc::from),
            content_type: raw.content_type.map_or_else(|| "application/json".into(), Arc::from),
        }),
    };
    let is_good = problems.len() == before;
    let way = way.filter(|_| is_good)?;
    let settle = raw.settle.map_or(SETTLE, |period| period.0);
    let link = raw.link.map(|address| address.0);
    Some(Receiver { name: raw.name.into(), on: raw.on, settle, link, way, span: node.span })
}

fn email(
    server: Option<String>,
    tls: Option<Tls>,
    username: Option<String>,
    password: Option<SecretPlace>,
    from: Option<Mail>,
    to: Option<OneOrMore<String>>,
    error: &mut dyn FnMut(&str, String, &str),
) -> Option<Way> {
    let tls = tls.unwrap_or_default();
    let usual = match tls {
        Tls::Starttls => 587,
        Tls::Tls => 465,
        Tls::None => 25,
    };
    let server = server.unwrap_or_default();
    let (host, port) = match server.rsplit_once(':') {
        Some((host, port)) => (host.to_owned(), port.parse().ok()),
        None => (server.clone(), Some(usual)),
    };
    let Some(port) = port.filter(|_| !host.is_empty()) else {
        error("server", format!("`{server}` is not a mail server"), "write server: HOST or HOST:PORT");
        return None;
    };
    let login = match (username, password) {
        (None, None) => None,
        (Some(name), Some(password)) => Some((name, password.0)),
        _ => {
            error("username", "`username` and `password` belong together".into(), "write both or none");
            return None;
        }
    };
    if login.is_some() && tls == Tls::None {
        error("tls", "a password is not sent in clear".into(), "write tls: starttls or tls: tls");
        return None;
    }
    let mut recipients = Vec::new();
    for text in to.map(|to| to.0).unwrap_or_default() {
        match text.parse::<Mail>() {
            Ok(mail) => recipients.push(mail.0),
            Err(wrong) => error("to", wrong, "write NAME@HOST or \"Name <NAME@HOST>\""),
        }
    }
    let (Some(from), false) = (from, recipients.is_empty()) else {
        error("name", "mail needs a sender and recipients".into(), "write from: ADDRESS and to: [ADDRESS]");
        return None;
    };
    Some(Way::Email(Email { host, port, tls, login, from: from.0, to: recipients }))
}
