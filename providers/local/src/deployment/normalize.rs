//! Manifests of deployments to resources. Pure.

use super::{
    DEPLOYMENTS,
    kind::{Canary, CheckSpec, DEPLOYMENT, Declared, Deployment, DeploymentSpec, Instance},
    parts, template,
};
use crate::{
    Config, balancer,
    hands::{Check, is_address, unknown_command, url},
    normalize::{declared_at, known_or_waiting, unknown},
    systemd::{self, RunState, definition, reads},
};
use reconciled_provider::{At, Inputs, Manifest, Normalized, Problem, Resource, ResourceId, Scope, Span};
use std::{collections::BTreeMap, ops::Range, sync::Arc};

/// Numbers of the instances that a manifest of a deployment declares, and of those that may come besides while a revision is
/// brought in; none where nobody can tell.
pub(crate) fn numbers_of(manifest: &Manifest) -> Option<(Range<u32>, Range<u32>)> {
    let (spec, problems) = manifest.spec::<DeploymentSpec>();
    let spec = spec.filter(|_| !problems.iter().any(Problem::is_error))?;
    let number = |at: &Option<At<u32>>| match at {
        Some(at) if !at.unknown.is_empty() => None,
        at => Some(at.as_ref().map_or(1, |at| at.value)),
    };
    let (first, replicas) = (number(&spec.first_instance)?, number(&spec.replicas)?);
    let surge = match &spec.strategy.max_surge {
        Some(at) if !at.unknown.is_empty() => return None,
        at => at.as_ref().map_or(Some(0), |at| amount(&at.value, replicas, u64::div_ceil))?,
    };
    let end = first.saturating_add(replicas);
    (replicas <= MOST).then(|| (first..end, end..end.saturating_add(surge)))
}

/// A number of instances, of which `percent` rounds the share; none where it is no number of any.
fn amount(text: &str, replicas: u32, percent: impl Fn(u64, u64) -> u64) -> Option<u32> {
    match text.strip_suffix('%') {
        Some(text) => {
            let part: u64 = text.parse().ok().filter(|part| *part <= 100)?;
            u32::try_from(percent(part * u64::from(replicas), 100)).ok()
        }
        None => text.parse().ok().filter(|amount| *amount <= MOST),
    }
}

/// Most instances of one deployment: each is a unit that every look reads.
const MOST: u32 = 1_000;

/// Turns a manifest of a deployment into its resources: the template, and each instance.
pub(crate) fn normalize(config: &Config, manifest: &Manifest, inputs: &dyn Inputs) -> Normalized {
    let is_ours = &*manifest.api_version == systemd::API_VERSION && &*manifest.kind == DEPLOYMENT;
    if !is_ours || !manifest.is_for(inputs.entry(), inputs.is_sole()) {
        return Normalized::default();
    }
    let (spec, problems) = manifest.spec::<DeploymentSpec>();
    let mut reader = Reader { config, manifest, problems };
    reader.check_entry(inputs);
    let (fronts, waits_of_fronts) = balancer::of_deployment(manifest, inputs);
    let waits_for = [unknown(&manifest.spec), waits_of_fronts].concat();
    let files = spec.as_ref().map(|spec| reader.files(spec, inputs)).unwrap_or_default();
    let declared = spec.map(|spec| reader.read(&spec)).map(|(mut deployment, enabled)| {
        deployment.fronts = fronts;
        deployment.content = definition::reading(&deployment.content, &files);
        (deployment, enabled)
    });
    let mut out = Normalized { problems: reader.problems, ..Normalized::default() };
    let Some((deployment, enabled)) = declared.filter(|_| !out.problems.iter().any(Problem::is_error)) else {
        return out;
    };
    let scope = Arc::new(Scope::new(inputs.entry(), DEPLOYMENTS));
    let policy = inputs.policy(manifest.policy.clone());
    let mut resource = |id: String, declared: Declared| {
        out.remotes.push((scope.clone(), id.as_str().into(), systemd::remote(&id)));
        out.resources.push(Resource::new(
            ResourceId::from(id),
            scope.clone(),
            known_or_waiting(declared.encode(), &waits_for),
            manifest.origin(manifest.span),
            policy,
        ));
    };
    let instance =
        Instance { state: RunState::Running, enabled, checks: deployment.checks.clone(), closed: None };
    for number in deployment.range() {
        resource(super::instance(&manifest.name, number), Declared::Instance(instance.clone()));
    }
    resource(template(&manifest.name), Declared::Deployment(deployment));
    out
}

