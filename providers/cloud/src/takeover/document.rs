//! Manifests as text: YAML in block style, every text as it is read back. Pure.

use reconciled_provider::yaml::quoted;
use serde_json::{Map, Value as Json};
use std::fmt::Write as _;

/// What a manifest says besides its content.
pub(crate) struct Head<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    /// Annotations, without `reconciled/`.
    pub(crate) annotations: Vec<(&'static str, String)>,
}

/// A manifest.
pub(crate) fn document(head: &Head<'_>, spec: &Json) -> String {
    let mut out =
        format!("apiVersion: {}\nkind: {}\nmetadata:\n", quoted(head.api_version), quoted(head.kind));
    let _ = writeln!(out, "  name: {}", quoted(head.name));
    if !head.namespace.is_empty() {
        let _ = writeln!(out, "  namespace: {}", quoted(head.namespace));
    }
    if !head.annotations.is_empty() {
        out.push_str("  annotations:\n");
        for (word, text) in &head.annotations {
            let _ = writeln!(out, "    reconciled/{word}: {}", quoted(text));
        }
    }
    out.push_str("spec:");
    below(spec, 1, &mut out);
    out
}

/// What stands behind a key: on its line, or below it.
fn below(value: &Json, depth: usize, out: &mut String) {
    match value {
        Json::Object(fields) if fields.len() == 1 && fields.contains_key("$number") => {
            let _ = writeln!(out, " {}", fields["$number"].as_str().unwrap_or_default());
        }
        Json::Object(fields) if !fields.is_empty() => {
            out.push('\n');
            object(fields, depth, out);
        }
        Json::Array(all) if !all.is_empty() => {
            out.push('\n');
            for one in all {
                let _ = write!(out, "{}-", "  ".repeat(depth));
                below(one, depth + 1, out);
            }
        }
        Json::Object(_) => out.push_str(" {}\n"),
        Json::Array(_) => out.push_str(" []\n"),
        Json::String(text) => {
            // References are this program's; what stands in a state is meant as it is.
            let _ = writeln!(out, " {}", quoted(&text.replace("${", "$${")));
        }
        other => {
            let _ = writeln!(out, " {other}");
        }
    }
}

fn object(fields: &Map<String, Json>, depth: usize, out: &mut String) {
    for (name, value) in fields {
        let _ = write!(out, "{}{}:", "  ".repeat(depth), quoted(name));
        below(value, depth + 1, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use reconciled_provider::{Node, SourceFile, yaml, yaml::NodeValue, yaml::ScalarKind};
    use serde_json::json;

    fn json_of(node: &Node) -> Json {
        match &node.value {
            NodeValue::Null => Json::Null,
            NodeValue::Seq(all) => Json::Array(all.iter().map(json_of).collect()),
            NodeValue::Map(all) => Json::Object(
                all.iter().map(|(key, value)| (key.as_str().unwrap().to_string(), json_of(value))).collect(),
            ),
            NodeValue::Scalar(text, ScalarKind::Bool) => Json::Bool(&**text == "true"),
            NodeValue::Scalar(text, ScalarKind::Int | ScalarKind::Float) => text.parse().unwrap(),
            NodeValue::Scalar(text, _) => Json::String(text.replace("$${", "${")),
        }
    }

    fn read_back(spec: &Json) -> Json {
        let head =
            Head { api_version: "aws/v1", kind: "Thing", namespace: "", name: "a", annotations: Vec::new() };
        let file = SourceFile::new("a.yaml", document(&head, spec));
        let nodes = yaml::parse(&file, yaml::Limits::default()).unwrap_or_else(|_| panic!("{}", file.text));
        json_of(nodes[0].get("spec").unwrap())
    }

    #[test]
    fn a_manifest_is_readable() {
        let head = Head {
            api_version: "aws/v1",
            kind: "SqsQueue",
            namespace: "",
            name: "jobs",
            annotations: vec![("import", "https://sqs/jobs".into())],
        };
        let spec = json!({ "name": "jobs", "on": true, "tags": { "a b": "1" }, "rule": [{ "port": 80 }, []], "none": {} });
        let expect = "apiVersion: aws/v1\nkind: SqsQueue\nmetadata:\n  name: jobs\n  annotations:\n    \
                      reconciled/import: \"https://sqs/jobs\"\nspec:\n  name: jobs\n  \"on\": true\n  tags:\n    \
                      \"a b\": \"1\"\n  rule:\n    -\n      port: 80\n    - []\n  none: {}\n";
        assert_eq!(document(&head, &spec), expect);
        assert_eq!(read_back(&spec), spec);
    }

    proptest! {
        #[test]
        fn every_text_is_read_back(text in "\\PC{0,12}|[\\x00-\\x7f]{0,8}", key in "\\PC{1,6}") {
            // Nothing reads a NUL from YAML, and no cloud stores one in a text.
            prop_assume!(!text.contains('\0'));
            let spec = json!({ key: [text] });
            prop_assert_eq!(read_back(&spec), spec);
        }
    }
}
