//! Manifests of units to resources. Pure.

use super::{
    API_VERSION, SYSTEMD, definition, reads, refusals,
    unit::{RunState, UNIT, Unit, UnitSpec},
};
use crate::{
    Config,
    normalize::{known_or_waiting, unknown},
};
use reconciled_provider::{Inputs, Manifest, Normalized, Problem, Resource, Scope, Span};
use std::sync::Arc;

/// Types of units that are managed.
const TYPES: &[&str] = &["service", "socket", "timer", "path", "mount", "target", "slice"];

/// Turns a manifest of a unit into its resource.
pub(crate) fn normalize(config: &Config, manifest: &Manifest, inputs: &dyn Inputs) -> Normalized {
    let is_ours = &*manifest.api_version == API_VERSION && &*manifest.kind == UNIT;
    if !is_ours || !manifest.is_for(inputs.entry(), inputs.is_sole()) {
        return Normalized::default();
    }
    let (spec, mut problems) = manifest.spec::<UnitSpec>();
    let mut refuse = |span: Span, message: String, hint: &str| {
        problems.push(manifest.error(span, message).hint(hint));
    };
    let name = &*manifest.name;
    if config.has_no_units() {
        let message = format!("provider `{}` manages no units: it has no `bus`", inputs.entry());
        refuse(manifest.span, message, "in the host configuration, write bus: system for this entry");
    }
    if let Err((message, hint)) = check_name(name) {
        refuse(manifest.span, message, hint);
    }
    if let Some(spec) = &spec {
        check(name, spec, manifest.span, &mut refuse);
    }
    let reads = spec.as_ref().map(|spec| reads::declared(config, inputs, name, spec, &mut refuse));
    problems.extend(spec.as_ref().and_then(|spec| idle_word(manifest, spec)));
    let mut out = Normalized { problems, ..Normalized::default() };
    let Some(spec) = spec.filter(|_| !out.problems.iter().any(Problem::is_error)) else { return out };
    let unit = Unit {
        content: spec.content.map(|at| at.value),
        drop_ins: spec.drop_ins.into_iter().map(|(name, at)| (name, at.value)).collect(),
        enabled: spec.enabled.map(|at| at.value),
        masked: spec.masked.map(|at| at.value),
        state: spec.state,
        on_change: spec.on_change,
        reads: reads.unwrap_or_default(),
        ..Unit::default()
    };
    let scope = Arc::new(Scope::new(inputs.entry(), SYSTEMD));
    out.remotes.push((scope.clone(), name.into(), remote(name)));
    out.resources.push(Resource::new(
        name.into(),
        scope,
        known_or_waiting(unit.encode(), &unknown(&manifest.spec)),
        manifest.origin(manifest.span),
        inputs.policy(manifest.policy.clone()),
    ));
    out
}

/// What a unit is called across scopes: a job, a deployment and a manifest of its own may all come to it, from any source.
pub(crate) fn remote(unit: &str) -> Arc<str> {
    format!("the unit {unit}").into()
}

/// `NAME.TYPE`, as `systemd.unit(5)` has it.
pub(super) fn check_name(name: &str) -> Result<(), (String, &'static str)> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
    let hint = "metadata.name is the name of the unit, such as web.service";
    let Some((stem, kind)) = name.rsplit_once('.') else {
        return Err((format!("`{name}` is no name of a unit"), hint));
    };
    if name == "-.mount" {
        let hint = "what the root of the host is mounted from is for /etc/fstab and its kernel";
        return Err(("the root of the host is no mount to manage".into(), hint));
    }
    if stem.is_empty() || name.len() > 255 || !name.chars().all(is_plain) || stem.starts_with(['.', '@']) {
        return Err((format!("`{}` is no name of a unit", name.escape_debug()), hint));
    }
    match TYPES.contains(&kind) {
        true => Ok(()),
        false => {
            let hint = "this version knows service, socket, timer, path, mount, target and slice";
            Err((format!("units of type `{kind}` are not managed"), hint))
        }
    }
}

