//! Every span, field and metric by name: the specification of docs/telemetry.md, which a test compares with this.

pub use reconciled_engine::telemetry::{ACTION, PASS, SCOPE};

/// One call that reaches a remote.
pub const CALL: &str = "call";

/// A span that is exported, with its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its name.
    pub name: &'static str,
    /// What is known of it.
    pub fields: &'static [&'static str],
    /// What it stands for.
    pub help: &'static str,
}

/// The field that says that what a span stands for failed, and how, in the words of the provider contract.
pub const ERROR: &str = "error";

/// The spans.
pub const SPANS: &[Span] = &[
    Span { name: PASS, fields: &["revision"], help: "One run of the scheduler over some scopes" },
    Span {
        name: SCOPE,
        fields: &["provider", "scope", ERROR],
        help: "What a pass does to one scope once it is planned",
    },
    Span {
        name: ACTION,
        fields: &["op", "resource", ERROR],
        help: "One action from the intent to the outcome; the first 256 of a batch",
    },
    Span { name: CALL, fields: &["call", "scope", ERROR], help: "One call to a provider" },
];

/// How a metric counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// As it is now.
    Gauge,
    /// Spread over buckets.
    Histogram,
}

/// A metric. No label names a resource, a scope or a commit, so that there are as many series as entries and sources;
/// but for certificates, whose ends are what one is woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// How it counts.
    pub kind: Kind,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// What it says.
    pub help: &'static str,
}

macro_rules! metrics {
    ($($constant:ident $kind:ident $name:literal $labels:expr, $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $constant: Metric =
                Metric { name: $name, kind: Kind::$kind, labels: &$labels, help: $help };
        )*
        /// All metrics, by name.
        pub const METRICS: &[Metric] = &[$($constant),*];
    };
}

