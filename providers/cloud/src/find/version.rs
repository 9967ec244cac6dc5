//! Which versions of a provider will do, in the words of Terraform: `~> 5.40, != 5.43.0`.

use semver::Version;
use std::fmt;

/// What an entry says of the version.
#[derive(Clone, Debug, Default)]
pub struct Constraints {
    text: String,
    all: Vec<(Op, Version)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Op {
    Is,
    IsNot,
    Above,
    From,
    Below,
    UpTo,
}

impl Constraints {
    /// Reads what stands between commas. Nothing at all allows every version.
    ///
    /// Errors: what is wrong with it.
    pub fn parse(text: &str) -> Result<Constraints, String> {
        let mut all = Vec::new();
        for one in text.split(',').map(str::trim).filter(|one| !one.is_empty()) {
            let (word, version) = one.split_at(one.find(|c: char| !"=!<>~".contains(c)).unwrap_or(one.len()));
            let (version, parts) = parsed(version.trim())
                .ok_or_else(|| format!("`{one}` is no constraint of a version, such as `~> 5.40`"))?;
            let op = match word {
                "" | "=" => Op::Is,
                "!=" => Op::IsNot,
                ">" => Op::Above,
                ">=" => Op::From,
                "<" => Op::Below,
                "<=" => Op::UpTo,
                "~>" => {
                    let end = match parts {
                        1 => {
                            return Err(format!(
                                "`{one}` has no end: write `~> {version}` or `>= {version}`"
                            ));
                        }
                        2 => Version::new(version.major + 1, 0, 0),
                        _ => Version::new(version.major, version.minor + 1, 0),
                    };
                    all.push((Op::Below, end));
                    Op::From
                }
                _ => return Err(format!("`{word}` of `{one}` is none of = != > >= < <= ~>")),
            };
            all.push((op, version));
        }
        Ok(Constraints { text: text.trim().into(), all })
    }

    /// True where it will do. What comes before a release does only where it is named itself.
    pub fn allow(&self, version: &Version) -> bool {
        let is_named = self.all.iter().any(|(op, named)| *op == Op::Is && named == version);
        (version.pre.is_empty() || is_named)
            && self.all.iter().all(|(op, than)| match op {
                Op::Is => version == than,
                Op::IsNot => version != than,
                Op::Above => version > than,
                Op::From => version >= than,
                Op::Below => version < than,
                Op::UpTo => version <= than,
            })
    }

    /// The newest that will do.
    pub(super) fn newest<T>(&self, all: impl IntoIterator<Item = (Version, T)>) -> Option<(Version, T)> {
        all.into_iter().filter(|(version, _)| self.allow(version)).max_by(|(a, _), (b, _)| a.cmp(b))
    }
}

impl fmt::Display for Constraints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.text.is_empty() { "any version" } else { &self.text })
    }
}

/// A version that may lack its last parts, and how many it has.
fn parsed(text: &str) -> Option<(Version, usize)> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let parts = text.split(['-', '+']).next()?.split('.').count();
    let whole = match parts {
        1 | 2 if text.contains(['-', '+']) => return None,
        1 => format!("{text}.0.0"),
        2 => format!("{text}.0"),
        _ => text.into(),
    };
    Some((Version::parse(&whole).ok()?, parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constraint_means_what_it_means_to_terraform() {
        let check = |constraint: &str, allowed: &[&str], refused: &[&str]| {
            let constraints = Constraints::parse(constraint).unwrap();
            let allows = |text: &&str| constraints.allow(&Version::parse(text).unwrap());
            assert!(allowed.iter().all(allows), "{constraint}");
            assert!(!refused.iter().any(allows), "{constraint}");
        };
        check("", &["0.0.1", "9.9.9"], &["1.0.0-beta1"]);
        check("5.1", &["5.1.0"], &["5.1.1"]);
        check("~> 5.40", &["5.40.0", "5.99.9"], &["5.39.9", "6.0.0", "6.0.0-rc1", "5.41.0-rc1"]);
        check("~> 5.40.1", &["5.40.1", "5.40.9"], &["5.41.0", "5.40.0"]);
        check(">= 3, < 4.0, != 3.2.0", &["3.0.0", "3.2.1"], &["3.2.0", "4.0.0", "2.9.9"]);
        check("> 1.0.0, <= 1.2.0", &["1.0.1", "1.2.0"], &["1.0.0", "1.2.1"]);
        check("= v1.0.0-rc1", &["1.0.0-rc1"], &["1.0.0"]);
    }

    #[test]
    fn what_is_no_constraint_is_told() {
        for (wrong, part) in
            [("latest", "is no constraint"), ("=> 1.0", "is none of"), ("~> 5", "has no end")]
        {
            let why = Constraints::parse(wrong).unwrap_err();
            assert!(why.contains(part), "{why}");
        }
    }

    #[test]
    fn the_newest_that_will_do_is_taken() {
        let all = ["1.2.0", "1.10.0", "2.0.0"].map(|text| (Version::parse(text).unwrap(), ()));
        let newest = Constraints::parse("~> 1.0").unwrap().newest(all).unwrap();
        assert_eq!(newest.0.to_string(), "1.10.0");
    }
}
