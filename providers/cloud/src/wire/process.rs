//! A provider's process and the way to speak to it: started here or by somebody else, ended when it is let go of.

use super::{
    call::{self, Calls},
    handshake::Network,
    launch::{Begun, GRACE, Launch, described, reach},
    sandbox,
};
use reconciled_grpc::Channel;
use reconciled_provider::Error;
use std::time::Duration;

/// A provider's process and the way to speak to it.
pub struct Process {
    /// Its calls.
    pub calls: Calls,
    /// None for one that somebody else started: it ends with the connection.
    begun: Option<Begun>,
}

impl Process {
    /// Starts a provider and shakes hands with it.
    ///
    /// Errors: `Unsupported` where it is no provider that can be hosted; `Unavailable` where it may be one another
    /// time.
    pub async fn start(launch: &Launch) -> Result<Process, Error> {
        let (channel, protocol, begun) = match &launch.sandbox {
            Some(at) => {
                let (channel, protocol) = sandbox::start(launch, at).await?;
                (channel, protocol, None)
            }
            None => {
                let begun = Begun::start(launch).await?;
                let name = launch.path.display();
                let failed = |why| Error::unavailable(format!("speak to {name}: {why}"));
                let channel = connect(&begun.offer.network).await.map_err(failed)?;
                (channel, begun.offer.protocol, Some(begun))
            }
        };
        Ok(Process { calls: Calls::new(channel, protocol), begun })
    }

    /// True once it has ended.
    pub fn has_ended(&self) -> bool {
        match &self.begun {
            Some(begun) => begun.process.ending.borrow().is_some(),
            None => *self.calls.ended().borrow(),
        }
    }

    /// How it ended, once it has: to be told after a call that broke off. Of one that somebody else started nobody knows.
    pub async fn ending(&self) -> Option<String> {
        let mut ending = self.begun.as_ref()?.process.ending.clone();
        let ended = tokio::time::timeout(Duration::from_millis(500), ending.wait_for(Option::is_some)).await;
        ended.ok()?.ok().and_then(|status| status.map(described))
    }

    /// Asks it to end, and ends it if it does not.
    pub async fn stop(self) {
        let asked = async {
            self.calls.shutdown().await;
            match &self.begun {
                Some(begun) => drop(begun.process.ending.clone().wait_for(Option::is_some).await),
                None => drop(self.calls.ended().wait_for(|ended| *ended).await),
            }
        };
        let _ = tokio::time::timeout(GRACE, asked).await;
    }
}

/// Kept alive with the process.
impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process").field("has_ended", &self.has_ended()).finish_non_exhaustive()
    }
}

async fn connect(network: &Network) -> Result<Channel, String> {
    let connected = async {
        let stream = reach(network).await.map_err(|error| error.to_string())?;
        call::channel(stream).await.map_err(|error| error.to_string())
    };
    let limit = Duration::from_secs(10);
    tokio::time::timeout(limit, connected).await.unwrap_or_else(|_| Err("it accepts no connection".into()))
}