/// `enabled: true` of a file without `[Install]`: systemd calls the unit static, and has nothing to enable. What is declared can be had
/// all the same.
fn idle_word(manifest: &Manifest, spec: &UnitSpec) -> Option<Problem> {
    let enabled = spec.enabled.as_ref().filter(|enabled| enabled.value)?;
    let parts = || spec.content.iter().chain(spec.drop_ins.values());
    let is_known = parts().all(|part| part.unknown.is_empty());
    if spec.content.is_none() || !is_known || parts().any(|part| definition::has_install(&part.value)) {
        return None;
    }
    let text = format!(
        "`{}` has no [Install] section: `enabled` has no effect, and it is not started at boot",
        manifest.name
    );
    let hint = "add [Install] and WantedBy=multi-user.target, or leave `enabled` out";
    Some(Problem::warning(text).at(&manifest.file, enabled.span).hint(hint))
}

fn check(name: &str, spec: &UnitSpec, span: Span, refuse: &mut impl FnMut(Span, String, &str)) {
    let is_template = name.contains("@.");
    let is_masked = spec.masked.as_ref().is_some_and(|at| at.value);
    if let (Some(content), true) = (&spec.content, is_masked) {
        let text = "a unit cannot be masked and have content: both are the file of its name";
        refuse(content.span, text.into(), "leave one of the two out");
    }
    if is_masked
        && (spec.state == Some(RunState::Running) || spec.enabled.as_ref().is_some_and(|at| at.value))
    {
        refuse(span, "a masked unit neither runs nor is enabled".into(), "leave `masked` or the others out");
    }
    if is_template && spec.state.is_some() {
        let text = format!("`{name}` is a template, which does not run");
        refuse(span, text, "declare an instance of it, such as web@1.service, with a manifest of its own");
    }
    if let (Some(content), Some(RunState::Running)) = (&spec.content, spec.state) {
        let parts = || std::iter::once(content).chain(spec.drop_ins.values());
        let is_known = parts().all(|part| part.unknown.is_empty());
        if is_known && definition::ends_by_itself(parts().map(|part| part.value.as_str())) {
            let text =
                format!("`{name}` ends by itself (Type=oneshot), and would be started again and again");
            refuse(
                content.span,
                text,
                "add RemainAfterExit=yes, or leave `state` out; a CronJob runs at times",
            );
        }
    }
    let parts = || spec.content.iter().chain(spec.drop_ins.values());
    if let Some(state) = spec.state.filter(|_| parts().all(|part| part.unknown.is_empty())) {
        let refuses = definition::refuses(parts().map(|part| part.value.as_str()));
        let (is_refused, word, key) = match state {
            RunState::Running => (refuses.start == Some(true), "started", refusals::START),
            RunState::Stopped => (refuses.stop == Some(true), "stopped", refusals::STOP),
        };
        if is_refused {
            let text = format!("`{name}` is {word} for other units alone, as it says itself: {key}=yes");
            refuse(span, text, "take that line out, or leave `state` out");
        }
    }
    for (drop_in, content) in &spec.drop_ins {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if drop_in.is_empty()
            || drop_in.len() > 200
            || drop_in.starts_with('.')
            || !drop_in.chars().all(is_plain)
        {
            let text = format!("`{}` is no name of a drop-in", drop_in.escape_debug());
            refuse(content.span, text, "use letters, digits, `-`, `_` and `.`; .conf is added");
        }
    }
    let is_empty = spec.content.is_none() && spec.drop_ins.is_empty();
    if is_empty && spec.enabled.is_none() && spec.masked.is_none() && spec.state.is_none() {
        let hint = "write at least one of content, dropIns, enabled, masked, state";
        refuse(span, "the manifest says nothing of the unit".into(), hint);
    }
}
