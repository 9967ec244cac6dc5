//! Where a name server listens: a host or an address, with or without a port.

use std::net::IpAddr;

/// Host and port; none for what is neither.
///
/// ```
/// use reconciled_dns::endpoint::parse;
/// assert_eq!(parse("ns1.example.com"), Some(("ns1.example.com".into(), 53)));
/// assert_eq!(parse("[2001:db8::53]:54"), Some(("2001:db8::53".into(), 54)));
/// assert_eq!(parse("http://a"), None);
/// ```
pub fn parse(text: &str) -> Option<(String, u16)> {
    let text = text.trim();
    if let Ok(address) = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        return Some((address.to_string(), 53));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (text, 53),
    };
    let host = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    let is_host = !host.is_empty() && !host.contains(['/', '@', ' ']) && port != 0;
    let is_bare_v6 = host.contains(':') && host.parse::<IpAddr>().is_err();
    (is_host && !is_bare_v6).then(|| (host.into(), port))
}
