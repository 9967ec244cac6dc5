//! Mail over SMTP (RFC 5321), by lettre.

use super::{error::SendError, message::Message};
use crate::config::{Email, Tls};
use lettre::{
    AsyncSmtpTransport, AsyncTransport, Message as Mail, Tokio1Executor,
    message::header::ContentType,
    transport::smtp::{
        authentication::Credentials,
        client::{Tls as Protection, TlsParameters},
    },
};
use reconciled_provider::Secrets;
use reqwest::Url;
use std::time::Duration;

/// How long each step of the conversation may take.
const STEP: Duration = Duration::from_secs(20);
/// How long all of it may take.
const WHOLE: Duration = Duration::from_secs(60);

pub(super) async fn send(
    email: &Email,
    message: &Message,
    id: &str,
    link: Option<&Url>,
    secrets: &dyn Secrets,
) -> Result<(), SendError> {
    // An error says that one is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let text = match link {
        Some(link) => format!("{}\n{link}\n", message.text),
        None => message.text.clone(),
    };
    let mut mail = Mail::builder()
        .from(email.from.clone())
        .subject(message.title.clone())
        .message_id(Some(format!("<{id}@{}>", email.from.email.domain())))
        .header(ContentType::TEXT_PLAIN);
    for to in &email.to {
        mail = mail.to(to.clone());
    }
    let mail = mail.body(text).map_err(|error| SendError::new(format!("write the mail: {error}"), true))?;
    let server = format!("mail server {}:{}", email.host, email.port);
    // Errors of lettre say their cause themselves.
    let failed = |error: &lettre::transport::smtp::Error| format!("{server}: {error}");
    let tls =
        || TlsParameters::new(email.host.clone()).map_err(|error| SendError::new(failed(&error), false));
    let protection = match email.tls {
        Tls::None => Protection::None,
        Tls::Starttls => Protection::Required(tls()?),
        Tls::Tls => Protection::Wrapper(tls()?),
    };
    let mut transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(email.host.clone())
        .port(email.port)
        .tls(protection)
        .timeout(Some(STEP));
    if let Some((name, password)) = &email.login {
        let secret = secrets.reveal(password)?;
        let password = String::from_utf8_lossy(secret.reveal()).into_owned();
        transport = transport.credentials(Credentials::new(name.clone(), password));
    }
    match tokio::time::timeout(WHOLE, transport.build().send(mail)).await {
        Ok(Ok(_)) => Ok(()),
        // Refusals of logins and of senders are mended by the operator, and the mail is still good then.
        Ok(Err(error)) => Err(SendError::new(failed(&error), false)),
        Err(_) => Err(SendError::new(format!("{server}: no end within {} s", WHOLE.as_secs()), false)),
    }
}
