//! Secrets masked in what others say: a proxy that fails echoes what it was sent, a tool prints what it was given, each in a
//! spelling of its own.
//!
//! *Guarantees*: what is masked is left in no spelling that is known here. *Caveats*: three octets or fewer are a part of
//! everything, and are not looked for.

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE},
};
use zeroize::Zeroizing;

/// Shorter spellings are parts of everything.
const SHORTEST: usize = 4;

/// Secrets from so many octets on are looked for as they are in addresses and headers, too.
const ENCODED: usize = 6;

/// What stands for a secret.
const MASK: &str = "(secret)";

/// Secrets in every spelling, to be masked. Wiped when dropped, never printed.
///
/// ```
/// use reconciled_provider::Mask;
/// let mask = Mask::of(["p@ss word"]);
/// assert_eq!(mask.over("https://h/?key=p%40ss+word&a=b"), "https://h/?key=(secret)&a=b");
/// ```
pub struct Mask(Vec<Zeroizing<String>>);

impl Mask {
    /// The spellings of these secrets: as they are, on one line, as quoted text, each line, and as addresses and headers have
    /// them.
    pub fn of<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Mask {
        let mut forms: Vec<Zeroizing<String>> = Vec::new();
        for secret in secrets {
            forms.extend(whole(secret));
            forms.extend(secret.lines().map(|line| Zeroizing::new(line.trim().to_owned())));
        }
        Mask::with(forms)
    }

    /// The same without their lines: each of these is in a text only where all of a secret is.
    pub fn of_whole<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Mask {
        Mask::with(secrets.into_iter().flat_map(whole).collect())
    }

    fn with(mut forms: Vec<Zeroizing<String>>) -> Mask {
        forms.retain(|form| form.len() >= SHORTEST);
        // The longest first, so that none leaves the rest of a longer one behind.
        forms.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        forms.dedup();
        Mask(forms)
    }

    /// True when one of them is in the text.
    ///
    /// ```
    /// use reconciled_provider::Mask;
    /// let mask = Mask::of_whole(["BEGIN KEY\np@ss word"]);
    /// assert!(mask.finds("?key=BEGIN%20KEY%0Ap%40ss%20word") && !mask.finds("BEGIN KEY"));
    /// ```
    pub fn finds(&self, text: &str) -> bool {
        self.0.iter().any(|form| text.contains(form.as_str()))
    }

    /// The text without any of them.
    pub fn over(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for form in &self.0 {
            if text.contains(form.as_str()) {
                text = text.replace(form.as_str(), MASK);
            }
        }
        text
    }

    /// The text on one line and without any of them, however its lines were broken.
    pub fn on_one_line(&self, text: &str) -> String {
        // Once as it came, and once more for what only its line breaks kept apart.
        self.over(&one_line(&self.over(text)))
    }
}

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mask({})", self.0.len())
    }
}

/// A secret as it is, on one line, and in all spellings.
fn whole(secret: &str) -> Vec<Zeroizing<String>> {
    let quoted = quoted(secret);
    let mut forms =
        Vec::from([secret.to_owned(), one_line(secret), quoted.replace('/', "\\/")].map(Zeroizing::new));
    forms.push(quoted);
    // Short ones in another spelling are in any text.
    if secret.len() >= ENCODED {
        forms.extend(encoded(secret).into_iter().map(Zeroizing::new));
    }
    forms
}

/// As JSON writes it, without the quotes.
fn quoted(secret: &str) -> Zeroizing<String> {
    // A text always is one.
    let quoted = Zeroizing::new(serde_json::to_string(secret).unwrap_or_default());
    let inner = quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    Zeroizing::new(inner.unwrap_or(secret).to_owned())
}

