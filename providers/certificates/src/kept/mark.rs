//! How a directory says whose it is that a certificate is put into: the entry, the certificate and the instance.
//!
//! A mark without an instance is of a version that wrote none, or of a person. It is ours where the certificate is kept here,
//! and gets the instance with the next files; where it is not, another instance may have it.

/// What stands before the name of the instance.
const INSTANCE: &str = " instance=";

/// How a directory says that it is that of one certificate.
#[derive(Clone, Debug)]
pub struct Mark {
    instance: String,
    /// `ENTRY/NAME`.
    name: String,
    /// The same where the entry had other names.
    former: Vec<String>,
    /// The certificate is kept here.
    is_kept: bool,
}

/// What a mark says: `ENTRY/NAME`, and the instance, where there is one.
pub(super) fn parts(text: &str) -> (&str, Option<&str>) {
    match text.split_once(INSTANCE) {
        Some((name, instance)) => (name, Some(instance)),
        None => (text, None),
    }
}

impl Mark {
    /// That of the certificate `name` of the entry `entry`, which was called as `former` says before.
    pub(super) fn new<'a>(
        instance: &str,
        name: &str,
        entry: &str,
        former: impl Iterator<Item = &'a String>,
        is_kept: bool,
    ) -> Mark {
        let former = former.map(|entry| format!("{entry}/{name}")).collect();
        Mark { instance: instance.to_owned(), name: format!("{entry}/{name}"), former, is_kept }
    }

    /// What is written.
    pub(crate) fn today(&self) -> String {
        format!("{}{INSTANCE}{}", self.name, self.instance)
    }

    /// True when a directory that says `text` is this certificate's.
    pub(crate) fn is(&self, text: &str) -> bool {
        let (name, instance) = parts(text);
        self.has_name(name) && instance.map_or(self.is_kept, |instance| instance == self.instance)
    }

    fn has_name(&self, name: &str) -> bool {
        self.name == name || self.former.iter().any(|former| former == name)
    }

    /// What `text` calls this certificate, where that is as it was called when the entry had another name.
    pub(crate) fn former<'a>(&self, text: &'a str) -> Option<&'a str> {
        let (name, _) = parts(text);
        (self.is(text) && name != self.name).then_some(name)
    }

    /// The other instance that `text` names.
    pub(crate) fn other_instance<'a>(&self, text: &'a str) -> Option<&'a str> {
        let (name, instance) = parts(text);
        instance.filter(|instance| *instance != self.instance && is_certificate(name) && is_plain(instance))
    }

    /// The certificate that marked a directory so, in words for people, if it is another one.
    pub(crate) fn other(&self, text: &str) -> Option<String> {
        if self.is(text) {
            return None;
        }
        let (name, instance) = parts(text);
        // What is no mark of ours is not repeated: it may be anything.
        Some(match instance {
            _ if !is_certificate(name) => "another certificate".into(),
            Some(instance) if instance == self.instance => format!("certificate {name}"),
            Some(instance) if is_plain(instance) => format!("certificate {name} of instance {instance}"),
            Some(_) => "another certificate".into(),
            None if self.has_name(name) => format!("certificate {name} of an instance that is not known"),
            None => format!("certificate {name}"),
        })
    }
}

fn is_certificate(name: &str) -> bool {
    name.contains('/') && is_plain(name)
}

fn is_plain(text: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:@".contains(c);
    !text.is_empty() && text.len() <= 512 && text.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(is_kept: bool) -> Mark {
        Mark::new("here", "shop/web", "cert", ["old".to_owned()].iter(), is_kept)
    }

    #[test]
    fn a_mark_is_read_as_it_is_written_and_is_ours_where_the_instance_is() {
        assert_eq!(mark(false).today(), "cert/shop/web instance=here");
        let check = |text: &str, is_kept: bool, other: Option<&str>, instance: Option<&str>| {
            let mark = mark(is_kept);
            let seen = (mark.is(text), mark.other(text), mark.other_instance(text));
            assert_eq!(
                seen,
                (other.is_none(), other.map(String::from), instance),
                "{text:?}, kept: {is_kept}"
            );
        };
        for is_kept in [false, true] {
            check("cert/shop/web instance=here", is_kept, None, None);
            check("old/shop/web instance=here", is_kept, None, None);
            check("cert/db instance=here", is_kept, Some("certificate cert/db"), None);
            check("cert/db", is_kept, Some("certificate cert/db"), None);
            let there = Some("certificate cert/shop/web of instance there");
            check("cert/shop/web instance=there", is_kept, there, Some("there"));
            check("a/b instance=there", is_kept, Some("certificate a/b of instance there"), Some("there"));
            for anything in ["the canary", "canary instance=there", "a/b instance=", "a/b instance=x\ny"] {
                check(anything, is_kept, Some("another certificate"), None);
            }
        }
    }

    #[test]
    fn a_mark_without_an_instance_is_ours_where_the_certificate_is_kept() {
        let unknown = |name: &str| Some(format!("certificate {name} of an instance that is not known"));
        for name in ["cert/shop/web", "old/shop/web"] {
            assert_eq!((mark(true).is(name), mark(true).other(name)), (true, None));
            assert_eq!((mark(false).is(name), mark(false).other(name)), (false, unknown(name)));
        }
        assert_eq!(mark(true).former("cert/shop/web"), None, "nothing is written for the instance alone");
        assert_eq!(mark(true).former("old/shop/web"), Some("old/shop/web"));
        assert_eq!(mark(false).former("old/shop/web instance=here"), Some("old/shop/web"));
        assert_eq!(mark(true).former("old/shop/web instance=there"), None);
    }
}
