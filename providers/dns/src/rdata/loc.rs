//! Places on Earth (RFC 1876): LOC.
//!
//! Octets are the canonical form; the text is what they stand for, with every field. So `51 30 N 0 8 W 10m` and
//! the same with its default sizes are equal.

use std::fmt::Write;

/// The equator and the prime meridian, in thousandths of a second of arc.
const ORIGIN: u32 = 1 << 31;
/// Altitude of the reference spheroid, in centimetres above the lowest that can be written.
const SEA: i64 = 100_000 * 100;

/// Octets of the presentation form; none when the text is not that.
pub(super) fn encode(content: &str) -> Option<[u8; 16]> {
    let words: Vec<&str> = content.split_ascii_whitespace().collect();
    let (latitude, rest) = angle(&words, 90, ["N", "S"])?;
    let (longitude, rest) = angle(rest, 180, ["E", "W"])?;
    let (altitude, sizes) = rest.split_first()?;
    let altitude = u32::try_from(centimetres(altitude)?.checked_add(SEA)?).ok()?;
    if sizes.len() > 3 {
        return None;
    }
    // RFC 1876 §3: one metre, ten kilometres, ten metres.
    let mut precision = [0x12, 0x16, 0x13];
    for (octet, word) in precision.iter_mut().zip(sizes) {
        *octet = size(u64::try_from(centimetres(word)?).ok()?)?;
    }
    let mut out = [0; 16];
    out[1..4].copy_from_slice(&precision);
    out[4..8].copy_from_slice(&latitude.to_be_bytes());
    out[8..12].copy_from_slice(&longitude.to_be_bytes());
    out[12..].copy_from_slice(&altitude.to_be_bytes());
    Some(out)
}

/// Appends the text of octets; none for versions and numbers nobody defined.
pub(super) fn decode(octets: &[u8], out: &mut String) -> Option<()> {
    let octets: &[u8; 16] = octets.try_into().ok()?;
    let number = |at: usize| u32::from_be_bytes([octets[at], octets[at + 1], octets[at + 2], octets[at + 3]]);
    if octets[0] != 0 {
        return None;
    }
    print_angle(number(4), 90, ['N', 'S'], out)?;
    out.push(' ');
    print_angle(number(8), 180, ['E', 'W'], out)?;
    out.push(' ');
    print_metres(i64::from(number(12)) - SEA, out);
    for octet in &octets[1..4] {
        let (base, exponent) = (octet >> 4, octet & 15);
        if base > 9 || exponent > 9 {
            return None;
        }
        out.push(' ');
        print_metres(i64::from(base) * 10i64.pow(u32::from(exponent)), out);
    }
    Some(())
}

/// `DEGREES [MINUTES [SECONDS[.THOUSANDTHS]]] DIRECTION`
fn angle<'w>(words: &'w [&'w str], most: u32, directions: [&str; 2]) -> Option<(u32, &'w [&'w str])> {
    let end = words.iter().take(4).position(|word| {
        word.eq_ignore_ascii_case(directions[0]) || word.eq_ignore_ascii_case(directions[1])
    })?;
    let is_positive = words[end].eq_ignore_ascii_case(directions[0]);
    let whole = |word: &str| digits(word)?.parse::<u32>().ok();
    let (degrees, minutes, thousandths) = match words[..end] {
        [degrees] => (whole(degrees)?, 0, 0),
        [degrees, minutes] => (whole(degrees)?, whole(minutes)?, 0),
        [degrees, minutes, seconds] => {
            (whole(degrees)?, whole(minutes)?, u32::try_from(decimal(seconds, 3)?).ok()?)
        }
        _ => return None,
    };
    if minutes > 59 || thousandths > 59_999 || degrees > most {
        return None;
    }
    let offset = degrees * 3_600_000 + minutes * 60_000 + thousandths;
    if offset > most * 3_600_000 {
        return None;
    }
    let value = if is_positive { ORIGIN + offset } else { ORIGIN - offset };
    Some((value, &words[end + 1..]))
}

fn print_angle(value: u32, most: u32, directions: [char; 2], out: &mut String) -> Option<()> {
    let offset = value.abs_diff(ORIGIN);
    if offset > most * 3_600_000 {
        return None;
    }
    let direction = directions[usize::from(value < ORIGIN)];
    let (degrees, minutes) = (offset / 3_600_000, offset / 60_000 % 60);
    let (seconds, thousandths) = (offset / 1_000 % 60, offset % 1_000);
    write!(out, "{degrees} {minutes} {seconds}.{thousandths:03} {direction}").ok()
}

fn digits(text: &str) -> Option<&str> {
    (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then_some(text)
}

/// A decimal number with at most `places` behind its point, as a whole number of the smallest of them.
fn decimal(text: &str, places: usize) -> Option<i64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if part.len() > places || !part.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let part = format!("{part:0<places$}");
    format!("{}{part}", digits(whole)?).parse().ok()
}

fn centimetres(word: &str) -> Option<i64> {
    let word = word.strip_suffix(['m', 'M']).unwrap_or(word);
    match word.strip_prefix('-') {
        Some(below) => decimal(below, 2).map(|number| -number),
        None => decimal(word, 2),
    }
}

fn print_metres(centimetres: i64, out: &mut String) {
    let sign = if centimetres < 0 { "-" } else { "" };
    let (metres, rest) = (centimetres.abs() / 100, centimetres.abs() % 100);
    let _ = write!(out, "{sign}{metres}.{rest:02}m");
}

/// A size as one digit and a power of ten, which is all the precision there is; what is finer is rounded down.
fn size(centimetres: u64) -> Option<u8> {
    let exponent = centimetres.checked_ilog10().unwrap_or(0);
    let base = u8::try_from(centimetres / 10u64.pow(exponent)).ok()?;
    let exponent = u8::try_from(exponent).ok().filter(|exponent| *exponent <= 9)?;
    Some(base << 4 | exponent)
}
