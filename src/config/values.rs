//! Values with a unit, as people write them: durations, rates, sizes, percentages.
//!
//! Each is a type of its own, so that a number without its unit never gets past the parser.

use serde::{
    Deserialize, Deserializer,
    de::{self, Visitor},
};
use std::{fmt, marker::PhantomData, str::FromStr, time::Duration};

/// A length of time with its unit: `60s`, `10m`, `1h30m`, `400d`, `250ms`.
///
/// ```
/// use reconciled::config::Period;
/// assert_eq!("1h30m".parse::<Period>().unwrap().0.as_secs(), 5400);
/// assert!("90".parse::<Period>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Period(pub Duration);

/// So many calls per unit of time: `20/s`, `300/m`, `1000/h`.
///
/// ```
/// use reconciled::config::Rate;
/// let rate: Rate = "300/m".parse().unwrap();
/// assert_eq!((rate.count, rate.per.as_secs()), (300, 60));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How many, at least one.
    pub count: u32,
    /// In what time.
    pub per: Duration,
}

/// A number of bytes: `512`, `64KiB`, `16MiB`, `2GB`.
///
/// ```
/// use reconciled::config::Size;
/// assert_eq!("16MiB".parse::<Size>().unwrap(), Size(16 << 20));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

/// A share of a whole, 0 to 100: `20` or `20%`.
///
/// ```
/// use reconciled::config::Percent;
/// assert_eq!("20%".parse::<Percent>().unwrap(), Percent(20));
/// assert!("101".parse::<Percent>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percent(pub u8);

/// Why a text is no such value; says what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ValueError(String);

/// Units of time in milliseconds, the long ones first.
const UNITS: [(&str, u64); 6] =
    [("w", 604_800_000), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

fn split_number(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

impl FromStr for Period {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Period, ValueError> {
        let wrong = || {
            ValueError(format!("`{text}` is not a duration: write a number and a unit, as in 90s or 1h30m"))
        };
        let (mut rest, mut total) = (text.trim(), 0u64);
        if rest.is_empty() {
            return Err(wrong());
        }
        while !rest.is_empty() {
            let (digits, tail) = split_number(rest);
            let end = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
            let (unit, next) = tail.split_at(end);
            let factor = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?.1;
            let number: u64 = digits.parse().map_err(|_| wrong())?;
            total = number.checked_mul(factor).and_then(|ms| total.checked_add(ms)).ok_or_else(wrong)?;
            rest = next;
        }
        Ok(Period(Duration::from_millis(total)))
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_millis() as u64;
        if rest == 0 {
            return f.write_str("0s");
        }
        for (unit, factor) in UNITS.iter().skip(1) {
            if rest >= *factor {
                write!(f, "{}{unit}", rest / factor)?;
                rest %= factor;
            }
        }
        Ok(())
    }
}

impl FromStr for Rate {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Rate, ValueError> {
        let wrong = || {
            ValueError(format!("`{text}` is not a rate: write calls per unit of time, as in 20/s or 300/m"))
        };
        let (count, unit) = text.trim().split_once('/').ok_or_else(wrong)?;
        let factor = UNITS.iter().find(|(name, _)| *name == unit.trim()).ok_or_else(wrong)?.1;
        let count: u32 = count.trim().parse().map_err(|_| wrong())?;
        if count == 0 {
            return Err(wrong());
        }
        Ok(Rate { count, per: Duration::from_millis(factor) })
    }
}

impl FromStr for Size {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Size, ValueError> {
        let wrong =
            || ValueError(format!("`{text}` is not a size: write bytes with a unit, as in 512KiB or 16MiB"));
        let (digits, unit) = split_number(text.trim());
        let factor: u64 = match unit.trim() {
            "" | "B" => 1,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            "kB" | "KB" => 1_000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            _ => return Err(wrong()),
        };
        let number: u64 = digits.parse().map_err(|_| wrong())?;
        number.checked_mul(factor).map(Size).ok_or_else(wrong)
    }
}

impl FromStr for Percent {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Percent, ValueError> {
        let wrong = || ValueError(format!("`{text}` is not a percentage: write a number from 0 to 100"));
        let number: u8 = text.trim().trim_end_matches('%').parse().map_err(|_| wrong())?;
        if number > 100 { Err(wrong()) } else { Ok(Percent(number)) }
    }
}

/// Reads a value from its text; an error is put at the text, not at the mapping around it.
pub(super) fn from_text<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr<Err: fmt::Display>,
    D: Deserializer<'de>,
{
    struct TextVisitor<T>(PhantomData<T>);
    impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for TextVisitor<T> {
        type Value = T;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("text")
        }
        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(E::custom)
        }
    }
    deserializer.deserialize_str(TextVisitor(PhantomData))
}

/// Reads a key that limits something: where it is written it has a value, since nothing there would read as no limit.
pub(super) fn written<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

macro_rules! deserialize_from_text {
    ($($type:ty),*) => { $(
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                from_text(deserializer)
            }
        }
    )* };
}
deserialize_from_text!(Period, Rate, Size, Percent);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit_and_may_combine_units() {
        let check = |text: &str, expect: Option<u64>| {
            assert_eq!(text.parse::<Period>().ok().map(|s| s.0.as_millis() as u64), expect, "{text}");
        };
        check("60s", Some(60_000));
        check("10m", Some(600_000));
        check("1h30m", Some(5_400_000));
        check("400d", Some(400 * 86_400_000));
        check("250ms", Some(250));
        for wrong in ["", "60", "s", "1x", "-1s", "1h 30", "99999999999999999999s", "1.5h"] {
            check(wrong, None);
        }
    }

    #[test]
    fn a_duration_is_shown_as_it_is_written() {
        for text in ["1m", "1h30m", "400d", "250ms", "0s"] {
            assert_eq!(text.parse::<Period>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn rates_sizes_and_percentages_say_what_to_write() {
        assert_eq!("20/s".parse::<Rate>().unwrap(), Rate { count: 20, per: Duration::from_secs(1) });
        for wrong in ["20", "0/s", "x/s", "20/year"] {
            assert!(wrong.parse::<Rate>().unwrap_err().to_string().contains("20/s"), "{wrong}");
        }
        assert_eq!("64kB".parse::<Size>().unwrap(), Size(64_000));
        assert!("64 apples".parse::<Size>().is_err());
        assert_eq!("100".parse::<Percent>().unwrap(), Percent(100));
        assert!("101%".parse::<Percent>().is_err());
    }
}
