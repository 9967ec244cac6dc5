//! Secrets that a request took along, masked in what its answer says: a proxy that fails may echo all it was sent.

use reconciled_provider::{Mask, Secret};
use reqwest::{Request, header::HeaderValue};

/// The values of the headers of a request that are marked as sensitive.
#[derive(Debug, Default)]
pub(crate) struct Hidden(Vec<Secret>);

impl Hidden {
    /// Those that `request` takes along; of `Bearer TOKEN` the token too.
    pub(crate) fn of(request: &Request) -> Hidden {
        let sensitive = request.headers().values().filter(|value| value.is_sensitive());
        Hidden(sensitive.flat_map(parts).collect())
    }

    /// The text without any of them.
    pub(crate) fn mask(&self, text: &str) -> String {
        Mask::of(self.0.iter().filter_map(|secret| secret.reveal_str().ok())).over(text)
    }
}

fn parts(value: &HeaderValue) -> impl Iterator<Item = Secret> {
    let whole = value.as_bytes();
    let behind = whole.iter().position(|byte| *byte == b' ').map(|at| &whole[at + 1..]);
    [Some(whole), behind].into_iter().flatten().map(|part| Secret::new(part.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::{Method, Url};

    #[test]
    fn what_is_sensitive_in_a_request_is_left_in_no_text() {
        let mut request = Request::new(Method::GET, Url::parse("http://a.example").unwrap());
        let mut value = HeaderValue::from_static("Bearer hunter2");
        value.set_sensitive(true);
        request.headers_mut().insert("authorization", value);
        request.headers_mut().insert("accept", HeaderValue::from_static("application/json"));
        let hidden = Hidden::of(&request);
        let text = hidden.mask("Bearer hunter2; token hunter2; application/json");
        assert_eq!(text, "(secret); token (secret); application/json");
        assert!(!format!("{hidden:?}").contains("hunter2"));
    }
}
