//! The handshake of go-plugin: the first line that a provider prints says where and how it can be spoken to.
//!
//! Plain text: the socket is in a folder that nobody else may enter. Certificates of go-plugin are P-521 and used
//! against the rules, and would protect nothing more. An address of this machine is open to all of its users, so it is
//! used only where the entry says so.

use super::Protocol;
use std::{net::SocketAddr, path::PathBuf};

/// Name of the variable without which a provider refuses to run.
pub const COOKIE_NAME: &str = "TF_PLUGIN_MAGIC_COOKIE";
/// Its value.
pub const COOKIE_VALUE: &str = "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2";

/// Where a provider listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// A unix socket.
    Unix(PathBuf),
    /// An address of this machine.
    Tcp(SocketAddr),
}

/// What the line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Where it listens.
    pub network: Network,
    /// What it speaks there.
    pub protocol: Protocol,
}

impl Offer {
    /// Reads `CORE|PROTOCOL|NETWORK|ADDRESS|TYPE[|CERTIFICATE]`.
    ///
    /// Errors: what is wrong with it, in words.
    pub fn parse(line: &str, allow_tcp: bool) -> Result<Offer, String> {
        let fields: Vec<&str> = line.trim_end().split('|').collect();
        let [core, version, network, address, rest @ ..] = &fields[..] else {
            return Err("its first line is no handshake of a Terraform provider".into());
        };
        if *core != "1" {
            return Err("its first line is no handshake of a Terraform provider".into());
        }
        let protocol = version.parse().ok().and_then(Protocol::of).ok_or_else(|| {
            format!("it speaks version {version} of the plugin protocol, and only 5 and 6 are known here")
        })?;
        if rest.first() != Some(&"grpc") {
            return Err("it speaks net/rpc, which no provider of Terraform 0.12 and later does".into());
        }
        if rest.get(1).is_some_and(|certificate| certificate.len() > 50) {
            return Err("it insists on TLS, which is not supported".into());
        }
        let network = match *network {
            "unix" => Network::Unix(address.into()),
            "tcp" => {
                let address: SocketAddr =
                    address.parse().map_err(|_| format!("it listens at `{address}`, which is no address"))?;
                if !address.ip().is_loopback() {
                    return Err(format!("it listens at {address}, where others can reach it"));
                }
                if !allow_tcp {
                    let why = "where every user of this machine can use it with our rights";
                    return Err(format!("it listens at {address} and not at a unix socket, {why}"));
                }
                Network::Tcp(address)
            }
            other => return Err(format!("it listens on a network called `{other}`")),
        };
        Ok(Offer { network, protocol })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_provider_says_where_it_listens() {
        let unix = Offer { network: Network::Unix("/run/x/plugin1".into()), protocol: Protocol::V5 };
        assert_eq!(Offer::parse("1|5|unix|/run/x/plugin1|grpc|\n", false), Ok(unix));
        let tcp = Offer { network: Network::Tcp("127.0.0.1:20000".parse().unwrap()), protocol: Protocol::V6 };
        assert_eq!(Offer::parse("1|6|tcp|127.0.0.1:20000|grpc|", true), Ok(tcp.clone()));
        assert_eq!(Offer::parse("1|6|tcp|127.0.0.1:20000|grpc||true", true), Ok(tcp));
    }

    #[test]
    fn every_other_line_says_what_is_wrong() {
        let refuse = |line: &str, part: &str| {
            let error = Offer::parse(line, false).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        };
        refuse("", "no handshake");
        refuse("This binary is a plugin.", "no handshake");
        refuse("2|5|unix|/a|grpc", "no handshake");
        refuse("1|4|unix|/a|grpc", "version 4");
        refuse("1|five|unix|/a|grpc", "version five");
        refuse("1|5|unix|/a|netrpc", "net/rpc");
        refuse("1|5|unix|/a", "net/rpc");
        refuse(&format!("1|5|unix|/a|grpc|{}", "x".repeat(60)), "TLS");
        refuse("1|6|tcp|127.0.0.1:20000|grpc|", "every user of this machine");
        refuse("1|6|tcp|0.0.0.0:1|grpc", "others can reach it");
        assert!(Offer::parse("1|6|tcp|0.0.0.0:1|grpc", true).is_err());
        refuse("1|6|tcp|localhost|grpc", "no address");
        refuse("1|6|vsock|1|grpc", "vsock");
    }
}
