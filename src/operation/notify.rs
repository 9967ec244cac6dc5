//! Trying whether a receiver of notifications can be told something.

use crate::{
    config::{Config, did_you_mean_receiver},
    failure::Failure,
    notify::{sample, send},
    store::Stamp,
};
use reconciled_provider::Secrets;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Send a message that says nothing.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NotifyTestAsk {
    /// Name of the receiver.
    pub receiver: String,
}

/// Answers [`NotifyTestAsk`]: past the outbox, and once.
///
/// Errors: there is no such receiver; the message was not taken.
pub async fn notify_test(
    config: &Config,
    secrets: &dyn Secrets,
    ask: &NotifyTestAsk,
    now: Duration,
) -> Result<(), Failure> {
    let found = config.notify.iter().find(|receiver| *receiver.name == *ask.receiver);
    let Some(receiver) = found else {
        let hint = did_you_mean_receiver(config, &ask.receiver);
        return Err(Failure::hinted(format!("there is no receiver `{}`", ask.receiver), hint));
    };
    let message = sample(&config.instance, Stamp(now));
    let id = format!("{}-test-{}", config.instance, now.as_millis());
    send(receiver, &message, &id, secrets).await.map_err(|error| {
        let text = format!("tell {}: {error}", receiver.name);
        match error.hint {
            Some(hint) => Failure::hinted(text, hint),
            None => Failure::hinted(
                text,
                "look at its address, token and server under `notify` of the configuration",
            ),
        }
    })
}
