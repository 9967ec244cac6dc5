//! What a provider is called: `registry.opentofu.org/hashicorp/aws`.

use std::fmt;

/// Where a provider is from if nobody says so.
const DEFAULT_HOST: &str = "registry.opentofu.org";

/// The name of a provider in every place that has providers. All of it is safe as a part of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// A host, perhaps with a port.
    pub host: String,
    /// Whose it is: `hashicorp`.
    pub namespace: String,
    /// `aws`: its program is called `terraform-provider-aws`.
    pub name: String,
}

impl Address {
    /// Reads `[HOST/]NAMESPACE/TYPE`. Letters are taken as small ones, as everywhere in this field.
    ///
    /// Errors: what is wrong with it.
    pub fn parse(text: &str) -> Result<Address, String> {
        let lower = text.to_ascii_lowercase();
        let parts: Vec<&str> = lower.split('/').collect();
        let (host, namespace, name) = match parts[..] {
            [namespace, name] => (DEFAULT_HOST, namespace, name),
            [host, namespace, name] => (host, namespace, name),
            _ => return Err(format!("`{text}` names no provider, which is [HOST/]NAMESPACE/TYPE")),
        };
        let is_word = |word: &str| {
            word.starts_with(|c: char| c.is_ascii_alphanumeric())
                && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
        };
        let (machine, port) = host.split_once(':').unwrap_or((host, "1"));
        let is_host = port.parse::<u16>().is_ok_and(|port| port > 0) && machine.split('.').all(is_word);
        for (is_good, part, what) in [
            (is_host, host, "host"),
            (is_word(namespace), namespace, "namespace"),
            (is_word(name), name, "type"),
        ] {
            if !is_good {
                return Err(format!("`{part}` of `{text}` is no {what}"));
            }
        }
        Ok(Address { host: host.into(), namespace: namespace.into(), name: name.into() })
    }

    /// What its program and its archives begin with.
    pub(super) fn prefix(&self) -> String {
        format!("terraform-provider-{}", self.name)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.host, self.namespace, self.name)
    }
}

/// This machine, as places with providers call it: `linux_amd64`.
pub(super) fn platform() -> (&'static str, &'static str) {
    let os = match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    };
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "powerpc64" => "ppc64le",
        other => other,
    };
    (os, arch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_no_way_out_of_a_folder() {
        let check = |text: &str, expect: &str| {
            let found = Address::parse(text).map_or_else(|why| why, |address| address.to_string());
            assert_eq!(found, expect);
        };
        check("hashicorp/aws", "registry.opentofu.org/hashicorp/aws");
        check("Registry.Example.com:8443/Team/My-Cloud", "registry.example.com:8443/team/my-cloud");
        check("aws", "`aws` names no provider, which is [HOST/]NAMESPACE/TYPE");
        check("../aws", "`..` of `../aws` is no namespace");
        check("a/..", "`..` of `a/..` is no type");
        check("../a/b", "`..` of `../a/b` is no host");
        check("host:0/a/b", "`host:0` of `host:0/a/b` is no host");
        check("user@host/a/b", "`user@host` of `user@host/a/b` is no host");
    }
}
