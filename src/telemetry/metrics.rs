//! Numbers for Prometheus: counted where things happen, asked for by a scrape.
//!
//! Guarantees: as many series as there are entries, sources, receivers and words; a count never waits for a scrape.
//! Counts are of the process: a reload keeps them, a restart begins anew.

use super::names::{self, Metric};
use crate::layer::Bucket;
use prometheus::{
    CounterVec, GaugeVec, HistogramOpts, HistogramVec, Opts, Registry, TextEncoder, core::Collector,
};
use reconciled_engine::{
    scheduler::{Stance, Standing},
    store::ConditionKind,
};
use reconciled_provider::{Ending, Scope};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Buckets of what takes from a millisecond to a minute.
const SHORT: &[f64] = &[0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0];
/// Buckets of what takes from a moment to a day.
const LONG: &[f64] =
    &[0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0, 7_200.0, 86_400.0];

/// Every metric of the process.
pub struct Metrics {
    registry: Registry,
    calls: CounterVec,
    certificate_expiry: GaugeVec,
    certificate_renewal: GaugeVec,
    certificate_served: GaugeVec,
    certificate_served_expiry: GaugeVec,
    commit_statuses: CounterVec,
    commit_to_converged: HistogramVec,
    conditions: GaugeVec,
    degraded_resources: GaugeVec,
    drifts: GaugeVec,
    git_polls: CounterVec,
    healing_writes: CounterVec,
    holds: GaugeVec,
    last_converged: GaugeVec,
    longest_pass: GaugeVec,
    notifications: CounterVec,
    passes: CounterVec,
    pass_seconds: HistogramVec,
    rate_tokens: GaugeVec,
    requests: CounterVec,
    resources: GaugeVec,
    scopes: GaugeVec,
    seen_to_converged: HistogramVec,
    sources: GaugeVec,
    store_commits: CounterVec,
    store_commit_seconds: HistogramVec,
    suspensions: GaugeVec,
    upkeep_failing: GaugeVec,
    writes: CounterVec,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// What the state says at a scrape.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tracked resources by state.
    pub resources: BTreeMap<String, u64>,
    /// Conditions by kind.
    pub conditions: BTreeMap<String, u64>,
    /// Tracked resources that do not do their work.
    pub degraded: u64,
    /// Open entries of the drift ledger by mode.
    pub drifts: BTreeMap<String, u64>,
    /// Domains that wait for consent.
    pub holds: u64,
    /// What persons stopped.
    pub suspensions: u64,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let registry = Registry::new();
        let build = gauge(&registry, &names::BUILD_INFO);
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1.0);
        Metrics {
            calls: counter(&registry, &names::PROVIDER_CALLS),
            certificate_expiry: gauge(&registry, &names::CERTIFICATE_EXPIRY),
            certificate_renewal: gauge(&registry, &names::CERTIFICATE_RENEWAL),
            certificate_served: gauge(&registry, &names::CERTIFICATE_SERVED),
            certificate_served_expiry: gauge(&registry, &names::CERTIFICATE_SERVED_EXPIRY),
            commit_statuses: counter(&registry, &names::COMMIT_STATUSES),
            commit_to_converged: histogram(&registry, &names::COMMIT_TO_CONVERGED, LONG),
            conditions: gauge(&registry, &names::CONDITIONS),
            degraded_resources: gauge(&registry, &names::DEGRADED_RESOURCES),
            drifts: gauge(&registry, &names::DRIFTS),
            git_polls: counter(&registry, &names::GIT_POLLS),
            healing_writes: counter(&registry, &names::HEALING_WRITES),
            holds: gauge(&registry, &names::HOLDS),
            last_converged: gauge(&registry, &names::LAST_CONVERGED),
            longest_pass: gauge(&registry, &names::LONGEST_PASS),
            notifications: counter(&registry, &names::NOTIFICATIONS),
            passes: counter(&registry, &names::PASSES),
            pass_seconds: histogram(&registry, &names::PASS_SECONDS, SHORT),
            rate_tokens: gauge(&registry, &names::RATE_TOKENS),
            requests: counter(&registry, &names::PROVIDER_REQUESTS),
            resources: gauge(&registry, &names::RESOURCES),
            scopes: gauge(&registry, &names::SCOPES),
            seen_to_converged: histogram(&registry, &names::SEEN_TO_CONVERGED, LONG),
            sources: gauge(&registry, &names::SOURCES),
            store_commits: counter(&registry, &names::STORE_COMMITS),
            store_commit_seconds: histogram(&registry, &names::STORE_COMMIT_SECONDS, SHORT),
            suspensions: gauge(&registry, &names::SUSPENSIONS),
            upkeep_failing: gauge(&registry, &names::UPKEEP_FAILING),
            writes: counter(&registry, &names::WRITES),
            registry,
        }
    }
}

