//! One directory: what is known of it from one call to the next.

use super::config::Config;
use std::{collections::HashMap, sync::Arc};

/// One directory.
#[derive(Debug)]
pub(crate) struct Backend {
    pub(super) entry: Arc<str>,
    pub(super) instance: Arc<str>,
    pub(super) config: Config,
    /// One batch after the other: all of them are for one directory.
    pub(super) writing: tokio::sync::Mutex<Serials>,
}

/// The last serials of zones that this process wrote or deleted, by zone: one that is made again counts on from there.
type Serials = HashMap<Box<str>, u32>;
