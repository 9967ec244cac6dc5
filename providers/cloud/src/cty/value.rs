//! Values.

use super::Type;
use std::{cmp::Ordering, collections::BTreeMap, fmt, sync::Arc};

/// A number as decimal text in one form for each number, so that equal texts are equal numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Number(Arc<str>);

impl Number {
    /// Reads a decimal number: `-1`, `0.50`, `1e3`.
    pub fn parse(text: &str) -> Option<Number> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => {
                (mantissa, exponent.parse::<i32>().ok().filter(|e| e.abs() <= 400)?)
            }
            None => (text, 0),
        };
        let (sign, digits) = match mantissa.strip_prefix('-') {
            Some(digits) => ("-", digits),
            None => ("", mantissa.strip_prefix('+').unwrap_or(mantissa)),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if (whole.is_empty() && fraction.is_empty()) || !is_digits(whole) || !is_digits(fraction) {
            return None;
        }
        let mut all = format!("{whole}{fraction}");
        let mut point = whole.len() as i32 + exponent;
        while point < 0 {
            all.insert(0, '0');
            point += 1;
        }
        while (all.len() as i32) < point {
            all.push('0');
        }
        let (whole, fraction) = all.split_at(point as usize);
        let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
        let whole = if whole.is_empty() { "0" } else { whole };
        let text = match (whole, fraction) {
            ("0", "") => "0".into(),
            (whole, "") => format!("{sign}{whole}"),
            (whole, fraction) => format!("{sign}{whole}.{fraction}"),
        };
        Some(Number(text.into()))
    }
    /// The number that `value` is closest to when it is printed.
    pub fn of_float(value: f64) -> Option<Number> {
        Number::parse(&format!("{value:e}")).filter(|_| value.is_finite())
    }
    /// As a whole number, where it is one and small enough.
    pub fn as_int(&self) -> Option<i64> {
        self.0.parse().ok()
    }
    /// As a binary fraction, where that is exact.
    pub fn as_exact_float(&self) -> Option<f64> {
        let value: f64 = self.0.parse().ok()?;
        // A binary fraction with few digits has few decimal places.
        let shown = format!("{value:.60}");
        (shown.trim_end_matches('0').trim_end_matches('.') == &*self.0).then_some(value)
    }
    /// The decimal text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<i64> for Number {
    fn from(value: i64) -> Number {
        Number(value.to_string().into())
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A value. What it is a value of is told by a [`Type`] beside it.
#[derive(Clone, PartialEq, Eq)]
pub enum Value {
    /// Nothing.
    Null,
    /// Known only after apply.
    Unknown,
    /// True or false.
    Bool(bool),
    /// A number.
    Number(Number),
    /// Text.
    String(Arc<str>),
    /// A list, a tuple, or a set, which is sorted.
    Seq(Vec<Value>),
    /// A map or an object.
    Map(BTreeMap<Arc<str>, Value>),
    /// A value where any type may stand, with its own.
    Dynamic(Box<(Type, Value)>),
}

impl Value {
    /// Text.
    pub fn text(text: &str) -> Value {
        Value::String(text.into())
    }
    /// A set of these: sorted, each once.
    pub fn set(mut elements: Vec<Value>) -> Value {
        elements.sort();
        elements.dedup();
        Value::Seq(elements)
    }
    /// True for nothing.
    pub fn is_null(&self) -> bool {
        *self == Value::Null
    }
    /// True where no part is unknown.
    pub fn is_known(&self) -> bool {
        match self {
            Value::Unknown => false,
            Value::Seq(elements) => elements.iter().all(Value::is_known),
            Value::Map(fields) => fields.values().all(Value::is_known),
            Value::Dynamic(inner) => inner.1.is_known(),
            _ => true,
        }
    }
    /// The value of an attribute; nothing where there is none.
    pub fn get(&self, name: &str) -> &Value {
        match self {
            Value::Map(fields) => fields.get(name).unwrap_or(&Value::Null),
            _ => &Value::Null,
        }
    }
    /// The elements of a list, tuple or set.
    pub fn elements(&self) -> &[Value] {
        match self {
            Value::Seq(elements) => elements,
            _ => &[],
        }
    }
    /// Text, where it is text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }
    fn rank(&self) -> u8 {
        match self {
            Value::Null => 0,
            Value::Unknown => 1,
            Value::Bool(_) => 2,
            Value::Number(_) => 3,
            Value::String(_) => 4,
            Value::Seq(_) => 5,
            Value::Map(_) => 6,
            Value::Dynamic(_) => 7,
        }
    }
}

/// An order in which equal values meet; it says nothing about which is larger.
impl Ord for Value {
    fn cmp(&self, other: &Value) -> Ordering {
        match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Value::Number(a), Value::Number(b)) => (a.0.len(), &a.0).cmp(&(b.0.len(), &b.0)),
            (Value::String(a), Value::String(b)) => a.cmp(b),
            (Value::Seq(a), Value::Seq(b)) => a.cmp(b),
            (Value::Map(a), Value::Map(b)) => a.cmp(b),
            (Value::Dynamic(a), Value::Dynamic(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Value) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Values may be secret: only their shape is printed.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Unknown => f.write_str("unknown"),
            Value::Bool(_) => f.write_str("bool"),
            Value::Number(_) => f.write_str("number"),
            Value::String(_) => f.write_str("string"),
            Value::Seq(elements) => f.debug_list().entries(elements).finish(),
            Value::Map(fields) => f.debug_map().entries(fields).finish(),
            Value::Dynamic(inner) => inner.1.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_one_form() {
        let check = |text: &str, expect: &str| {
            assert_eq!(Number::parse(text).map(|n| n.to_string()).as_deref(), Some(expect), "{text}");
        };
        for (text, expect) in [
            ("0", "0"),
            ("-0.0", "0"),
            ("007", "7"),
            ("+1.50", "1.5"),
            ("-12", "-12"),
            ("1e3", "1000"),
            ("1.25e1", "12.5"),
            ("5e-3", "0.005"),
            (".5", "0.5"),
            ("18446744073709551616", "18446744073709551616"),
            ("0.1000000000000000055511151231257827", "0.1000000000000000055511151231257827"),
        ] {
            check(text, expect);
        }
        for wrong in ["", "-", ".", "1.2.3", "0x10", "1e", "1e9999", "ten", "1 "] {
            assert_eq!(Number::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_float_is_exact_or_none() {
        let exact = |text: &str| Number::parse(text).unwrap().as_exact_float();
        assert_eq!(exact("0.5"), Some(0.5));
        assert_eq!(exact("-2.25"), Some(-2.25));
        assert_eq!(exact("0.1"), None);
        assert_eq!(Number::of_float(0.1).unwrap().as_str(), "0.1");
        assert_eq!(Number::of_float(f64::INFINITY), None);
        assert_eq!(Number::from(-3).as_int(), Some(-3));
    }

    #[test]
    fn a_set_has_no_order_and_no_value_twice_and_prints_none() {
        let set = |words: &[&str]| Value::set(words.iter().map(|word| Value::text(word)).collect());
        assert_eq!(set(&["b", "a", "b"]), set(&["a", "b"]));
        assert_eq!(format!("{:?}", set(&["canary"])), "[string]");
    }
}
