//! Manifests of balancers to resources. Pure.

use super::{
    kind::{Balancer, BalancerSpec, LONGEST, Program, drain_seconds},
    render::{Member, RunAs, render},
    selector::is_selected,
};
use crate::{
    Config,
    deployment::{self, DEPLOYMENT, DEPLOYMENTS},
    hands::{is_address, unknown_command},
    kind::{FILE, FileSpec},
    normalize::{FILES, certificate_at, known_or_waiting, left_rule, remote, unknown},
    path::FilePath,
    systemd,
};
use reconciled_provider::{At, Inputs, Manifest, Normalized, Problem, Resource, ResourceId, Scope, Span};
use std::sync::Arc;

/// Where the file of a balancer is.
pub(crate) fn path_of(id: &str) -> Option<FilePath> {
    FilePath::parse(id).ok()
}

/// Turns a manifest of a balancer into its resource.
pub(crate) fn normalize(config: &Config, manifest: &Manifest, inputs: &dyn Inputs) -> Normalized {
    if !manifest.is_for(inputs.entry(), inputs.is_sole()) {
        return Normalized::default();
    }
    let (spec, mut problems) = manifest.spec::<BalancerSpec>();
    let mut refuse = |span: Span, message: String, hint: &str| {
        problems.push(manifest.error(span, message).hint(hint));
    };
    if config.has_no_units() {
        let message = format!("provider `{}` manages no units: it has no `bus`", inputs.entry());
        refuse(manifest.span, message, "in the host configuration, write bus: system for this entry");
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if manifest.name.is_empty() || !manifest.name.chars().all(is_plain) {
        let message = format!("`{}` is no name of a load balancer", manifest.name.escape_debug());
        refuse(manifest.span, message, "use letters, digits, `-` and `_`");
    }
    if let Some(spec) = &spec {
        check(config, spec, &mut refuse);
        let is_same = |other: &&Manifest| {
            other.is_for(inputs.entry(), inputs.is_sole())
                && other.spec::<FileSpec>().0.is_some_and(|file| file.path.value == spec.path.value)
        };
        if let Some(other) = inputs.siblings(FILE).into_iter().find(is_same) {
            let message = format!("{} is declared by File/{} as well", spec.path.value, other.name);
            refuse(spec.path.span, message, "a balancer writes the whole file: leave one of the two out");
        }
        let path = FilePath::parse(&spec.path.value);
        if let Some(name) = path.ok().and_then(|path| certificate_at(config, inputs, &path)) {
            let message = format!("{} is written by Certificate/{name} as well", spec.path.value);
            refuse(spec.path.span, message, "a certificate has its files to itself: write it elsewhere");
        }
    }
    let mut out = Normalized { problems, ..Normalized::default() };
    let Some(spec) = spec.filter(|_| !out.problems.iter().any(Problem::is_error)) else { return out };
    let mut members = Vec::new();
    let chosen = inputs.siblings(DEPLOYMENT).into_iter().filter(|other| {
        &*other.api_version == systemd::API_VERSION
            && other.is_for(inputs.entry(), inputs.is_sole())
            && is_selected(&spec, other)
    });
    let address = spec.member.as_ref().map_or("127.0.0.1:%i", |at| &at.value);
    for other in chosen {
        let Some((numbers, besides)) = deployment::numbers_of(other) else {
            // Without it the members that serve now would be taken out.
            let message =
                format!("the instances of Deployment/{}, which is a member, are not known", other.name);
            out.problems.push(
                manifest
                    .error(manifest.span, message)
                    .hint("mend that manifest; the balancer stays as it is"),
            );
            continue;
        };
        let besides = besides.map(|number| (number, true));
        for (number, is_surge) in numbers.map(|number| (number, false)).chain(besides) {
            let unit = deployment::instance(&other.name, number);
            members.push(Member { unit, address: address.replace("%i", &number.to_string()), is_surge });
        }
    }
    if out.problems.iter().any(Problem::is_error) {
        return out;
    }
    if members.is_empty() {
        let problem =
            Problem::warning(format!("no deployment has the labels that {} selects", manifest.name));
        out.problems.push(problem.at(&manifest.file, manifest.span));
    }
    let balancer = Balancer {
        access: None,
        balancer: render(
            spec.program,
            &manifest.name,
            &spec.listen.value,
            run_as(spec.run_as.as_ref().map(|at| &*at.value)),
            &members,
        ),
        reload: spec.reload.value,
        validate: spec.validate.map(|at| at.value.into()),
        drain: drain_seconds(&spec.drain_seconds),
        is_unread: false,
        refused: None,
    };
    // Where the directory that it is in is purged, it is no stray.
    out.ignored.push((Scope::new(inputs.entry(), FILES), left_rule(&spec.path.value).into()));
    let scope = Arc::new(Scope::new(inputs.entry(), DEPLOYMENTS));
    out.remotes.push((scope.clone(), spec.path.value.as_str().into(), remote(&spec.path.value)));
    out.resources.push(Resource::new(
        ResourceId::from(spec.path.value),
        scope,
        known_or_waiting(balancer.encode(), &unknown(&manifest.spec)),
        manifest.origin(manifest.span),
        inputs.policy(manifest.policy.clone()),
    ));
    out
}

fn check(config: &Config, spec: &BalancerSpec, refuse: &mut impl FnMut(Span, String, &str)) {
    let is_known = |at: &At<String>| at.unknown.is_empty();
    // Which file it is, and who its members are, is what it is known by.
    for at in std::iter::once(&spec.path).chain(spec.selector.values()).filter(|at| !is_known(at)) {
        let message = "neither `path` nor `selector` can depend on an output of another manifest".to_owned();
        refuse(at.span, message, "write it out; only values may be references");
    }
    match FilePath::parse(&spec.path.value) {
        Err(why) => {
            refuse(spec.path.span, format!("`{}` {why}", spec.path.value.escape_debug()), "write it from /")
        }
        Ok(path) if config.is_of_units(&path) => {
            let hint = "write it elsewhere, such as /etc/nginx/nginx.conf";
            refuse(spec.path.span, format!("{path} is where systemd loads units from"), hint);
        }
        Ok(path) if !config.allows(&path) => {
            let hint = "name a directory above it in `paths` of the provider entry";
            refuse(spec.path.span, format!("{path} is below none of the `paths` of the provider"), hint);
        }
        Ok(_) => {}
    }
    let is_port = |text: &str| text.parse::<u16>().is_ok_and(|port| port > 0);
    let listen = &spec.listen.value;
    if is_known(&spec.listen) && !(is_port(listen) || is_address(listen) && !listen.contains('%')) {
        let message = format!("`{}` is nowhere to listen", listen.escape_debug());
        refuse(spec.listen.span, message, "write a port such as 8080, or 127.0.0.1:8080");
    }
    if let Some(at) = spec
        .member
        .as_ref()
        .filter(|at| is_known(at))
        .filter(|at| !is_address(&at.value) || !at.value.contains("%i"))
    {
        let message = format!("`{}` is no address of an instance", at.value.escape_debug());
        refuse(at.span, message, "write HOST:PORT with %i where the number goes: 127.0.0.1:%i");
    }
    if spec.selector.is_empty() {
        let message = "an empty `selector` would choose everything".to_owned();
        refuse(spec.path.span, message, "write selector: {app: web}, and the label at the deployment");
    }
    if is_known(&spec.reload) && !is_service(&spec.reload.value) {
        let message = format!("`{}` is no name of a service", spec.reload.value.escape_debug());
        refuse(spec.reload.span, message, "write the unit that serves: nginx.service");
    }
    if let Some(at) = &spec.run_as {
        let run_as = run_as(Some(&at.value));
        if spec.program != Program::Haproxy {
            let message = "`runAs` is for HAProxy alone".to_owned();
            refuse(at.span, message, "leave it out: nginx answers as the user that it was built with");
        } else if is_known(at)
            && run_as.is_some_and(|run_as| !is_account(run_as.user) || !is_account(run_as.group))
        {
            let message = format!("`{}` is no user and group", at.value.escape_debug());
            refuse(at.span, message, "write runAs: haproxy, runAs: USER:GROUP, or runAs: none");
        }
    }
    if let Some(at) = &spec.drain_seconds
        && at.unknown.is_empty()
        && u64::from(at.value) * 1_000 > LONGEST
    {
        let message = format!("no instance is left for {} s before it goes", at.value);
        refuse(at.span, message, "write at most an hour: drainSeconds: 3600");
    }
    if let (Some(at), Some(commands)) = (&spec.validate, &config.commands)
        && is_known(at)
        && !commands.contains_key(&*at.value)
    {
        let error = unknown_command(&at.value, commands.keys().map(|known| &**known));
        refuse(at.span, error.message.clone(), error.hint.as_deref().unwrap_or_default());
    }
}

/// Whom HAProxy runs as; none where that is left to its unit.
fn run_as(text: Option<&str>) -> Option<RunAs<'_>> {
    match text {
        None => Some(RunAs::HAPROXY),
        Some("none") => None,
        Some(text) => {
            let (user, group) = text.split_once(':').unwrap_or((text, text));
            Some(RunAs { user, group })
        }
    }
}

fn is_account(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && !name.starts_with('-') && name.chars().all(is_plain)
}

fn is_service(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ":-_.@".contains(c);
    name.ends_with(".service") && name.chars().all(is_plain)
}
