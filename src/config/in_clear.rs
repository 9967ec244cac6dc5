//! Secrets that a Terraform provider is told in clear, where their places should stand.
//!
//! Not every schema says of what a provider signs in with that it is a secret, so the names of attributes and variables tell.
//! They can be wrong, so this is a warning: what is a place, an address or a truth value is none under any name.

use super::ProviderEntry;
use reconciled_provider::{
    Node, Problem,
    yaml::{NodeValue, ScalarKind},
};

/// How the names of secrets end, in small letters.
const NAMES: [&str; 10] = [
    "secret",
    "password",
    "passwd",
    "passphrase",
    "token",
    "secret_key",
    "secret_access_key",
    "private_key",
    "api_key",
    "apikey",
];

/// How names end of what is a secret where it is the content of a file, and no name of one.
const FILES: &str = "credentials";

/// Warns of each of them.
pub(super) fn check(entries: &[ProviderEntry], problems: &mut Vec<Problem>) {
    for entry in entries.iter().filter(|entry| &*entry.type_name == "terraform") {
        for key in ["config", "env"] {
            if let Some(node) = entry.rest.get(key) {
                look(node, entry, problems);
            }
        }
    }
}

fn look(node: &Node, entry: &ProviderEntry, problems: &mut Vec<Problem>) {
    node.elements().iter().for_each(|one| look(one, entry, problems));
    for (key, value) in node.entries() {
        let name = key.as_str().unwrap_or_default();
        if is_secret(&name.to_lowercase(), value) {
            let provider = &entry.name;
            let text = format!(
                "`{name}` of provider `{provider}` is a secret by its name, and stands here in clear"
            );
            let problem = Problem::warning(text).at(&entry.file, key.span).without_line();
            problems.push(problem.hint(format!("write {name}: {{file: /etc/reconciled/{provider}.key}}")));
        }
        look(value, entry, problems);
    }
}

/// True where `name`, in small letters, is that of a secret, and this is one and no place of it.
fn is_secret(name: &str, value: &Node) -> bool {
    match &value.value {
        NodeValue::Scalar(_, ScalarKind::Bool) => false,
        NodeValue::Scalar(text, _) if name.ends_with(FILES) => text.trim().contains(['\n', '{']),
        NodeValue::Scalar(text, _) => NAMES.iter().any(|end| name.ends_with(end)) && is_content(text.trim()),
        NodeValue::Seq(all) => all.iter().any(|one| is_secret(name, one)),
        NodeValue::Null | NodeValue::Map(_) => false,
    }
}

/// False for nothing, a truth value, a path and an address.
fn is_content(text: &str) -> bool {
    let is_truth = ["true", "false"].iter().any(|word| text.eq_ignore_ascii_case(word));
    let is_path = ["/", "~", "./", "../"].iter().any(|begin| text.starts_with(begin));
    !text.is_empty() && !is_truth && !is_path && !text.contains("://")
}

#[cfg(test)]
mod tests {
    use crate::config::{Environment, parse};
    use reconciled_provider::{Problem, SourceFile};
    use std::sync::Arc;

    /// What is said of an entry with these keys, which never keeps it from being used.
    fn said(keys: &str) -> String {
        let text = format!("providers:\n- name: aws\n  type: terraform\n{keys}\n");
        let (config, problems) =
            parse(Arc::new(SourceFile::new("config.yaml", text)), &Environment::default());
        assert_eq!(config.unwrap().providers.len(), 1);
        problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_secret_in_clear_is_told_with_place_and_remedy_and_never_shown() {
        assert_eq!(
            said("  config:\n    region: eu-west-1\n    secret_key: S3CR3T"),
            "warning: `secret_key` of provider `aws` is a secret by its name, and stands here in clear\n  \
             --> config.yaml:6:5\nhint: write secret_key: {file: /etc/reconciled/aws.key}"
        );
        for clear in [
            "config: {token: S3CR3T}",
            "config: {Token: 'S3CR3T'}",
            "config: {token: [S3CR3T]}",
            "config: {login: [{db_password: S3CR3T}]}",
            "config: {auth: {app: {client_secret: S3CR3T}}}",
            "config: {apikey: 53CR37, api_key: {file: /k}}",
            "config: {passphrase: 4711}",
            "config: {credentials: '{\"key\": \"S3CR3T\"}'}",
            "config: {credentials: {private_key: S3CR3T}}",
            "config:\n    private_key: |\n      -----BEGIN KEY-----\n      S3CR3T",
            "config:\n    credentials: >\n      type\n\n      S3CR3T",
            "env: {AWS_SECRET_ACCESS_KEY: S3CR3T, AWS_REGION: x}",
        ] {
            let said = said(&format!("  {clear}"));
            let shows = ["S3CR3T", "53CR37", "4711"].iter().any(|secret| said.contains(secret));
            assert!(said.matches("warning: ").count() == 1 && !shows, "{clear}\n{said}");
        }
    }

    #[test]
    fn what_is_no_secret_or_says_where_one_is_stays_unsaid() {
        for good in [
            "config: {secret_key: {file: /k}, token: {env: T}, api_key: {credential: k}, password: {exec: [pass, k]}}",
            "config: {token_url: x, password_policy: x, secret_manager_endpoint: x, tokens: x, access_key: x}",
            "config: {token: '', password: ' ', secret: null, api_key: ~}",
            "config: {manage_password: true, refresh_token: 'False'}",
            "config: {private_key: /etc/k.pem, apikey: ~/k, token: ./k, secret: ../k}",
            "config: {token: 'https://login.example/token'}",
            "config: {credentials: /etc/cloud.json, shared_credentials: default}",
            "env: {TOKEN: {file: /k}, HTTPS_PROXY: x}",
            "source: token",
        ] {
            assert_eq!(said(&format!("  {good}")), "", "{good}");
        }
    }
}
