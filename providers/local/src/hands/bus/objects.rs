//! What systemd has on the bus: the names of its objects and interfaces, and the path of a unit by the unit's name.

pub(super) const NAME: &str = "org.freedesktop.systemd1";
pub(super) const PATH: &str = "/org/freedesktop/systemd1";
pub(super) const MANAGER: &str = "org.freedesktop.systemd1.Manager";
/// What the paths of units begin with.
pub(super) const UNITS: &str = "/org/freedesktop/systemd1/unit/";

pub(super) const UNIT: &str = "org.freedesktop.systemd1.Unit";
pub(super) const SERVICE: &str = "org.freedesktop.systemd1.Service";
pub(super) const SOCKET: &str = "org.freedesktop.systemd1.Socket";
pub(super) const PROPERTIES: &str = "org.freedesktop.DBus.Properties";

/// The last part of the path of a unit: what is no letter or digit is `_` and two digits, and so is a digit that comes first.
pub(super) fn escape(name: &str) -> String {
    let mut out = String::with_capacity(name.len() * 2);
    for (at, byte) in name.bytes().enumerate() {
        match byte.is_ascii_alphabetic() || at > 0 && byte.is_ascii_digit() {
            true => out.push(byte.into()),
            false => out += &format!("_{byte:02x}"),
        }
    }
    out
}

/// The name of a unit from the last part of its path: what is no letter or digit is `_` and two digits.
pub(super) fn unescape(part: &str) -> Option<String> {
    let (mut out, mut bytes) = (Vec::new(), part.bytes());
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'_' => {
                let digits = [bytes.next()?, bytes.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_on_the_bus_names_a_unit() {
        assert_eq!(unescape("web_401_2eservice").as_deref(), Some("web@1.service"));
        assert_eq!(unescape("a"), Some("a".into()));
        assert_eq!((unescape("a_"), unescape("a_zz")), (None, None));
    }

    #[test]
    fn a_name_becomes_a_path_on_the_bus() {
        assert_eq!(escape("web@1.service"), "web_401_2eservice");
        assert_eq!(escape("1a.service"), "_31a_2eservice");
    }
}
