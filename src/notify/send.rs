//! A message on its way: what each kind of receiver is sent.
//!
//! Guarantees: an error names the receiver's host at most; its address and its tokens may be secrets. A call has an
//! end. It deliberately tries once: when again is the outbox's.

use super::{email, error::SendError, message::Message};
use crate::{
    config::{Place, Receiver, Topic, Way},
    http,
    store::Stamp,
    text::{cut, time::rfc3339},
};
use data_encoding::HEXLOWER;
use reconciled_provider::{SecretRef, Secrets};
use reqwest::{RequestBuilder, Url, header::HeaderValue};
use ring::hmac;
use serde_json::{Value, json};
use std::{fmt::Write as _, time::Duration};

/// How long an alert stands without being told again; it is told again four times as often.
pub(super) const STANDS: Duration = Duration::from_secs(240);

/// Characters of a message that Slack is sent: it refuses a section of more than 3,000, and the link has to have room.
const SECTION: usize = 2_000;

/// Sends `message` to `receiver`. `id` is the same at each attempt.
pub async fn send(
    receiver: &Receiver,
    message: &Message,
    id: &str,
    secrets: &dyn Secrets,
) -> Result<(), SendError> {
    let link = receiver.link.as_ref();
    match &receiver.way {
        Way::Webhook { url, secret, template, content_type } => {
            let body = match template {
                Some(template) => rendered(template, message)?,
                None => serde_json::to_string(message).expect("plain data has a JSON form"),
            };
            let mut request = post(url, None, secrets)?
                .header("content-type", content_type.as_ref())
                .header("x-reconciled-delivery", id);
            if let Some(secret) = secret {
                let key = hmac::Key::new(hmac::HMAC_SHA256, secrets.reveal(secret)?.reveal());
                let signature = HEXLOWER.encode(hmac::sign(&key, body.as_bytes()).as_ref());
                request = request.header("x-reconciled-signature", format!("sha256={signature}"));
            }
            http::send(request.body(body)).await?;
        }
        Way::Slack { url } => drop(http::send(post(url, None, secrets)?.json(&slack(message, link))).await?),
        Way::Alertmanager { url, token } => {
            // What is not over for all of them is not over.
            if message.remaining == 0 {
                alert(url, token.as_ref(), &[message], link, secrets).await?;
            }
        }
        Way::Ntfy { url, token } => {
            let mut request = authorized(post(url, None, secrets)?, token.as_ref(), secrets)?
                .header("title", ascii(&message.title))
                .header("priority", if urgent(message) { "high" } else { "default" })
                .header("tags", tag(message));
            if let Some(link) = link {
                request = request.header("click", link.as_str());
            }
            http::send(request.body(message.text.clone())).await?;
        }
        Way::Email(mail) => email::send(mail, message, id, link, secrets).await?,
    }
    Ok(())
}

/// Sends alerts to an Alertmanager: those that stand, until they are told again, and those that are over.
pub(super) async fn alert(
    url: &Place,
    token: Option<&SecretRef>,
    messages: &[&Message],
    link: Option<&Url>,
    secrets: &dyn Secrets,
) -> Result<(), SendError> {
    let alerts: Vec<Value> = messages.iter().map(|message| alert_of(message, link)).collect();
    let request = authorized(post(url, Some("api/v2/alerts"), secrets)?, token, secrets)?;
    http::send(request.json(&alerts)).await?;
    Ok(())
}

fn alert_of(message: &Message, link: Option<&Url>) -> Value {
    let topic = message.of.as_deref().unwrap_or(&message.topic);
    let mut name = topic.to_owned();
    name.get_mut(..1).map(str::make_ascii_uppercase);
    // Only what stays the same while it lasts: labels are what an alert is known by.
    let mut labels = json!({
        "alertname": format!("Reconciled{name}"),
        "instance": message.instance,
        "reason": message.reason,
        "severity": if topic == "degraded" { "critical" } else { "warning" },
    });
    let (subject, value) = match (&message.provider, &message.source) {
        (Some(provider), _) => ("provider", provider.clone()),
        (None, Some(source)) => ("source", source.clone()),
        (None, None) => ("subject", message.subjects.first().cloned().unwrap_or_default()),
    };
    labels[subject] = value.into();
    let mut annotations = json!({"summary": message.title, "description": message.text});
    if let Some(hint) = &message.hint {
        annotations["hint"] = hint.as_str().into();
    }
    let ends = match message.of {
        Some(_) => message.at.0,
        None => message.at.0 + STANDS,
    };
    let mut alert = json!({
        "labels": labels,
        "annotations": annotations,
        "startsAt": rfc3339(message.since.0.min(ends)),
        "endsAt": rfc3339(ends),
    });
    if let Some(link) = link {
        alert["generatorURL"] = link.as_str().into();
    }
    alert
}

fn slack(message: &Message, link: Option<&Url>) -> Value {
    // The three characters that steer Slack's markup.
    let escape = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let mut text = String::new();
    for (index, line) in message.text.lines().enumerate() {
        let _ = match index {
            0 => writeln!(text, "*{}*", escape(line)),
            _ => writeln!(text, "{}", escape(line)),
        };
    }
    let mut text = cut(&text, SECTION).into_owned();
    if let Some(link) = link {
        let line = if text.ends_with('\n') { "" } else { "\n" };
        let _ = writeln!(text, "{line}<{link}>");
    }
    json!({
        "text": escape(&message.title),
        "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": text}}],
    })
}

