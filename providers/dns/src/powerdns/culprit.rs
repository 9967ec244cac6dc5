//! Which RRset a 422 is about. The server names it in its text, in one of a few forms.

/// What a refusal names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Culprit<'a> {
    /// One RRset.
    Set {
        /// Its name as the server writes it.
        name: &'a str,
        /// Its type.
        kind: &'a str,
    },
    /// Everything at a name.
    Name(&'a str),
}

/// Finds the RRset or name in the server's words.
///
/// Known forms (`ws-auth.cc` of 4.7 to 5.0): `RRset NAME IN TYPE: …`, `… in RRset NAME IN TYPE with …`,
/// `Record NAME/TYPE 'CONTENT': …`, `DNS Name 'NAME' is …`, `Name 'NAME' contains …`.
pub(crate) fn culprit(text: &str) -> Option<Culprit<'_>> {
    if let Some(rest) = after(text, "RRset ") {
        let (name, rest) = rest.split_once(" IN ")?;
        let kind = rest.split([':', ' ']).next()?;
        return Some(Culprit::Set { name, kind });
    }
    if let Some(rest) = after(text, "Record ") {
        let (id, _) = rest.split_once([' ', '\''])?;
        let (name, kind) = id.rsplit_once('/')?;
        return Some(Culprit::Set { name, kind });
    }
    let rest = after(text, "Name '")?;
    rest.split_once('\'').map(|(name, _)| Culprit::Name(name))
}

/// What follows `word`, where `word` begins a word of `text`.
fn after<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let at = text.match_indices(word).map(|(at, _)| at);
    let mut at = at.filter(|at| *at == 0 || text.as_bytes()[at - 1] == b' ');
    at.next().map(|at| &text[at + word.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<Culprit<'_>>) {
        assert_eq!(culprit(text), expected, "{text}");
    }

    #[test]
    fn every_form_the_server_uses_is_understood() {
        let set = |name, kind| Some(Culprit::Set { name, kind });
        check("RRset w.p.test. IN A: Conflicts with pre-existing RRset", set("w.p.test.", "A"));
        check("RRset cc.p.test. IN CNAME has more than one record", set("cc.p.test.", "CNAME"));
        check("RRset q.p.test. IN FOO: unknown type given", set("q.p.test.", "FOO"));
        check("Record bad.p.test./A '999.1.1.1': Parsing record content", set("bad.p.test.", "A"));
        check("Record 1.0/25.p.test./PTR 'x': Not in expected format", set("1.0/25.p.test.", "PTR"));
        check("Duplicate record in RRset d.p.test. IN A with content \"192.0.2.1\"", set("d.p.test.", "A"));
        check("DNS Name 'nodot.p.test' is not canonical", Some(Culprit::Name("nodot.p.test")));
        check("Name 'a b.p.test.' contains unsupported characters", Some(Culprit::Name("a b.p.test.")));
        check("Something went wrong", None);
        check("RRset", None);
    }
}
