//! The SOA of a zone, as what says which state a zone is in.

use super::response::{self, Response};
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use reconciled_provider::Version;

/// The SOA of a zone: its exact data are what an update depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Soa {
    /// Serial.
    pub(crate) serial: u32,
    /// Data as the server gave them, names in full.
    pub(crate) data: Vec<u8>,
}

impl Soa {
    /// The token of this state for `instance`: the serial to be read by people, and the data. What marks say depends on whose word
    /// that is, so an instance with another name reads what it knew once more.
    pub(crate) fn version(&self, instance: &str) -> Version {
        let mut text = format!("s:{}:", self.serial);
        HEXLOWER.encode_append(&self.data, &mut text);
        text.push(':');
        text.push_str(instance);
        Version::At(text.into())
    }
    /// True when nobody but an update of ours that changed something, and leaves SOA data like `kept`, can have written
    /// since `before`: two updates take two serials. Servers that make serials of the time seldom say so.
    pub(crate) fn is_next_after(&self, before: &Soa, kept: &[u8]) -> bool {
        self.serial == before.next() && without_serial(&self.data) == without_serial(kept)
    }
    /// The serial after this one (RFC 1982).
    pub(crate) fn next(&self) -> u32 {
        self.serial.wrapping_add(1).max(1)
    }
    /// The SOA behind a token.
    pub(crate) fn of(version: &Version) -> Option<Soa> {
        let Version::At(token) = version else { return None };
        let (serial, rest) = std::str::from_utf8(token).ok()?.strip_prefix("s:")?.split_once(':')?;
        let (data, _) = rest.split_once(':')?;
        Some(Soa { serial: serial.parse().ok()?, data: HEXLOWER_PERMISSIVE.decode(data.as_bytes()).ok()? })
    }
}

/// Data of a SOA before and after its serial, the first of the five numbers that they end with.
fn without_serial(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (names, numbers) = data.split_at_checked(data.len().checked_sub(20)?)?;
    Some((names, numbers.get(4..)?))
}

/// The SOA that answers the question for that of `zone`.
pub(crate) fn soa_of(response: &Response<'_>, zone: &str) -> Option<Soa> {
    if response.rcode != 0 || !response.is_authoritative {
        return None;
    }
    response.answers.iter().find_map(|found| soa_at(response, found, zone))
}

pub(crate) fn soa_at(response: &Response<'_>, found: &response::Found, zone: &str) -> Option<Soa> {
    let is_mine = found.number == response::SOA && found.class == response::IN;
    let name = is_mine.then(|| response.name(found))??;
    let (data, serial) = (name == zone).then(|| response.soa(found))??;
    Some(Soa { serial, data })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_with_another_name_has_other_tokens_and_the_soa_behind_them_is_the_same() {
        let soa = Soa { serial: 7, data: vec![0, 0, 0, 0, 0, 7] };
        let [one, two] = ["dns1", "a:b"].map(|instance| soa.version(instance));
        assert_ne!(one, two);
        for version in [&one, &two] {
            assert_eq!(Soa::of(version), Some(soa.clone()));
        }
    }
}
