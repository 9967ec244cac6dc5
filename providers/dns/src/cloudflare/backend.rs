//! One account: what is known of it from one call to the next.

use super::{client::Api, config::Config, zones::Zones};
use std::sync::Arc;

/// One account, as far as its token reaches.
#[derive(Debug)]
pub(crate) struct Backend {
    pub(super) entry: Arc<str>,
    pub(super) instance: Arc<str>,
    pub(super) config: Config,
    pub(super) api: Api,
    pub(super) zones: Zones,
}
