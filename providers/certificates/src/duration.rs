//! Lengths of time as manifests write them: `2160h`, `90d`, `1h30m`.

use std::time::Duration;

/// Reads a length of time; units are `s`, `m`, `h` and `d`.
///
/// ```
/// use reconciled_certificates::duration;
/// assert_eq!(duration::parse("1h30m").unwrap().as_secs(), 5_400);
/// assert_eq!(duration::parse("90"), None);
/// ```
pub fn parse(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut seconds: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest[..digits].parse().ok()?;
        let unit = match rest.as_bytes().get(digits)? {
            b's' => 1,
            b'm' => 60,
            b'h' => 3_600,
            b'd' => 86_400,
            _ => return None,
        };
        seconds = seconds.checked_add(number.checked_mul(unit)?)?;
        rest = &rest[digits + 1..];
    }
    (!text.is_empty()).then(|| Duration::from_secs(seconds))
}

/// A length of time in its two largest units, for people.
///
/// ```
/// use reconciled_certificates::duration;
/// assert_eq!(duration::show(90_061), "1d1h");
/// assert_eq!(duration::show(0), "0s");
/// ```
pub fn show(seconds: u64) -> String {
    let parts =
        [(seconds / 86_400, 'd'), (seconds / 3_600 % 24, 'h'), (seconds / 60 % 60, 'm'), (seconds % 60, 's')];
    let mut told =
        parts.iter().skip_while(|(number, _)| *number == 0).take(2).filter(|(number, _)| *number > 0);
    let text: String = told.by_ref().map(|(number, unit)| format!("{number}{unit}")).collect();
    if text.is_empty() { "0s".into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_has_a_unit_and_no_sign() {
        assert_eq!(parse("2160h"), Some(Duration::from_secs(90 * 86_400)));
        assert_eq!(parse("90d"), parse("2160h0m0s"));
        for text in ["", "5", "-1h", "1w", "h", "1h 2m", "99999999999999999999d", "9999999999999999d"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
