//! What an entry of the host configuration says about where its program is.

use super::{
    address::Address,
    sums::Pin,
    version::Constraints,
    wanted::{From, Program, Wanted},
};
use std::path::{Path, PathBuf};
use url::{Host, Url};

/// The keys, as they were written.
#[derive(Clone, Debug, Default)]
pub struct Written<'a> {
    /// `hashicorp/aws`, perhaps with a host.
    pub source: &'a str,
    /// The program itself.
    pub path: Option<PathBuf>,
    /// Which versions will do.
    pub version: Option<&'a str>,
    /// A folder with providers.
    pub mirror: Option<PathBuf>,
    /// The server of a registry, if it is not the host of `source`.
    pub url: Option<&'a str>,
    /// Checksums.
    pub hashes: &'a [String],
}

/// What is wrong, at which key, and what to write.
pub type Mistake = (&'static str, String, Option<&'static str>);

impl Program {
    /// The program that these keys mean; what has to be installed goes below `folder`.
    ///
    /// Errors: the first mistake.
    pub fn written(keys: Written<'_>, folder: &Path) -> Result<Program, Mistake> {
        if let Some(path) = keys.path {
            let others = [
                ("version", keys.version.is_some()),
                ("mirror", keys.mirror.is_some()),
                ("url", keys.url.is_some()),
                ("hashes", !keys.hashes.is_empty()),
            ];
            return match others.into_iter().find(|(_, is_there)| *is_there) {
                Some((key, _)) => {
                    let text = format!("`path` names the program itself, so `{key}` means nothing");
                    Err((key, text, Some("leave one of them out")))
                }
                None => Ok(Program::At(path)),
            };
        }
        let address = Address::parse(keys.source).map_err(|why| {
            ("source", why, Some("name the provider as its registry does, or its program as `path`"))
        })?;
        let version = Constraints::parse(keys.version.unwrap_or_default())
            .map_err(|why| ("version", why, Some("several stand with commas: `>= 5.40, < 6.0`")))?;
        let hashes = keys.hashes.iter().map(|text| Pin::parse(text)).collect::<Result<_, _>>();
        let hashes = hashes.map_err(|why| ("hashes", why, None))?;
        let from = match (keys.mirror, keys.url) {
            (Some(_), Some(_)) => {
                let text = "a mirror is a folder, which has no `url`".into();
                return Err(("url", text, Some("leave one of `mirror` and `url` out")));
            }
            (Some(mirror), None) => From::Mirror(mirror),
            (None, url) => {
                // What runs is said by people, and not by what was published last.
                if keys.version.is_none_or(|text| text.trim().is_empty()) {
                    let hint = "write version: \"~> 5.40\", or `path` where its program is there already";
                    return Err((
                        "source",
                        "it is not said which version is to be installed".into(),
                        Some(hint),
                    ));
                }
                let text = url.map_or_else(|| format!("https://{}", address.host), String::from);
                let good = Url::parse(&text).ok().filter(|url| {
                    matches!(url.scheme(), "http" | "https")
                        && url.host_str().is_some_and(|host| !host.is_empty())
                        && url.username().is_empty()
                });
                let wrong = || ("url", format!("`{text}` is no address of a server"), None);
                let good = good.ok_or_else(wrong)?;
                // Keys come the same way as what they sign.
                if good.scheme() == "http" && !is_here(&good) && keys.hashes.is_empty() {
                    let text = format!(
                        "whoever is between here and `{text}` could put another program in its place"
                    );
                    let hint = "write https, or the checksum that is meant in `hashes`";
                    return Err(("url", text, Some(hint)));
                }
                From::Registry(good)
            }
        };
        Ok(Program::Wanted(Box::new(Wanted { address, version, hashes, from, folder: folder.into() })))
    }
}

/// True for an address of this machine.
fn is_here(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(keys: Written<'_>, expect: &str) {
        let keys = Written { source: if keys.source.is_empty() { "team/toy" } else { keys.source }, ..keys };
        let found = match Program::written(keys, Path::new("/state")) {
            Ok(Program::At(path)) => format!("at {}", path.display()),
            Ok(Program::Wanted(wanted)) => {
                let from = match &wanted.from {
                    From::Mirror(path) => path.display().to_string(),
                    From::Registry(url) => url.to_string(),
                };
                format!("{} ({}) of {from}", wanted.address, wanted.version)
            }
            Err((key, text, _)) => format!("{key}: {text}"),
        };
        assert_eq!(found, expect);
    }

    #[test]
    fn an_entry_says_where_its_program_is() {
        let nothing = Written::default;
        check(Written { path: Some("/p".into()), ..nothing() }, "at /p");
        check(
            Written { version: Some("~> 1.0"), ..nothing() },
            "registry.opentofu.org/team/toy (~> 1.0) of https://registry.opentofu.org/",
        );
        check(
            Written { mirror: Some("/m".into()), ..nothing() },
            "registry.opentofu.org/team/toy (any version) of /m",
        );
        check(
            Written { source: "r.example:8443/a/b", version: Some("1.0.0"), ..nothing() },
            "r.example:8443/a/b (1.0.0) of https://r.example:8443/",
        );
        check(nothing(), "source: it is not said which version is to be installed");
        check(
            Written { path: Some("/p".into()), version: Some("1"), ..nothing() },
            "version: `path` names the program itself, so `version` means nothing",
        );
        check(
            Written { mirror: Some("/m".into()), url: Some("https://x"), ..nothing() },
            "url: a mirror is a folder, which has no `url`",
        );
        check(
            Written { version: Some("1.0"), url: Some("ftp://x"), ..nothing() },
            "url: `ftp://x` is no address of a server",
        );
        for here in ["http://127.0.0.1:8080/", "http://localhost/", "http://[::1]/"] {
            check(
                Written { version: Some("1.0"), url: Some(here), ..nothing() },
                &format!("registry.opentofu.org/team/toy (1.0) of {here}"),
            );
        }
        check(
            Written { version: Some("1.0"), url: Some("http://proxy.example/"), ..nothing() },
            "url: whoever is between here and `http://proxy.example/` could put another program in its place",
        );
        let sum = format!("zh:{}", "a".repeat(64));
        check(
            Written {
                version: Some("1.0"),
                url: Some("http://proxy.example/"),
                hashes: std::slice::from_ref(&sum),
                ..nothing()
            },
            "registry.opentofu.org/team/toy (1.0) of http://proxy.example/",
        );
        check(
            Written { version: Some("1.0"), hashes: &["md5:1".into()], ..nothing() },
            "hashes: `md5:1` is no checksum, which is h1: or zh: as in .terraform.lock.hcl",
        );
        check(
            Written { source: "toy", version: Some("1.0"), ..nothing() },
            "source: `toy` names no provider, which is [HOST/]NAMESPACE/TYPE",
        );
    }
}
