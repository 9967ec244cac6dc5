//! Starting and restarting a socket, whose services are in the way.

use crate::hands::{Fault, Job, Manager};
use std::collections::BTreeSet;

/// Starts or restarts a socket that was found in the run `of` it. systemd does neither while its services run, so these are
/// stopped first, and started after that; returns their names.
pub(super) async fn listen(
    manager: &dyn Manager,
    socket: &str,
    job: Job,
    of: &str,
) -> Result<Vec<String>, Fault> {
    let services = manager.triggers(socket).await?;
    let mut stopped = BTreeSet::new();
    let mut listens = listen_once(manager, &services, &mut stopped, (socket, job, of)).await;
    for _ in 1..LISTENS {
        // Whoever came meanwhile had the service started again.
        if listens.is_ok() || stopped.is_empty() {
            break;
        }
        listens = match manager.units(&[socket.to_owned()]).await {
            Ok(mut states) => {
                let now = states.pop().unwrap_or_default();
                let job = if now.is_running() { job } else { Job::Start };
                listen_once(manager, &services, &mut stopped, (socket, job, &now.invocation)).await
            }
            Err(error) => Err(error.into()),
        };
    }
    // Also where it does not listen, and whatever became of the others: they served before.
    let mut started = Ok(());
    for service in &stopped {
        started = manager.job(service, Job::Start, "").await.and(started);
    }
    listens.and(started).map(|()| stopped.into_iter().collect())
}

async fn listen_once(
    manager: &dyn Manager,
    services: &[String],
    stopped: &mut BTreeSet<String>,
    (socket, job, of): (&str, Job, &str),
) -> Result<(), Fault> {
    if !services.is_empty() {
        let states = manager.units(services).await?;
        for (service, state) in services.iter().zip(states).filter(|(_, state)| state.is_running()) {
            stopped.insert(service.clone());
            manager.job(service, Job::Stop, &state.invocation).await?;
        }
    }
    manager.job(socket, job, of).await
}

/// How often a socket is told to listen whose services are started by whoever connects meanwhile.
const LISTENS: u32 = 5;
