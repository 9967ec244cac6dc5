//! What of a commit or a tag is signed, and by what (gitformat-signature(5)).

use super::verdict::Doubt;

/// A commit or tag taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// What the signature is over.
    pub payload: Vec<u8>,
    /// The signature, armored; none where there is none.
    pub signature: Option<String>,
    /// When it was committed or tagged, by its own account, in seconds since 1970.
    pub time: i64,
}

/// Takes a commit apart: a signature is a header of its own, what is signed is all but those headers.
///
/// # Errors
/// It has several signatures, so that two readers may disagree, or is no commit.
pub fn commit(raw: &[u8]) -> Result<Signed, Doubt> {
    let mut payload = Vec::with_capacity(raw.len());
    let mut signatures: Vec<Vec<u8>> = Vec::new();
    let mut time = None;
    let mut kept = true;
    let mut rest = raw;
    while !rest.is_empty() && rest[0] != b'\n' {
        let (line, after) = split_line(rest);
        rest = after;
        if let Some(continued) = line.strip_prefix(b" ") {
            match (kept, signatures.last_mut()) {
                (false, Some(signature)) => signature.extend_from_slice(continued),
                (false, None) => {}
                (true, _) => payload.extend_from_slice(line),
            }
            continue;
        }
        // Both names, as Git leaves both out; of another hash than ours only the first counts.
        let (word, value) = split_word(line);
        kept = !matches!(word, b"gpgsig" | b"gpgsig-sha256");
        match word {
            b"gpgsig" => signatures.push(value.to_vec()),
            b"gpgsig-sha256" => return Err(Doubt::Malformed("it has a signature for SHA-256 names".into())),
            b"committer" if time.is_none() => time = Some(written_at(value)),
            _ => {}
        }
        if kept {
            payload.extend_from_slice(line);
        }
    }
    payload.extend_from_slice(rest);
    if signatures.len() > 1 {
        return Err(Doubt::Malformed("it has several".into()));
    }
    Ok(Signed { payload, signature: signatures.pop().map(text).transpose()?, time: time_of(time)? })
}

/// Takes an annotated tag apart; also says what it names: object, type and name.
///
/// # Errors
/// It is no tag.
pub fn tag(raw: &[u8]) -> Result<(Signed, TagHeader), Doubt> {
    let mut header = TagHeader::default();
    let mut time = None;
    let mut rest = raw;
    while !rest.is_empty() && rest[0] != b'\n' {
        let (line, after) = split_line(rest);
        rest = after;
        let (word, value) = split_word(line);
        let value = value.strip_suffix(b"\n").unwrap_or(value);
        let said = || String::from_utf8_lossy(value).into_owned();
        match word {
            b"object" if header.object.is_empty() => header.object = said(),
            b"type" if header.kind.is_empty() => header.kind = said(),
            b"tag" if header.name.is_empty() => header.name = said(),
            b"tagger" if time.is_none() => time = Some(written_at(value)),
            _ => {}
        }
    }
    // The last line that begins a signature, as Git looks for it.
    let (mut begin, mut at) = (None, raw.len() - rest.len());
    while !rest.is_empty() {
        let (line, after) = split_line(rest);
        if BEGINS.iter().any(|kind| line.starts_with(kind.as_bytes())) {
            begin = Some(at);
        }
        at += line.len();
        rest = after;
    }
    let payload = raw[..begin.unwrap_or(raw.len())].to_vec();
    let signature = begin.map(|begin| text(raw[begin..].to_vec())).transpose()?;
    Ok((Signed { payload, signature, time: time_of(time)? }, header))
}

/// How signatures begin that Git knows.
const BEGINS: [&str; 4] = [
    "-----BEGIN SSH SIGNATURE-----",
    "-----BEGIN PGP SIGNATURE-----",
    "-----BEGIN PGP MESSAGE-----",
    "-----BEGIN SIGNED MESSAGE-----",
];

/// What a tag names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagHeader {
    /// Full name of the object.
    pub object: String,
    /// `commit`, where it names one.
    pub kind: String,
    /// What it calls itself.
    pub name: String,
}

fn split_line(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
    bytes.split_at(end)
}

fn split_word(line: &[u8]) -> (&[u8], &[u8]) {
    match line.iter().position(|byte| *byte == b' ') {
        Some(at) => (&line[..at], &line[at + 1..]),
        None => (line, &[]),
    }
}

/// The seconds in `A U Thor <a@example.com> 1700000000 +0100`.
fn written_at(value: &[u8]) -> Option<i64> {
    let value = String::from_utf8_lossy(value);
    let (_, after) = value.rsplit_once('>')?;
    after.split_whitespace().next()?.parse().ok()
}

fn time_of(found: Option<Option<i64>>) -> Result<i64, Doubt> {
    found.flatten().ok_or_else(|| Doubt::Malformed("it does not say when it was made".into()))
}

fn text(bytes: Vec<u8>) -> Result<String, Doubt> {
    String::from_utf8(bytes).map_err(|_| Doubt::Malformed("it is no text".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: &str = "tree 1\nauthor A <a@x> 1 +0000\ncommitter C <c@x> 1700000000 +0100\n\
                          gpgsig -----BEGIN SSH SIGNATURE-----\n AAAA\n -----END SSH SIGNATURE-----\n\
                          encoding x\n\nsubject\n\ngpgsig is a word here\n";

    #[test]
    fn a_commit_is_signed_without_its_signature() {
        let signed = commit(COMMIT.as_bytes()).unwrap();
        assert_eq!(
            String::from_utf8(signed.payload).unwrap(),
            "tree 1\nauthor A <a@x> 1 +0000\ncommitter C <c@x> 1700000000 +0100\nencoding x\n\nsubject\n\ngpgsig is a word here\n"
        );
        assert_eq!(
            signed.signature.unwrap(),
            "-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n"
        );
        assert_eq!(signed.time, 1_700_000_000);
    }

    #[test]
    fn what_two_readers_may_take_differently_is_no_signature() {
        let twice = COMMIT.replace("encoding x\n", "gpgsig other\n");
        assert_eq!(commit(twice.as_bytes()), Err(Doubt::Malformed("it has several".into())));
        let untimed = COMMIT.replace("committer C <c@x> 1700000000 +0100\n", "");
        assert!(commit(untimed.as_bytes()).is_err());
        assert_eq!(commit(COMMIT.replace("gpgsig ", "x ").as_bytes()).unwrap().signature, None);
    }

    #[test]
    fn a_tag_is_signed_at_its_end() {
        let raw = "object 1\ntype commit\ntag v1\ntagger T <t@x> 5 +0000\n\nfirst\n-----BEGIN PGP SIGNATURE-----\nx\n";
        let (signed, header) = tag(raw.as_bytes()).unwrap();
        assert_eq!((&*header.object, &*header.kind, &*header.name), ("1", "commit", "v1"));
        assert!(signed.payload.ends_with(b"\nfirst\n"));
        assert_eq!(signed.signature.as_deref(), Some("-----BEGIN PGP SIGNATURE-----\nx\n"));
        assert_eq!(tag(raw.split("-----").next().unwrap().as_bytes()).unwrap().0.signature, None);
    }
}
