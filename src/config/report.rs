//! The key `report` of a source: the forge that is told how its commits fare.

use super::{SecretPlace, telemetry::http};
use reconciled_provider::{Node, Problem, SecretRef, SourceFile};
use serde::Deserialize;
use std::sync::Arc;
use url::Url;

/// A forge that is told how commits fare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Which kind.
    pub forge: Forge,
    /// `OWNER/REPOSITORY`; of GitLab the path or the number of the project.
    pub project: Arc<str>,
    /// Base of its API.
    pub api: Url,
    /// Access token.
    pub token: SecretRef,
}

/// A kind of forge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forge {
    /// GitHub.
    Github,
    /// GitLab.
    Gitlab,
    /// Gitea and Forgejo.
    Gitea,
}

#[derive(Deserialize)]
pub(super) struct RawReport {
    github: Option<String>,
    gitlab: Option<String>,
    gitea: Option<String>,
    url: Option<String>,
    token: SecretPlace,
}

impl RawReport {
    pub(super) fn read(self, node: &Node, file: &SourceFile, problems: &mut Vec<Problem>) -> Option<Report> {
        let mut error = |key: &str, message: String, hint: &str| {
            let span = node.entry(key).map_or(node.span, |(_, value)| value.span);
            problems.push(Problem::error(message).at(file, span).hint(hint));
            None
        };
        let (forge, project) = match (self.github, self.gitlab, self.gitea) {
            (Some(project), None, None) => (Forge::Github, project),
            (None, Some(project), None) => (Forge::Gitlab, project),
            (None, None, Some(project)) => (Forge::Gitea, project),
            _ => {
                let message = "`report` needs exactly one forge".to_owned();
                return error("", message, "write one of github, gitlab, gitea: OWNER/REPOSITORY");
            }
        };
        let is_number = forge == Forge::Gitlab && project.chars().all(|c| c.is_ascii_digit());
        let parts: Vec<&str> = project.split('/').collect();
        let has_parts = parts.len() == 2 || forge == Forge::Gitlab && parts.len() > 2;
        if !is_number
            && (!has_parts || parts.iter().any(|part| part.is_empty() || matches!(*part, "." | "..")))
        {
            let message = format!("`{project}` is not a project");
            return error("", message, "write OWNER/REPOSITORY");
        }
        let usual = match forge {
            Forge::Github => Some("https://api.github.com"),
            Forge::Gitlab => Some("https://gitlab.com/api/v4"),
            Forge::Gitea => None,
        };
        let Some(api) = self.url.as_deref().or(usual).and_then(http) else {
            let hint = "write the base of its API, as in https://git.example.com/api/v1";
            return match self.url {
                Some(_) => error(
                    "url",
                    "not an address of http or https, or one with a password in it".to_owned(),
                    hint,
                ),
                None => error("", "`report` to gitea needs a `url`".to_owned(), hint),
            };
        };
        Some(Report { forge, project: project.into(), api, token: self.token.0 })
    }
}
