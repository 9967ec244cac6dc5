//! Checksums of providers: those of Terraform's lock file, and those of a registry.

use super::address::Address;
use base64::{Engine, engine::general_purpose::STANDARD};
use data_encoding::HEXLOWER;
use reconciled_provider::Error;
use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    fs::File,
    io::{self, Read},
    path::Path,
};

/// A checksum in host configuration: an artefact that has none of those is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin(String);

impl Pin {
    /// Reads `h1:…`, of the files, or `zh:…`, of the archive, as `.terraform.lock.hcl` has them.
    ///
    /// Errors: what is wrong with it.
    pub fn parse(text: &str) -> Result<Pin, String> {
        let is_good = match text.split_once(':') {
            Some(("h1", sum)) => STANDARD.decode(sum).is_ok_and(|bytes| bytes.len() == 32),
            Some(("zh", sum)) => sum.len() == 64 && sum.bytes().all(|byte| byte.is_ascii_hexdigit()),
            _ => false,
        };
        let text = if text.starts_with("zh:") { text.to_ascii_lowercase() } else { text.into() };
        match is_good {
            true => Ok(Pin(text)),
            false => Err(format!("`{text}` is no checksum, which is h1: or zh: as in .terraform.lock.hcl")),
        }
    }
}

/// The checksums of one artefact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Sums {
    /// `h1:…`: over its files.
    pub(super) h1: String,
    /// `zh:…`: over its archive, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) zh: Option<String>,
}

impl Sums {
    /// Of an unpacked folder.
    pub(super) fn of_folder(folder: &Path) -> io::Result<Sums> {
        Ok(Sums { h1: h1(folder, None)?, zh: None })
    }

    /// Of an unpacked folder in which one file is what is open already, whatever its name stands for by now.
    pub(super) fn of_folder_with(folder: &Path, opened: (&Path, &File)) -> io::Result<Sums> {
        Ok(Sums { h1: h1(folder, Some(opened))?, zh: None })
    }

    /// True where no checksum is asked for, or it is one of these.
    pub(super) fn are_among(&self, pins: &[Pin]) -> bool {
        pins.is_empty() || pins.iter().any(|pin| pin.0 == self.h1 || Some(&pin.0) == self.zh.as_ref())
    }

    /// Errors: `Invalid` where it is none of those that are asked for.
    pub(super) fn check(&self, pins: &[Pin], of: &Address) -> Result<(), Error> {
        if self.are_among(pins) {
            return Ok(());
        }
        let error =
            Error::invalid(format!("provider {of} has none of the checksums in `hashes`: it is {self}"));
        Err(error.hint("if this artefact is the one that is meant, write its checksum there"))
    }
}

impl fmt::Display for Sums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.h1)?;
        self.zh.iter().try_for_each(|zh| write!(f, " and {zh}"))
    }
}

/// Go's `dirhash.Hash1`: over a list of the files and their checksums.
fn h1(folder: &Path, opened: Option<(&Path, &File)>) -> io::Result<String> {
    let mut names = Vec::new();
    list(folder, "", &mut names)?;
    names.sort_unstable();
    let mut all = Context::new(&SHA256);
    for name in names {
        let path = folder.join(&name);
        let sum = match opened.filter(|(own, _)| *own == path) {
            Some((_, file)) => sha256(file)?,
            None => sha256(File::open(path)?)?,
        };
        all.update(format!("{sum}  {name}\n").as_bytes());
    }
    Ok(format!("h1:{}", STANDARD.encode(all.finish())))
}

fn list(folder: &Path, before: &str, names: &mut Vec<String>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_str().ok_or_else(|| io::Error::other("a name is no text"))?;
        let name = format!("{before}{name}");
        match entry.file_type()?.is_dir() {
            true => list(&entry.path(), &format!("{name}/"), names)?,
            false => names.push(name),
        }
    }
    Ok(())
}

/// SHA-256 in hexadecimal digits.
pub(super) fn sha256(mut from: impl Read) -> io::Result<String> {
    let mut context = Context::new(&SHA256);
    let mut buffer = vec![0; 64 << 10];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(HEXLOWER.encode(context.finish().as_ref())),
            read => context.update(&buffer[..read]),
        }
    }
}

/// The checksum of a file in a list as `sha256sum` writes it.
pub(super) fn listed<'l>(list: &'l str, file: &str) -> Option<&'l str> {
    list.lines().find_map(|line| {
        let (sum, name) = line.split_once(char::is_whitespace)?;
        (name.trim_start().trim_start_matches('*') == file).then_some(sum)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_of_a_folder_is_the_one_of_go() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("b")).unwrap();
        std::fs::write(folder.path().join("b/c"), "2").unwrap();
        std::fs::write(folder.path().join("a"), "1").unwrap();
        // (sha256sum a; sha256sum b/c) | sha256sum, in base64.
        let sums = Sums::of_folder(folder.path()).unwrap();
        assert_eq!(sums.h1, "h1:SBOaa+c1SMmbah9k7hUK+zqB3aurXTM6UdWgrHYogMA=");
        let pin = Pin::parse(&sums.h1).unwrap();
        assert!(sums.are_among(std::slice::from_ref(&pin)) && sums.are_among(&[]));
        std::fs::write(folder.path().join("a"), "3").unwrap();
        assert!(!Sums::of_folder(folder.path()).unwrap().are_among(&[pin]));
    }

    #[test]
    fn what_is_open_counts_and_not_what_has_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        std::fs::write(&program, "good").unwrap();
        let good = Sums::of_folder(folder.path()).unwrap();
        std::fs::write(folder.path().join("other"), "evil").unwrap();
        let evil = File::open(folder.path().join("other")).unwrap();
        std::fs::remove_file(folder.path().join("other")).unwrap();
        assert_ne!(Sums::of_folder_with(folder.path(), (&program, &evil)).unwrap(), good);
        let opened = File::open(&program).unwrap();
        std::fs::rename(&program, folder.path().join("away")).unwrap();
        std::fs::write(&program, "evil").unwrap();
        std::fs::remove_file(folder.path().join("away")).unwrap();
        assert_eq!(Sums::of_folder_with(folder.path(), (&program, &opened)).unwrap(), good);
    }

    #[test]
    fn what_is_no_checksum_is_told() {
        for wrong in ["", "h1:abc", "zh:12", "sha256:00", &format!("zh:{}", "g".repeat(64))] {
            assert!(Pin::parse(wrong).unwrap_err().contains("is no checksum"), "{wrong}");
        }
        assert!(Pin::parse(&format!("zh:{}", "A".repeat(64))).is_ok());
    }

    #[test]
    fn a_file_is_found_by_its_whole_name() {
        let list = "aa  x_linux.zip\nbb *y.zip\n";
        assert_eq!((listed(list, "x_linux.zip"), listed(list, "y.zip")), (Some("aa"), Some("bb")));
        assert_eq!(listed(list, "linux.zip"), None);
    }
}