/// Why the template of a receiver fails, with the message of a test or with one of a topic that it is told; none where it does not,
/// or there is none.
pub fn template_error(receiver: &Receiver) -> Option<String> {
    let Way::Webhook { template: Some(template), .. } = &receiver.way else { return None };
    let message = super::sample("instance", Stamp::default());
    let topics = receiver.on.iter().map(|topic| topic.word().to_owned());
    let mut messages =
        topics.chain([message.topic.clone()]).map(|topic| Message { topic, ..message.clone() });
    messages.find_map(|message| rendered(template, &message).err()).map(|error| error.text)
}

fn rendered(template: &str, message: &Message) -> Result<String, SendError> {
    let mut environment = minijinja::Environment::new();
    environment.set_undefined_behavior(minijinja::UndefinedBehavior::Strict);
    environment.render_str(template, minijinja::value::Serde(message)).map_err(|error| {
        let detail = error.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
        SendError::new(format!("the template fails: {}{detail}", error.kind()), true)
    })
}

/// Why what holds the address of a receiver holds none; none where it does, or cannot be read.
pub fn address_error(receiver: &Receiver, secrets: &dyn Secrets) -> Option<String> {
    let (Way::Webhook { url: place, .. }
    | Way::Slack { url: place }
    | Way::Alertmanager { url: place, .. }
    | Way::Ntfy { url: place, .. }) = &receiver.way
    else {
        return None;
    };
    let Place::Secret(reference) = place else { return None };
    secrets.reveal(reference).ok()?;
    address(place, secrets).err().map(|error| error.text)
}

fn address(place: &Place, secrets: &dyn Secrets) -> Result<Url, SendError> {
    let reference = match place {
        Place::Plain(url) => return Ok(url.clone()),
        Place::Secret(reference) => reference,
    };
    let secret = secrets.reveal(reference)?;
    let text = std::str::from_utf8(secret.reveal()).ok().map(str::trim);
    let url = text.and_then(|text| Url::parse(text).ok()).filter(|url| url.has_host());
    let place = crate::config::describe_secret(reference);
    url.ok_or_else(|| SendError::new(format!("{place} does not hold an address of http or https"), false))
}

/// A POST to a place, or to a path below it.
fn post(place: &Place, path: Option<&str>, secrets: &dyn Secrets) -> Result<RequestBuilder, SendError> {
    let mut url = address(place, secrets)?;
    if let Some(path) = path {
        let base = url.path().trim_end_matches('/').to_owned();
        url.set_path(&format!("{base}/{path}"));
    }
    Ok(http::client(&url)?.post(url))
}

pub(super) fn authorized(
    request: RequestBuilder,
    token: Option<&SecretRef>,
    secrets: &dyn Secrets,
) -> Result<RequestBuilder, SendError> {
    let Some(reference) = token else { return Ok(request) };
    let secret = secrets.reveal(reference)?;
    let mut value = HeaderValue::from_bytes(&[b"Bearer ", secret.reveal()].concat()).map_err(|_| {
        let place = crate::config::describe_secret(reference);
        SendError::new(
            format!("{place} does not hold a token: it has characters that no header may have"),
            false,
        )
    })?;
    value.set_sensitive(true);
    Ok(request.header("authorization", value))
}

fn urgent(message: &Message) -> bool {
    [Topic::Degraded, Topic::Held].iter().any(|topic| topic.word() == message.topic)
}

/// Names that ntfy shows as pictures.
fn tag(message: &Message) -> &'static str {
    match Topic::of(&message.topic) {
        Some(Topic::Degraded) => "rotating_light",
        Some(Topic::Held) => "raised_hand",
        Some(Topic::Recovered) => "white_check_mark",
        _ => "information_source",
    }
}

/// What a header may hold.
fn ascii(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii() && !c.is_ascii_control() { c } else { '?' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notify::message::sample;

    #[test]
    fn a_template_is_strict_and_sees_the_message() {
        let message = sample("dns1", Stamp(Duration::ZERO));
        assert_eq!(
            rendered("{{ instance }}|{{ title | tojson }}", &message).unwrap(),
            "dns1|\"dns1: test: this way works\""
        );
        let error = rendered("{{ instnace }}", &message).unwrap_err();
        assert!(error.is_final && error.text.contains("undefined"), "{error}");
    }

    #[test]
    fn markup_of_slack_is_taken_from_what_others_wrote() {
        let message = Message { text: "a <!channel> & b\nc".into(), ..sample("x", Stamp(Duration::ZERO)) };
        let text = slack(&message, None)["blocks"][0]["text"]["text"].as_str().unwrap().to_owned();
        assert_eq!(text, "*a &lt;!channel&gt; &amp; b*\nc\n");
    }

    #[test]
    fn what_slack_would_refuse_as_too_long_is_cut_and_the_link_stays() {
        let message = Message { text: "&".repeat(4_000), ..sample("x", Stamp(Duration::ZERO)) };
        let link = Url::parse("https://wiki.example.com/dns").unwrap();
        let text = slack(&message, Some(&link))["blocks"][0]["text"]["text"].as_str().unwrap().to_owned();
        assert!(text.chars().count() < 3_000 && text.contains('…'), "{text}");
        assert!(text.ends_with("\n<https://wiki.example.com/dns>\n"), "{text}");
    }
}
