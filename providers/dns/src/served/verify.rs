//! What an entry says of how its records are to be served.

use std::{net::SocketAddr, time::Duration};

/// How an entry wants to know that its records are served.
#[derive(Clone, Debug, Default)]
pub struct Verify {
    /// How long a server may take to serve what was written.
    pub timeout: Duration,
    /// The servers to ask, as host and port; empty: those that the zone's NS name.
    pub servers: Vec<(String, u16)>,
    /// Who is asked for the NS; empty: the resolvers of the system.
    pub resolver: Vec<SocketAddr>,
    /// Wait also until resolvers have forgotten what was served before.
    pub wait_for_ttl: bool,
    /// How long all questions to one server may take; none: four seconds. For tests on machines that stall.
    pub patience: Option<Duration>,
}