impl Metrics {
    /// A call to a provider ended.
    pub fn called(&self, entry: &str, operation: &str, outcome: &str) {
        self.calls.with_label_values(&[entry, operation, outcome]).inc();
    }
    /// A request to the HTTP API of an entry was answered, or was not.
    pub fn answered(&self, entry: &str, status: Option<u16>) {
        let code = status.map_or_else(|| "none".to_owned(), |status| status.to_string());
        self.requests.with_label_values(&[entry, &code]).inc();
    }
    /// So many actions ended in the same way.
    pub fn wrote(&self, entry: &str, reason: &str, outcome: &str, count: usize) {
        self.writes.with_label_values(&[entry, reason, outcome]).inc_by(count as f64);
        if matches!(reason, "drift" | "restore") && matches!(outcome, "done" | "gone" | "partial" | "pending")
        {
            self.healing_writes.with_label_values(&[entry]).inc_by(count as f64);
        }
    }
    /// A transaction of the state ended.
    pub fn committed(&self, took: Duration, is_done: bool) {
        self.store_commits.with_label_values(&[if is_done { "done" } else { "failed" }]).inc();
        self.store_commit_seconds.with_label_values(NONE).observe(took.as_secs_f64());
    }
    /// A pass over a scope of `entry` ended.
    pub fn passed(&self, entry: &str, stance: Stance, took: Duration) {
        self.passes.with_label_values(&[entry, label(stance)]).inc();
        self.pass_seconds.with_label_values(&[entry]).observe(took.as_secs_f64());
    }
    /// A repository was asked for news.
    pub fn polled(&self, source: &str, has_answered: bool) {
        let outcome = if has_answered { "answered" } else { "failed" };
        self.git_polls.with_label_values(&[source, outcome]).inc();
    }
    /// All of a commit was found in sync: times since the epoch.
    pub fn converged(&self, source: &str, committed: Duration, seen: Option<Duration>, now: Duration) {
        self.last_converged.with_label_values(&[source]).set(committed.as_secs_f64());
        let Some(seen) = seen else { return };
        let since = |time: Duration| now.saturating_sub(time).as_secs_f64();
        self.commit_to_converged.with_label_values(&[source]).observe(since(committed));
        self.seen_to_converged.with_label_values(&[source]).observe(since(seen));
    }
    /// A receiver was told, or not.
    pub fn notified(&self, receiver: &str, outcome: &str) {
        self.notifications.with_label_values(&[receiver, outcome]).inc();
    }
    /// A forge was told how a commit fares, or not.
    pub fn reported(&self, source: &str, outcome: &str) {
        self.commit_statuses.with_label_values(&[source, outcome]).inc();
    }

    /// What ends, from now on.
    pub fn ends(&self, endings: &[(Scope, Ending)]) {
        let all = [
            &self.certificate_expiry,
            &self.certificate_renewal,
            &self.certificate_served,
            &self.certificate_served_expiry,
        ];
        all.iter().for_each(|gauge| gauge.reset());
        for (scope, ending) in endings {
            let labels = [&*scope.provider, &*ending.id.0];
            self.certificate_expiry.with_label_values(&labels).set(ending.at.as_secs_f64());
            self.certificate_renewal.with_label_values(&labels).set(ending.renewed_at.as_secs_f64());
            for served in &ending.served {
                let labels = [&*scope.provider, &*ending.id.0, &*served.address];
                self.certificate_served.with_label_values(&labels).set(f64::from(served.is_current));
                self.certificate_served_expiry.with_label_values(&labels).set(served.until.as_secs_f64());
            }
        }
    }
    /// How sources stand, and what of the state's upkeep fails, from now on.
    pub fn stands(&self, sources: &BTreeMap<String, u64>, upkeep: &[(&str, bool)]) {
        set(&self.sources, &["invalid", "stalled", "waiting", "well"], sources);
        for (work, fails) in upkeep {
            self.upkeep_failing.with_label_values(&[*work]).set(f64::from(*fails));
        }
    }
    /// Everything in Prometheus' text form.
    pub fn scrape(
        &self,
        counts: &Counts,
        standing: &BTreeMap<Scope, Standing>,
        buckets: &BTreeMap<Arc<str>, Arc<Bucket>>,
        now: Duration,
    ) -> String {
        set(&self.resources, &["applied", "pending", "settled"], &counts.resources);
        set(&self.conditions, &ConditionKind::ALL.map(ConditionKind::word), &counts.conditions);
        set(&self.drifts, &["heal", "warn"], &counts.drifts);
        self.degraded_resources.with_label_values(NONE).set(counts.degraded as f64);
        self.holds.with_label_values(NONE).set(counts.holds as f64);
        self.suspensions.with_label_values(NONE).set(counts.suspensions as f64);
        let mut stances: BTreeMap<String, u64> = BTreeMap::new();
        standing.values().for_each(|s| *stances.entry(label(s.stance).to_owned()).or_default() += 1);
        set(&self.scopes, &Stance::ALL.map(label), &stances);
        let began = standing.values().filter_map(|s| s.running_since).min();
        let longest = began.map_or(Duration::ZERO, |began| now.saturating_sub(began));
        self.longest_pass.with_label_values(NONE).set(longest.as_secs_f64());
        self.rate_tokens.reset();
        for (entry, bucket) in buckets {
            self.rate_tokens.with_label_values(&[&**entry]).set(f64::from(bucket.left()));
        }
        // Text is the only form, and what was registered can be written in it.
        TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap_or_default()
    }
}

