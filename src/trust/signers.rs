//! OpenSSH's file of allowed signers (ssh-keygen(1), "ALLOWED SIGNERS"): which key may sign, as whom, for what, when.
//!
//! As in `git verify-commit`, times count against what the commit says of itself: a key whose `valid-before` is over
//! still vouches for what was committed before. Who holds the key also writes that time: a key that leaked has to
//! leave the file.

use super::{
    certificate::Certificate,
    presented::{Presented, shown},
    verdict::Doubt,
};
use chrono::{DateTime, Local, NaiveDateTime, TimeZone, Utc};
use reconciled_provider::address::pattern_list;
use ssh_key::{PublicKey, public::KeyData};

/// What Git signs for.
pub(super) const NAMESPACE: &str = "git";

/// The lines of the file.
#[derive(Debug, Default)]
pub struct AllowedSigners {
    lines: Vec<Line>,
}

#[derive(Debug)]
struct Line {
    principals: String,
    /// The key vouches for certificates and signs nothing itself.
    is_authority: bool,
    namespaces: Option<String>,
    /// Seconds since 1970.
    valid_after: Option<i64>,
    valid_before: Option<i64>,
    key: KeyData,
}

const NO_KEY: &str = "it has no key: write KEYTYPE KEY";

impl AllowedSigners {
    /// Reads the text of the file. Errors: number of the line, and what is wrong with it.
    pub fn parse(text: &str) -> Result<AllowedSigners, (usize, String)> {
        let mut lines = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                lines.push(Line::parse(line).map_err(|problem| (number, problem))?);
            }
        }
        Ok(AllowedSigners { lines })
    }

    /// How many keys are allowed.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// True when none is.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Says as whom the presented key may sign for Git at `time`.
    pub(super) fn find(&self, presented: &Presented, time: i64) -> Result<String, Doubt> {
        let key = presented.shown();
        let mut last = None;
        for line in &self.lines {
            match line.vouches(presented, time) {
                None => {}
                Some(Ok(name)) => return Ok(name),
                Some(Err(problem)) => last = Some(problem),
            }
        }
        Err(match last {
            Some(problem) => Doubt::NotValid { key, problem },
            None => Doubt::NotAllowed { key },
        })
    }
}

impl Line {
    fn parse(line: &str) -> Result<Line, String> {
        let (principals, rest) = word(line)?;
        let principals = principals.trim_matches('"').to_string();
        if principals.is_empty() {
            return Err("it names nobody".into());
        }
        let mut found = Line {
            principals,
            is_authority: false,
            namespaces: None,
            valid_after: None,
            valid_before: None,
            key: KeyData::Ed25519(ssh_key::public::Ed25519PublicKey([0; 32])),
        };
        // Options may be left out: what is a key is none.
        if let Ok(key) = public_key(rest) {
            found.key = key;
            return Ok(found);
        }
        if rest.is_empty() {
            return Err(NO_KEY.into());
        }
        let (options, rest) = word(rest)?;
        found.options(options)?;
        found.key = public_key(rest)?;
        Ok(found)
    }

    fn options(&mut self, text: &str) -> Result<(), String> {
        for option in split(text, ',') {
            let (name, value) = option.split_once('=').map_or((option, None), |(n, v)| (n, Some(v)));
            let value = value.map(|value| {
                let inner = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
                inner
                    .map(|inner| inner.replace("\\\"", "\""))
                    .ok_or_else(|| format!("the value of `{name}` needs quotes: {name}=\"…\""))
            });
            let name = name.to_ascii_lowercase();
            match (&*name, value.transpose()?) {
                ("cert-authority", None) => self.is_authority = true,
                ("namespaces", Some(list)) => self.namespaces = Some(list),
                ("valid-after", Some(at)) => self.valid_after = Some(time(&at)?),
                ("valid-before", Some(at)) => self.valid_before = Some(time(&at)?),
                _ => return Err(format!("`{option}` is no option")),
            }
        }
        Ok(())
    }

    /// As whom the line lets the presented key sign, or why not; none where it means another key.
    fn vouches(&self, presented: &Presented, time: i64) -> Option<Result<String, String>> {
        let name = match presented {
            Presented::Key(key) if !self.is_authority && *key == self.key => self.principals.clone(),
            Presented::Certificate(certificate) if self.is_authority && certificate.authority == self.key => {
                match principals(certificate, &self.principals, time) {
                    Ok(names) => names,
                    Err(problem) => return Some(Err(problem)),
                }
            }
            _ => return None,
        };
        if self.namespaces.as_ref().is_some_and(|list| !pattern_list(list, NAMESPACE)) {
            return Some(Err(format!("its namespaces do not include `{NAMESPACE}`")));
        }
        if let Some(after) = self.valid_after.filter(|after| time < *after) {
            return Some(Err(format!("committed {}, valid after {}", shown_time(time), shown_time(after))));
        }
        if let Some(before) = self.valid_before.filter(|before| time > *before) {
            return Some(Err(format!("committed {}, valid before {}", shown_time(time), shown_time(before))));
        }
        Some(Ok(name))
    }
}

