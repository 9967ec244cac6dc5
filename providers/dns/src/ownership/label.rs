//! What a mark says: the labels of ExternalDNS's TXT registry.
//!
//! Ours are labels of ExternalDNS as well: one that runs in the zone leaves records of other owners alone, and can
//! take ours over with our instance as its `--txt-owner-id`. `external-dns/resource=reconciled/…` tells our marks
//! from those of an ExternalDNS that has the name of an instance.

use reconciled_provider::Error;
use std::sync::Arc;

/// What begins the resource of a mark that an instance of this program wrote.
const RESOURCE: &str = "reconciled/";

/// What the name of an owner begins with that is an ExternalDNS.
pub(crate) const EXTERNAL_DNS: &str = "externaldns/";

/// Whom a mark names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// This instance.
    Ours,
    /// Another instance, `externaldns/ID` or `octodns`.
    Other(Arc<str>),
}

/// Whom the labels in `text` name; none when they are not those of ExternalDNS.
pub(crate) fn read(text: &str, instance: &str) -> Option<Whose> {
    // ExternalDNS writes quotes of its own around the text; some servers keep them as part of it.
    let labels = text.trim_matches('"').split(',').filter_map(|label| label.split_once('='));
    let (mut is_heritage, mut owner, mut resource) = (false, "", "");
    for (key, value) in labels.filter(|(_, value)| !value.contains('=')) {
        match key {
            "heritage" if value != "external-dns" => return None,
            "heritage" => is_heritage = true,
            "external-dns/owner" => owner = value,
            "external-dns/resource" => resource = value,
            _ => {}
        }
    }
    if !is_heritage {
        return None;
    }
    Some(match resource.starts_with(RESOURCE) {
        true if owner == instance => Whose::Ours,
        true => Whose::Other(owner.into()),
        false => Whose::Other(format!("{EXTERNAL_DNS}{owner}").into()),
    })
}

/// The labels of `instance`; keys are sorted, as ExternalDNS sorts them.
pub(crate) fn write(instance: &str, zone: &str) -> String {
    let zone = zone.trim_end_matches('.');
    format!("heritage=external-dns,external-dns/owner={instance},external-dns/resource={RESOURCE}zone/{zone}")
}

/// Errors: the name of an instance that could not be read back from labels.
pub(crate) fn validate_instance(instance: &str) -> Result<(), Error> {
    let is_odd = |c: char| matches!(c, ',' | '=' | '"' | '\\') || c.is_whitespace() || c.is_control();
    if instance.is_empty() || instance.len() > 64 || instance.contains(is_odd) {
        return Err(Error::invalid(format!("instance `{instance}` cannot be written into TXT marks"))
            .hint("use a name of at most 64 bytes without blanks, commas, quotes and `=`"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn other(name: &str) -> Option<Whose> {
        Some(Whose::Other(name.into()))
    }

    #[test]
    fn labels_name_their_owner() {
        let text = "heritage=external-dns,external-dns/owner=k8s,external-dns/resource=ingress/a/b";
        assert_eq!(read(text, "k8s"), other("externaldns/k8s"), "an ExternalDNS called like us is not us");
        assert_eq!(read(&format!("\"{text}\""), "dns1"), other("externaldns/k8s"));
        assert_eq!(read("external-dns/owner=x,heritage=external-dns", "dns1"), other("externaldns/x"));
        assert_eq!(read("heritage=external-dns", "dns1"), other("externaldns/"));
        assert_eq!(read(&write("dns1", "ex.com."), "dns1"), Some(Whose::Ours));
        assert_eq!(read(&write("dns1", "ex.com."), "dns2"), other("dns1"));
    }

    #[test]
    fn other_texts_are_no_labels() {
        for text in ["v=spf1 -all", "heritage=external-dns-of-mine", "heritage", "external-dns/owner=k8s", ""]
        {
            assert_eq!(read(text, "dns1"), None, "{text}");
        }
        assert!(validate_instance("two words").is_err() && validate_instance("a,b").is_err());
        assert!(validate_instance("dns1.example.com").is_ok());
    }
}
