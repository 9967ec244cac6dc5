//! Which name servers serve a zone: those that are configured, or those that the world is told.

use crate::record;
use futures_util::future::join_all;
use hickory_resolver::{
    Resolver, TokioResolver,
    config::{ConnectionConfig, NameServerConfig, ResolverConfig},
    net::runtime::TokioRuntimeProvider,
    proto::rr::RData,
};
use reconciled_provider::{Error, Scope};
use std::{
    collections::BTreeSet,
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};
use tokio::{net::lookup_host, time::timeout};

/// How long looking for one server may take.
const LIMIT: Duration = Duration::from_secs(10);

/// A name server of a zone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NameServer {
    /// As configured, or its host name.
    pub(super) name: String,
    /// None where its name has no address.
    pub(super) address: Option<SocketAddr>,
}

impl std::fmt::Display for NameServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let address = match self.address {
            Some(address) if address.port() == 53 => address.ip().to_string(),
            Some(address) => address.to_string(),
            None => return f.write_str(&self.name),
        };
        match self.name == address {
            true => f.write_str(&address),
            false => write!(f, "{} ({address})", self.name),
        }
    }
}

/// The servers at `places`, which are hosts or addresses with or without a port.
pub(super) async fn configured(places: &[(String, u16)]) -> Vec<NameServer> {
    let found = places.iter().map(|(host, port)| async move {
        let found = timeout(LIMIT, lookup_host((host.as_str(), *port))).await;
        let all = found.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let address = all.ok().and_then(|all| prefer(all.map(|address| address.ip())));
        let name = match host.parse::<IpAddr>() {
            Ok(ip) if *port != 53 => SocketAddr::new(ip, *port).to_string(),
            _ => host.clone(),
        };
        NameServer { name, address: address.map(|ip| SocketAddr::new(ip, *port)) }
    });
    join_all(found).await
}

/// The servers that the NS of the zone name, as `resolvers` know them; none configured: those of the system.
pub(super) async fn published(scope: &Scope, resolvers: &[SocketAddr]) -> Result<Vec<NameServer>, Error> {
    let zone = record::zone_name(scope);
    let resolver = resolver(resolvers)?;
    let doing = format!("looking for the name servers of {zone}");
    let lost = |error: hickory_resolver::net::NetError| {
        let lost = |what: &str| {
            Error::unavailable(format!("{doing}{what}"))
                .hint("is the zone delegated? Else name its servers: `verify: {servers: [ns1.example.com]}`")
        };
        // What the resolver says of this shows its question as Rust writes it.
        match error.is_no_records_found() {
            true => lost(": there are none"),
            false => lost("").caused_by(error),
        }
    };
    let found = resolver.ns_lookup(zone.as_str()).await.map_err(lost)?;
    let names: BTreeSet<String> = found
        .answers()
        .iter()
        .filter_map(|record| match &record.data {
            RData::NS(host) => Some(host.0.to_ascii().to_ascii_lowercase()),
            _ => None,
        })
        .collect();
    if names.is_empty() {
        return Err(Error::unavailable(format!("{doing}: there are none")));
    }
    let resolver = &resolver;
    let servers = names.into_iter().map(|name| async move {
        let found = resolver.lookup_ip(name.as_str()).await.ok();
        let address = found.and_then(|found| prefer(found.iter())).map(|ip| SocketAddr::new(ip, 53));
        let name = name.strip_suffix('.').unwrap_or(&name).to_owned();
        NameServer { name, address }
    });
    Ok(join_all(servers).await)
}

fn resolver(resolvers: &[SocketAddr]) -> Result<TokioResolver, Error> {
    let built = match resolvers {
        [] => Resolver::builder_tokio().and_then(|mut builder| {
            limit(builder.options_mut());
            builder.build()
        }),
        resolvers => {
            let server = |address: &SocketAddr| {
                let at = |mut connection: ConnectionConfig| {
                    connection.port = address.port();
                    connection
                };
                let connections = vec![at(ConnectionConfig::udp()), at(ConnectionConfig::tcp())];
                NameServerConfig::new(address.ip(), true, connections)
            };
            let config = ResolverConfig::from_name_servers(resolvers.iter().map(server).collect());
            let mut builder = Resolver::builder_with_config(config, TokioRuntimeProvider::default());
            limit(builder.options_mut());
            builder.build()
        }
    };
    built.map_err(|error| {
        Error::unavailable("reading the resolvers of the system")
            .hint("is /etc/resolv.conf there? Else write `verify: {resolver: [\"192.0.2.53:53\"]}`")
            .caused_by(error)
    })
}

fn limit(options: &mut hickory_resolver::config::ResolverOpts) {
    options.timeout = Duration::from_secs(3);
    options.attempts = 2;
    // What the answer is remembered for is ours to say.
    options.cache_size = 0;
}

/// One address of a server: what one of them serves, all do, and a host without IPv6 is not to complain of it.
fn prefer(addresses: impl Iterator<Item = IpAddr>) -> Option<IpAddr> {
    addresses.min_by_key(|address| (address.is_ipv6(), *address))
}