/// The names a certificate bears that `patterns` let through, at `time`; none is an error.
fn principals(certificate: &Certificate, patterns: &str, time: i64) -> Result<String, String> {
    if !certificate.is_signed() {
        return Err(format!("its certificate is not signed by {}", shown(&certificate.authority)));
    }
    if !certificate.is_valid_at(time) {
        return Err(format!("its certificate was not valid {}", shown_time(time)));
    }
    if !certificate.is_user {
        return Err("its certificate is for a host".into());
    }
    // Stricter than ssh-keygen: what a critical option restricts cannot be told from a commit.
    if let Some(name) = certificate.critical_options.first() {
        return Err(format!("its certificate has the critical option {name:?}"));
    }
    let names = certificate.principals.iter().filter(|name| pattern_list(patterns, name));
    let names: Vec<&str> = names.map(String::as_str).collect();
    if names.is_empty() {
        return Err(format!("its certificate names nobody of `{patterns}`"));
    }
    Ok(names.join(","))
}

fn public_key(text: &str) -> Result<KeyData, String> {
    let mut words = text.split_whitespace();
    let (Some(kind), Some(key)) = (words.next(), words.next()) else {
        return Err(NO_KEY.into());
    };
    let key =
        PublicKey::from_openssh(&format!("{kind} {key}")).map_err(|error| format!("its key: {error}"))?;
    Ok(key.key_data().clone())
}

/// Splits the first word off; what stands in quotes is one.
fn word(line: &str) -> Result<(&str, &str), String> {
    let parts = scan(line, char::is_whitespace);
    let end = parts?.first().copied().unwrap_or(line.len());
    let (word, rest) = line.split_at(end);
    Ok((word, rest.trim_start()))
}

fn split(text: &str, separator: char) -> Vec<&str> {
    let mut ends = scan(text, |c| c == separator).unwrap_or_default();
    ends.push(text.len());
    let mut begin = 0;
    let mut parts = Vec::new();
    for end in ends {
        parts.push(&text[begin..end]);
        begin = end + separator.len_utf8();
    }
    parts
}

/// Where `is_end` holds outside of quotes.
fn scan(text: &str, is_end: impl Fn(char) -> bool) -> Result<Vec<usize>, String> {
    let (mut ends, mut is_quoted, mut before) = (Vec::new(), false, ' ');
    for (at, c) in text.char_indices() {
        match c {
            '"' if before != '\\' => is_quoted = !is_quoted,
            c if !is_quoted && is_end(c) => ends.push(at),
            _ => {}
        }
        before = c;
    }
    if is_quoted { Err("a quote is not closed".into()) } else { Ok(ends) }
}

/// `YYYYMMDD[HHMM[SS]][Z]`: in this host's time zone, or UTC with `Z`.
fn time(text: &str) -> Result<i64, String> {
    let wrong =
        || format!("`{text}` is no time: write YYYYMMDD, YYYYMMDDHHMM or YYYYMMDDHHMMSS, and Z for UTC");
    let (digits, is_utc) = text.strip_suffix('Z').map_or((text, false), |digits| (digits, true));
    let full = match digits.len() {
        8 => format!("{digits}000000"),
        12 => format!("{digits}00"),
        14 => digits.to_string(),
        _ => return Err(wrong()),
    };
    let naive = NaiveDateTime::parse_from_str(&full, "%Y%m%d%H%M%S").map_err(|_| wrong())?;
    if is_utc {
        return Ok(naive.and_utc().timestamp());
    }
    Local.from_local_datetime(&naive).earliest().map(|at| at.timestamp()).ok_or_else(wrong)
}

fn shown_time(at: i64) -> String {
    let at = DateTime::<Utc>::from_timestamp(at, 0);
    at.map_or_else(|| "at no time".into(), |at| at.format("%Y-%m-%dT%H:%M:%SZ").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";

    fn parse(line: &str) -> Result<Line, String> {
        Line::parse(line)
    }

    #[test]
    fn a_line_has_principals_options_and_a_key() {
        let line = parse(&format!("ada@example.com {KEY} a comment")).unwrap();
        assert_eq!((&*line.principals, line.is_authority), ("ada@example.com", false));
        let line = parse(&format!(
            "*@example.com,!eve@example.com cert-authority,Namespaces=\"file,git\",valid-after=\"20260101Z\",valid-before=\"202612312359Z\" {KEY}"
        ))
        .unwrap();
        assert!(line.is_authority);
        assert_eq!(line.namespaces.as_deref(), Some("file,git"));
        assert_eq!((line.valid_after, line.valid_before), (Some(1_767_225_600), Some(1_798_761_540)));
    }

    #[test]
    fn what_is_not_understood_is_an_error_of_its_line() {
        for (line, said) in [
            ("ada@example.com", "it has no key: write KEYTYPE KEY"),
            (&*format!("ada valid-befor=\"20260101\" {KEY}"), "`valid-befor=\"20260101\"` is no option"),
            (
                &*format!("ada valid-before=20260101 {KEY}"),
                "the value of `valid-before` needs quotes: valid-before=\"…\"",
            ),
            (&*format!("ada namespaces=\"git {KEY}"), "a quote is not closed"),
        ] {
            assert_eq!(parse(line).err().as_deref(), Some(said), "{line}");
        }
        assert!(parse(&format!("ada valid-before=\"2026\" {KEY}")).unwrap_err().contains("YYYYMMDD"));
        let text = format!("# who may\n\nada {KEY}\nada ssh-ed25519 AAAA\n");
        assert_eq!(AllowedSigners::parse(&text).unwrap_err().0, 4);
    }
}