/// A secret as it is in a URL, in a header, in markup, and in what Go writes as JSON.
fn encoded(secret: &str) -> Vec<String> {
    let percent = |keeps: &[u8]| {
        let one = |byte: u8| match byte {
            byte if byte.is_ascii_alphanumeric() || keeps.contains(&byte) => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        };
        secret.bytes().map(one).collect::<String>()
    };
    // Go's net/url leaves these as they are in a path, in a query, and in a user or password.
    let urls = [percent(b"-_.~$&+,/:;=@"), percent(b"-_.~"), percent(b"-_.~$&+,;=")];
    let plus = urls[1].replace("%20", "+");
    let lower: Vec<String> = urls.iter().map(|text| lower_escapes(text)).collect();
    // Behind other bytes, as in `user:secret`, too: the letters that are its own alone, for each place in a group of three.
    let base64 = (0..3).flat_map(|before| {
        let bytes = Zeroizing::new([&[0; 2][..before], secret.as_bytes()].concat());
        let own = (before * 8).div_ceil(6)..bytes.len() * 8 / 6;
        [STANDARD.encode(&*bytes), URL_SAFE.encode(&*bytes)].map(|text| text[own.clone()].to_owned())
    });
    let go = [('&', "\\u0026"), ('<', "\\u003c"), ('>', "\\u003e")];
    let go = go.iter().fold(quoted(secret).to_string(), |text, (from, to)| text.replace(*from, to));
    // XML and HTML: by names, and as Go has it.
    let entities = |quote: &str, apostrophe: &str| {
        let text = secret.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        text.replace('"', quote).replace('\'', apostrophe)
    };
    let markup = [("&quot;", "'"), ("&quot;", "&apos;"), ("&quot;", "&#39;"), ("&#34;", "&#39;")];
    let markup = markup.map(|(quote, apostrophe)| entities(quote, apostrophe));
    let whole = [STANDARD.encode(secret), URL_SAFE.encode(secret)];
    urls.into_iter().chain(lower).chain([plus, go]).chain(markup).chain(whole).chain(base64).collect()
}

/// `%4A` as `%4a`.
fn lower_escapes(text: &str) -> String {
    let mut parts = text.split('%');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let (digits, rest) = part.split_at(part.len().min(2));
        format!("{text}%{}{rest}", digits.to_ascii_lowercase())
    })
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_spelling_of_a_secret_is_left_in_a_text() {
        let check = |secrets: &[&str], text: &str, expect: &str| {
            assert_eq!(Mask::of(secrets.iter().copied()).over(text), expect, "{secrets:?}");
        };
        check(&["hunter2"], "no hunter2, hunter2.", "no (secret), (secret).");
        // The longer one first, whatever the order.
        check(&["abcd", "abcd-efgh"], "abcd-efgh abcd", "(secret) (secret)");
        check(&["two  words"], "say two words", "say (secret)");
        check(&["BEGIN\nline-one\nline-two\nEND"], "bad line: line-two", "bad line: (secret)");
        check(&["BEGIN\nline-one"], r#"key "BEGIN\nline-one" is wrong"#, r#"key "(secret)" is wrong"#);
        check(&["abc", ""], "abc is in abcd", "abc is in abcd");
        check(&["p@ss word"], "postgres://u:p%40ss%20word@h", "postgres://u:(secret)@h");
        check(&["p@ss word"], "https://h/?key=p%40ss+word&a=b", "https://h/?key=(secret)&a=b");
        check(&["p@ss word"], "Basic cEBzcyB3b3Jk", "Basic (secret)");
        check(&["hunter2"], "Basic dXNlcjpodW50ZXIy", "Basic dXNlcjp(secret)");
        check(&["p@ss+word"], "u:p%40ss%2bword@h", "u:(secret)@h");
        check(&["p&ss<word"], r#"{"password":"p\u0026ss\u003cword"}"#, r#"{"password":"(secret)"}"#);
        check(&["a+b/c=="], r#"{"key":"a+b\/c=="}"#, r#"{"key":"(secret)"}"#);
        check(&["a+b/c=="], "?key=a%2Bb%2Fc%3D%3D&key=a%2bb%2fc%3d%3d", "?key=(secret)&key=(secret)");
        check(&[r#"new"Se\cret&8"#], r#"<m>new&quot;Se\cret&amp;8</m>"#, "<m>(secret)</m>");
        check(&["it's<it"], "it&#39;s&lt;it", "(secret)");
        check(&[r#"say"it""#], r#"{"key":"say\"it\""}"#, r#"{"key":"(secret)"}"#);
    }

    #[test]
    fn what_is_masked_is_not_printed() {
        let text = format!("{:?}", Mask::of(["hunter2"]));
        assert!(text.starts_with("Mask(") && !text.contains("hunter2"), "{text}");
    }
}
