//! Jobs of instances: however many are to be started, systemd has no more of them to do at one time than it does well.
//!
//! Guarantee: of all deployments of a pass together. A start that takes long counts as begun after a moment
//! ([`Manager::job`]), so instances that are slow to come up do not keep the others waiting, and may be more than that.

use crate::hands::{Fault, Job, Manager};
use tokio::sync::Semaphore;

/// Jobs that are waited for at one time.
pub(super) const AT_ONCE: usize = 64;

/// Does the jobs of a pass.
pub(super) struct Jobs<'a> {
    manager: &'a dyn Manager,
    room: Semaphore,
}

impl<'a> Jobs<'a> {
    pub(super) fn of(manager: &'a dyn Manager) -> Jobs<'a> {
        Jobs { manager, room: Semaphore::new(AT_ONCE) }
    }

    /// Has a job done, as [`Manager::job`] does it, once there is room.
    pub(super) async fn job(&self, unit: &str, job: Job, of: &str) -> Result<(), Fault> {
        let _room = self.room.acquire().await.expect("nobody closes it");
        self.manager.job(unit, job, of).await
    }

    /// Starts an instance, also one that failed too often within its limit.
    pub(super) async fn start(&self, unit: &str) -> Result<(), Fault> {
        self.forget_failures(unit).await?;
        self.job(unit, Job::Start, "").await
    }

    /// What failed too often within its limit would not be started.
    pub(super) async fn forget_failures(&self, unit: &str) -> Result<(), Fault> {
        let _room = self.room.acquire().await.expect("nobody closes it");
        self.manager.reset_failed(unit).await
    }
}
