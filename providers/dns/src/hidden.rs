//! Secrets that a request took along, masked in what its answer says: a proxy that fails may echo all it was sent.

use reconciled_provider::Secret;
use reqwest::{Request, header::HeaderValue};
use zeroize::Zeroizing;

/// Shorter ones are parts of everything.
const SHORTEST: usize = 5;

/// What stands for a secret.
const MASK: &str = "(secret)";

/// The values of the headers of a request that are marked as sensitive.
#[derive(Debug, Default)]
pub(crate) struct Hidden(Vec<Secret>);

impl Hidden {
    /// Those that `request` takes along; of `Bearer TOKEN` the token too.
    pub(crate) fn of(request: &Request) -> Hidden {
        let sensitive = request.headers().values().filter(|value| value.is_sensitive());
        let mut all: Vec<Secret> = sensitive.flat_map(parts).collect();
        // The longest first, so that none leaves the rest of a longer one behind.
        all.sort_by_key(|secret| std::cmp::Reverse(secret.reveal().len()));
        Hidden(all)
    }

    /// The text without any of them: as they are, as JSON writes them, and as an address does.
    pub(crate) fn mask(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.0 {
            let Ok(clear) = secret.reveal_str() else { continue };
            for form in forms(clear) {
                if text.contains(form.as_str()) {
                    text = text.replace(form.as_str(), MASK);
                }
            }
        }
        text
    }
}

fn parts(value: &HeaderValue) -> Vec<Secret> {
    let whole = value.as_bytes();
    let behind = whole.iter().position(|byte| *byte == b' ').map(|at| &whole[at + 1..]);
    let long = [Some(whole), behind].into_iter().flatten().filter(|part| part.len() >= SHORTEST);
    long.map(|part| Secret::new(part.to_vec())).collect()
}

fn forms(clear: &str) -> [Zeroizing<String>; 5] {
    // A text always is one.
    let quoted = serde_json::to_string(clear).unwrap_or_default();
    let quoted = quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(clear);
    // PHP and others write it so.
    let slashes = quoted.replace('/', "\\/");
    let escaped = |escape: fn(u8) -> String| {
        let one = |byte: u8| match byte {
            b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
            byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
            byte => escape(byte),
        };
        clear.bytes().map(one).collect::<String>()
    };
    let (upper, lower) = (escaped(|byte| format!("%{byte:02X}")), escaped(|byte| format!("%{byte:02x}")));
    [clear.to_owned(), quoted.to_owned(), slashes, upper, lower].map(Zeroizing::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::{Method, Url};

    fn mask(header: &str, text: &str) -> String {
        let mut request = Request::new(Method::GET, Url::parse("http://a.example").unwrap());
        let mut value = HeaderValue::from_str(header).unwrap();
        value.set_sensitive(true);
        request.headers_mut().insert("x-key", value);
        request.headers_mut().insert("accept", HeaderValue::from_static("application/json"));
        Hidden::of(&request).mask(text)
    }

    #[test]
    fn no_form_of_what_was_sent_is_left_in_a_text() {
        let check = |header: &str, text: &str, expect: &str| assert_eq!(mask(header, text), expect);
        check("hunter2", "boom key=hunter2, hunter2", "boom key=(secret), (secret)");
        check("Bearer hunter2", "Bearer hunter2; token hunter2", "(secret); token (secret)");
        check("a+b/c==", r#"{"key":"a+b\/c=="}"#, r#"{"key":"(secret)"}"#);
        check("a+b/c==", "?key=a%2Bb%2Fc%3D%3D&key=a%2bb%2fc%3d%3d", "?key=(secret)&key=(secret)");
        check(r#"say"it""#, r#"{"key":"say\"it\""}"#, r#"{"key":"(secret)"}"#);
        // Too short to be told from anything else, and what is no secret.
        check("zone", "no zone, application/json", "no zone, application/json");
    }

    #[test]
    fn what_is_hidden_is_not_printed() {
        let text = format!("{:?}", Hidden(vec![Secret::new(b"hunter2".to_vec())]));
        assert!(!text.contains("hunter2"), "{text}");
    }
}
