//! Values that another manifest puts out, and that nobody knows yet.

use crate::desk::Desk;
use reconciled_provider::Spec;

const SERVICE: &str = "content: \"[Service]\"";

fn desk() -> Desk {
    Desk::with(|config| config.bus = Some("system".into()))
}

/// Every resource of these waits, whatever field it is that is not known.
#[track_caller]
fn waits(specs: &[&str], count: usize) {
    let (resources, problems) = desk().normalize(specs);
    assert!(problems.is_empty(), "{specs:?}: {problems:?}");
    assert_eq!(resources.len(), count, "{specs:?}");
    for resource in resources {
        assert!(matches!(&resource.spec, Spec::Waiting { on, .. } if !on.is_empty()), "{resource:?}");
    }
}

#[test]
fn nothing_is_made_of_a_value_that_is_not_known() {
    for field in [
        "strategy: {maxUnavailable: '${Queue/jobs:ttl}'}",
        "minReadySeconds: '${Queue/jobs:ttl}'",
        "progressDeadlineSeconds: '${Queue/jobs:ttl}'",
        "health: [{tcp: '${Queue/jobs:ttl}'}]",
    ] {
        waits(&[&format!("Deployment web {{{SERVICE}, {field}}}")], 2);
    }
    for field in [
        "schedule: '@daily', command: [/bin/echo, '${Queue/jobs:ttl}']",
        "schedule: '${Queue/jobs:ttl}', command: [/bin/echo]",
        "schedule: '@daily', command: [/bin/echo], environment: {A: '${Queue/jobs:ttl}'}",
        "schedule: '@daily', command: [/bin/echo], activeDeadlineSeconds: '${Queue/jobs:ttl}'",
    ] {
        waits(&[&format!("CronJob tidy {{{field}}}")], 2);
    }
    waits(&["Unit a.service {dropIns: {x: '${Queue/jobs:ttl}'}}"], 1);
    let front = "LoadBalancer front {type: nginx, path: /etc/f, selector: {app: web}, listen: '${Queue/jobs:ttl}', reload: a.service}";
    // Who is behind it would not be drained as it says.
    waits(&[front, &format!("Deployment web app=web {{{SERVICE}}}")], 3);
}

#[test]
fn how_many_instances_there_are_and_which_is_written_out() {
    let refused = |specs: &[&str], part: &str| {
        let (resources, problems) = desk().normalize(specs);
        let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert!(shown.iter().any(|text| text.contains(part)), "{specs:?}: {shown:#?}");
        assert_eq!(resources.len(), 0, "{specs:?}");
    };
    let web = |field: &str| format!("Deployment web app=web {{{SERVICE}, {field}}}");
    let replicas = web("replicas: '${Queue/jobs:ttl}'");
    refused(&[&replicas], "`replicas` cannot depend on an output");
    refused(&[&web("firstInstance: '${Queue/jobs:ttl}'")], "`firstInstance` cannot depend on an output");
    // Its members stay in the file that is there.
    let front = |path: &str| {
        format!(
            "LoadBalancer front {{type: nginx, path: {path}, selector: {{app: web}}, listen: 80, reload: a.service}}"
        )
    };
    refused(
        &[&replicas, &front("/etc/f")],
        "the instances of Deployment/web, which is a member, are not known",
    );
    refused(&[&web("replicas: many"), &front("/etc/f")], "are not known");
    refused(&[&front("'/etc/${Queue/jobs:ttl}'")], "neither `path` nor `selector`");
}