struct Reader<'a> {
    config: &'a Config,
    manifest: &'a Manifest,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn refuse(&mut self, span: Span, message: impl Into<String>, hint: &str) {
        self.problems.push(self.manifest.error(span, message).hint(hint));
    }

    fn check_entry(&mut self, inputs: &dyn Inputs) {
        let (name, span) = (&*self.manifest.name, self.manifest.span);
        if self.config.has_no_units() {
            let message = format!("provider `{}` manages no units: it has no `bus`", inputs.entry());
            self.refuse(span, message, "in the host configuration, write bus: system for this entry");
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ":-_.".contains(c);
        if name.is_empty() || name.len() > 200 || name.starts_with('.') || !name.chars().all(is_plain) {
            let message = format!("`{}` is no name of a service", name.escape_debug());
            self.refuse(span, message, "metadata.name is that of the template without `@.service`: web");
        } else if name.ends_with(".service") {
            let message = format!("`{name}` is the name of a unit, and a deployment has many");
            self.refuse(span, message, "leave `.service` out of metadata.name");
        }
        let is_same = |other: &&Manifest| {
            parts(&other.name).is_some_and(|(of, _)| of == name)
                && other.is_for(inputs.entry(), inputs.is_sole())
        };
        if let Some(other) = inputs.siblings(systemd::UNIT).into_iter().find(is_same) {
            let message =
                format!("{} is a unit of the deployment {name}, and declared by itself as well", other.name);
            self.refuse(span, message, "declare it in one of the two places");
        }
    }

    /// The files that the service reads, and what is declared of them.
    fn files(&mut self, spec: &DeploymentSpec, inputs: &dyn Inputs) -> Vec<(String, String)> {
        let mut files = Vec::new();
        for at in &spec.restart_on {
            let config = self.config;
            let mut refuse = |span: Span, text: String, hint: &str| self.refuse(span, text, hint);
            let Some(path) = reads::allowed(config, at, &mut refuse) else { continue };
            match declared_at(self.config, inputs, &path) {
                Some(hash) => files.push((path.as_str().to_owned(), hash.to_string())),
                None => self.refuse(
                    at.span,
                    format!("no `File` of this source is at {path}, or it is in error"),
                    "declare the file; what nobody declares has no revisions",
                ),
            }
        }
        files.sort();
        files.dedup();
        files
    }

    fn read(&mut self, spec: &DeploymentSpec) -> (Deployment, Option<bool>) {
        let number = |at: &Option<At<u32>>, default| at.as_ref().map_or(default, |at| at.value);
        let (replicas, first) = (number(&spec.replicas, 1), number(&spec.first_instance, 1));
        // An instance is a resource: which ones there are is known from the manifest, or those that run would go.
        for (key, at) in [("replicas", &spec.replicas), ("firstInstance", &spec.first_instance)] {
            if let Some(at) = at.as_ref().filter(|at| !at.unknown.is_empty()) {
                let message = format!("`{key}` cannot depend on an output of another manifest");
                self.refuse(at.span, message, "write the number out, or take it from ${vars.…}");
            }
        }
        if replicas > MOST
            && let Some(at) = &spec.replicas
        {
            self.refuse(
                at.span,
                format!("{replicas} instances are too many"),
                "at most 1000 of one deployment",
            );
        }
        if first.checked_add(MOST * 2).is_none()
            && let Some(at) = &spec.first_instance
        {
            self.refuse(at.span, format!("{first} is too large a number"), "a port, or 1");
        }
        let surge = spec.strategy.max_surge.as_ref();
        let max_surge = surge.map_or(0, |at| self.amount(at, replicas, u64::div_ceil));
        let spare = spec.strategy.max_unavailable.as_ref();
        let default = u32::from(max_surge == 0);
        let mut max_unavailable = spare.map_or(default, |at| self.amount(at, replicas, |a, b| a / b));
        if max_unavailable == 0 && max_surge == 0 {
            let is_zero = |at: &At<String>| matches!(&*at.value, "0" | "0%");
            match spare.filter(|at| is_zero(at) && surge.is_none_or(is_zero)) {
                Some(at) => {
                    let message =
                        "with neither `maxUnavailable` nor `maxSurge` no instance could ever be replaced";
                    self.refuse(at.span, message, "raise one of the two above 0");
                }
                // As in Kubernetes: of shares that come to nothing it is one by one.
                None => max_unavailable = 1,
            }
        }
        let canary = spec.strategy.canary.as_ref().map(|at| {
            let canary =
                Canary { instances: number(&at.value.instances, 1), seconds: number(&at.value.seconds, 60) };
            let is_known = at.value.instances.as_ref().is_none_or(|at| at.unknown.is_empty());
            if is_known && (canary.instances == 0 || canary.instances >= replicas) {
                let message =
                    format!("{} of {replicas} instances cannot go before the others", canary.instances);
                self.refuse(at.span, message, "`canary.instances` is at least 1, and less than `replicas`");
            }
            canary
        });
        let has_install = definition::has_install(&spec.content.value);
        if let Some(at) = spec.enabled.as_ref().filter(|at| at.value && !has_install) {
            let hint = "add [Install] and WantedBy=multi-user.target, or leave `enabled` out";
            self.refuse(at.span, "the template has no [Install] section, so it cannot be enabled", hint);
        }
        let refuses = definition::refuses([&*spec.content.value]);
        let is_refused = [refuses.start, refuses.stop].contains(&Some(true));
        if spec.content.unknown.is_empty() && is_refused {
            let text = "systemd would start and stop the instances for other units alone";
            self.refuse(
                spec.content.span,
                text,
                "take RefuseManualStart= and RefuseManualStop= out of `content`",
            );
        }
        let deployment = Deployment {
            content: spec.content.value.clone(),
            replicas,
            first,
            max_unavailable,
            max_surge,
            canary,
            min_ready: number(&spec.min_ready_seconds, 1),
            deadline: number(&spec.progress_deadline_seconds, 600),
            history: number(&spec.revision_history_limit, 10),
            checks: spec.health.iter().filter_map(|at| self.check(at)).collect(),
            fronts: Vec::new(),
            beside: BTreeMap::new(),
            stale: Vec::new(),
            refused: None,
            closed: None,
        };
        let is_known = |at: &Option<At<u32>>| at.as_ref().is_none_or(|at| at.unknown.is_empty());
        if is_known(&spec.min_ready_seconds)
            && is_known(&spec.progress_deadline_seconds)
            && deployment.deadline <= deployment.min_ready
        {
            let message = "no instance could be ready for `minReadySeconds` within `progressDeadlineSeconds`";
            self.refuse(self.manifest.span, message, "raise progressDeadlineSeconds");
        }
        let enabled = spec.enabled.as_ref().map(|at| at.value).or(has_install.then_some(true));
        (deployment, enabled)
    }

    /// A number of instances, of which `percent` rounds the share.
    fn amount(&mut self, at: &At<String>, replicas: u32, percent: impl Fn(u64, u64) -> u64) -> u32 {
        if !at.unknown.is_empty() {
            return 1;
        }
        amount(&at.value, replicas, percent).unwrap_or_else(|| {
            let message = format!("`{}` is no number of instances", at.value.escape_debug());
            self.refuse(at.span, message, "write a number such as 2, or a share such as 25%");
            1
        })
    }

    fn check(&mut self, at: &At<CheckSpec>) -> Option<Check> {
        match &at.value {
            // It is read once it is known.
            _ if !at.unknown.is_empty() => None,
            CheckSpec { http: Some(text), tcp: None, command: None } => {
                if url(text).is_none() {
                    let message = format!("`{}` is no URL that can be asked", text.escape_debug());
                    self.refuse(
                        at.span,
                        message,
                        "write http://HOST:PORT/PATH, with %i where the number goes",
                    );
                }
                Some(Check::Http(text.clone()))
            }
            CheckSpec { http: None, tcp: Some(text), command: None } => {
                if !is_address(text) {
                    let message = format!("`{}` is no address", text.escape_debug());
                    self.refuse(at.span, message, "write HOST:PORT, with %i where the number goes");
                }
                Some(Check::Tcp(text.clone()))
            }
            CheckSpec { http: None, tcp: None, command: Some(name) } => {
                let commands = self.config.commands.as_ref();
                if let Some(commands) = commands.filter(|commands| !commands.contains_key(&**name)) {
                    let error = unknown_command(name, commands.keys().map(|known| &**known));
                    let hint = error.hint.as_deref().unwrap_or_default();
                    self.refuse(at.span, error.message.clone(), hint);
                }
                Some(Check::Command(name.clone()))
            }
            _ => {
                let message = "a check is one of `http`, `tcp` and `command`";
                self.refuse(at.span, message, "write one entry of the list for each");
                None
            }
        }
    }
}
