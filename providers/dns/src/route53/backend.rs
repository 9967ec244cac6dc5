//! One account: what is known of it from one call to the next.

use super::{client::Api, config::Config, insync};
use crate::misses::Misses;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
};

/// One account, as far as its key reaches.
#[derive(Debug)]
pub(crate) struct Backend {
    pub(super) entry: Arc<str>,
    pub(super) config: Config,
    pub(super) api: Api,
    /// Which zone of a name is meant.
    pub(super) chosen: BTreeMap<String, String>,
    /// Ids of zones that were seen.
    pub(super) zones: Mutex<HashMap<String, String>>,
    /// Look-ups of zones that were not seen.
    pub(super) misses: Misses,
    /// How many sets they had.
    pub(super) sizes: Mutex<HashMap<String, usize>>,
    /// Changes that have not reached every name server, or of which that is not known.
    pub(super) open: insync::Open,
}