const NONE: &[&str] = &[];

/// A stance as a label, which has no blank.
fn label(stance: Stance) -> &'static str {
    match stance {
        Stance::InSync => "in-sync",
        other => other.word(),
    }
}

/// Every one of `words`, so that what is none is shown as 0.
fn set(gauge: &GaugeVec, words: &[&str], counts: &BTreeMap<String, u64>) {
    for word in words {
        let count = counts.get(*word).copied().unwrap_or(0);
        gauge.with_label_values(&[*word]).set(count as f64);
    }
}

fn registered<C: Collector + Clone + 'static>(registry: &Registry, made: prometheus::Result<C>) -> C {
    let collector = made.expect("a test makes every metric of the specification");
    registry.register(Box::new(collector.clone())).expect("no name is in the specification twice");
    collector
}

fn counter(registry: &Registry, metric: &Metric) -> CounterVec {
    registered(registry, CounterVec::new(Opts::new(metric.name, metric.help), metric.labels))
}

fn gauge(registry: &Registry, metric: &Metric) -> GaugeVec {
    registered(registry, GaugeVec::new(Opts::new(metric.name, metric.help), metric.labels))
}

fn histogram(registry: &Registry, metric: &Metric, buckets: &[f64]) -> HistogramVec {
    let options = HistogramOpts::new(metric.name, metric.help).buckets(buckets.to_vec());
    registered(registry, HistogramVec::new(options, metric.labels))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock::SystemClock, config::Rate};

    #[test]
    fn a_scrape_has_the_numbers_it_was_given() {
        let at = Duration::from_secs;
        let metrics = Metrics::default();
        let counts = Counts {
            conditions: [("stalled".to_owned(), 2), ("waiting".to_owned(), 1)].into(),
            degraded: 3,
            ..Counts::default()
        };
        let running = |began: Option<u64>| {
            let mut standing = Standing::default();
            standing.running_since = began.map(at);
            standing
        };
        let standing = [("a", None), ("b", Some(940)), ("c", Some(970))]
            .map(|(name, began)| (Scope::new("pdns", name), running(began)));
        // A burst of one period, of which nothing was taken.
        let bucket = Bucket::new(Rate { count: 20, per: at(1) }, Arc::new(SystemClock));
        let buckets = [(Arc::from("pdns"), Arc::new(bucket))].into();
        metrics.converged("infra", at(988), Some(at(995)), at(1_000));
        // It was in force when the daemon began: nobody knows how long it took.
        metrics.converged("other", at(10), None, at(1_000));
        let sources = [("stalled".to_owned(), 1), ("well".to_owned(), 4)].into();
        metrics.stands(&sources, &[("backup", true), ("export", false)]);
        let text = metrics.scrape(&counts, &standing.into(), &buckets, at(1_000));
        for line in [
            "reconciled_rate_tokens{provider=\"pdns\"} 20",
            "reconciled_longest_pass_seconds 60",
            "reconciled_conditions{kind=\"held\"} 0",
            "reconciled_conditions{kind=\"stalled\"} 2",
            "reconciled_conditions{kind=\"suspended\"} 0",
            "reconciled_conditions{kind=\"waiting\"} 1",
            "reconciled_degraded_resources 3",
            "reconciled_commit_to_converged_seconds_sum{source=\"infra\"} 12",
            "reconciled_commit_to_converged_seconds_count{source=\"infra\"} 1",
            "reconciled_commit_to_converged_seconds_bucket{source=\"infra\",le=\"10\"} 0",
            "reconciled_commit_to_converged_seconds_bucket{source=\"infra\",le=\"30\"} 1",
            "reconciled_seen_to_converged_seconds_sum{source=\"infra\"} 5",
            "reconciled_last_converged_commit_timestamp_seconds{source=\"other\"} 10",
            "reconciled_sources{state=\"invalid\"} 0",
            "reconciled_sources{state=\"stalled\"} 1",
            "reconciled_sources{state=\"waiting\"} 0",
            "reconciled_sources{state=\"well\"} 4",
            "reconciled_upkeep_failing{work=\"backup\"} 1",
            "reconciled_upkeep_failing{work=\"export\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "`{line}` is missing in\n{text}");
        }
        assert!(!text.contains("reconciled_commit_to_converged_seconds_count{source=\"other\"}"));
    }
}