metrics! {
    BUILD_INFO Gauge "reconciled_build_info" ["version"], "1, with the version of the program";
    CERTIFICATE_EXPIRY Gauge "reconciled_certificate_expiry_timestamp_seconds" ["provider", "certificate"], "When a certificate in use ends";
    CERTIFICATE_RENEWAL Gauge "reconciled_certificate_renewal_timestamp_seconds" ["provider", "certificate"], "When a certificate in use is to be renewed";
    CERTIFICATE_SERVED Gauge "reconciled_certificate_served" ["provider", "certificate", "endpoint"], "1 while an address shows the certificate in use, 0 while it shows another one; none while it does not answer";
    CERTIFICATE_SERVED_EXPIRY Gauge "reconciled_certificate_served_expiry_timestamp_seconds" ["provider", "certificate", "endpoint"], "When the certificate ends that an address shows";
    COMMIT_STATUSES Counter "reconciled_commit_statuses_total" ["source", "outcome"], "Commit statuses: sent, failed";
    COMMIT_TO_CONVERGED Histogram "reconciled_commit_to_converged_seconds" ["source"], "From the time of a commit until all of it was found in sync";
    CONDITIONS Gauge "reconciled_conditions" ["kind"], "What is not in sync: waiting, stalled, held, suspended";
    DEGRADED_RESOURCES Gauge "reconciled_degraded_resources" [], "Tracked resources that are as declared and do not do their work";
    DRIFTS Gauge "reconciled_drifts" ["mode"], "What was changed by somebody else and is not over: to be healed, or only reported";
    GIT_POLLS Counter "reconciled_git_polls_total" ["source", "outcome"], "Questions to the repository of a source: answered, failed";
    HEALING_WRITES Counter "reconciled_healing_writes_total" ["provider"], "Writes without a change of the specification: drift and what was lost";
    HOLDS Gauge "reconciled_holds" [], "Guard domains that wait for consent, but for those that a closed window or a person stops";
    LAST_CONVERGED Gauge "reconciled_last_converged_commit_timestamp_seconds" ["source"], "Time of the commit that was last found in sync";
    LONGEST_PASS Gauge "reconciled_longest_pass_seconds" [], "How long the pass that has run longest is running; 0 when none runs";
    NOTIFICATIONS Counter "reconciled_notifications_total" ["receiver", "outcome"], "Notifications: sent, failed, given-up";
    PASS_SECONDS Histogram "reconciled_pass_seconds" ["provider"], "How long a pass over a scope took, with the scopes it ran together with";
    PASSES Counter "reconciled_passes_total" ["provider", "state"], "Passes over a scope, by how it stood afterwards";
    PROVIDER_CALLS Counter "reconciled_provider_calls_total" ["provider", "operation", "outcome"], "Calls to a provider: ok, or how it failed";
    PROVIDER_REQUESTS Counter "reconciled_provider_requests_total" ["provider", "code"], "Requests to HTTP APIs of DNS and certificate authorities, and to registries of Terraform providers: the status of the answer, or none where none came";
    RATE_TOKENS Gauge "reconciled_rate_tokens" ["provider"], "Requests that the rate limit of an entry lets through at once";
    RESOURCES Gauge "reconciled_resources" ["state"], "Tracked resources: applied, settled, pending";
    SCOPES Gauge "reconciled_scopes" ["stance"], "Scopes by how they stand";
    SEEN_TO_CONVERGED Histogram "reconciled_seen_to_converged_seconds" ["source"], "From when a commit came to be known until all of it was found in sync";
    SOURCES Gauge "reconciled_sources" ["state"], "Sources: well, waiting for their repository, stalled until a person acts, invalid in what they declare";
    STORE_COMMIT_SECONDS Histogram "reconciled_store_commit_seconds" [], "How long a transaction of the state took, waiting included";
    STORE_COMMITS Counter "reconciled_store_commits_total" ["outcome"], "Transactions asked of the state: done, failed";
    SUSPENSIONS Gauge "reconciled_suspensions" [], "What persons stopped";
    UPKEEP_FAILING Gauge "reconciled_upkeep_failing" ["work"], "1 while a backup, the export of the audit trail or its retention fails or hangs";
    WRITES Counter "reconciled_writes_total" ["provider", "reason", "outcome"], "Actions that ended, by why they were in the plan";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, path::Path};

    #[test]
    fn names_follow_the_style() {
        assert!(METRICS.is_sorted_by_key(|metric| metric.name));
        for metric in METRICS {
            assert!(metric.name.starts_with("reconciled_"), "{}", metric.name);
            assert_eq!(metric.name.ends_with("_total"), metric.kind == Kind::Counter, "{}", metric.name);
            assert!(metric.kind != Kind::Histogram || metric.name.ends_with("_seconds"), "{}", metric.name);
            for label in metric.labels {
                assert!(!["scope", "resource", "commit", "address"].contains(label), "{}", metric.name);
            }
        }
    }

    #[test]
    fn the_documentation_has_every_name_and_no_other() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/telemetry.md");
        let text = fs::read_to_string(path).unwrap();
        let rows = |heading: &str| -> Vec<String> {
            let section = text.split(&format!("\n## {heading}\n")).nth(1).expect("the section is there");
            let lines = section.split("\n## ").next().unwrap().lines();
            lines.filter(|line| line.starts_with("| `")).map(str::to_owned).collect()
        };
        let ticked = |words: &[&str]| words.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(", ");
        let kind = |metric: &Metric| format!("{:?}", metric.kind).to_lowercase();
        let expected: Vec<String> = METRICS
            .iter()
            .map(|m| format!("| `{}` | {} | {} | {} |", m.name, kind(m), ticked(m.labels), m.help))
            .collect();
        assert_eq!(rows("Metrics"), expected, "\n{}", expected.join("\n"));
        let expected: Vec<String> =
            SPANS.iter().map(|s| format!("| `{}` | {} | {} |", s.name, ticked(s.fields), s.help)).collect();
        assert_eq!(rows("Spans"), expected, "\n{}", expected.join("\n"));
    }
}
