//! What a forge shows.

use super::*;
use crate::operation::plan::{Foreign, ForeignResource, Frozen, Unassigned};

#[test]
fn the_markdown_of_a_plan_puts_scopes_behind_a_click() {
    assert_snapshot!(markdown(&document(&rich(), &Options::default())), @r#"
    ### Plan: 2 to create, 1 to update, 1 to replace, 1 to delete, 1 to adopt, 1 to move, 1 to forget; 412 in sync

    <code>infra</code> at <code>abc1234</code>

    | create | update | replace | delete | adopt | move | forget | in sync |
    |---:|---:|---:|---:|---:|---:|---:|---:|
    | 2 | 1 | 1 | 1 | 1 | 1 | 1 | 412 |

    **Held: a person must consent**

    ```text
    pdns/example.com  29fde71e
      1 × `protected` (guard.always)
      hint: to consent: reconciled approve 29fde71e3ef298312227db745efc78ce --reason "…"
    ```

    **Could not be read**

    ```text
    pdns/broken.example  unavailable: list zone broken.example: connection refused
      hint: is the server running?
    ```

    **Needs a person**

    ```text
    Zone/example.com#theirs/A  Conflict: it exists and is not tracked
      hint: to take it over as it is: reconciled adopt Zone/example.com#theirs/A
    ```

    **Waiting**

    ```text
    Zone/example.com#arn/TXT  WaitingForOutput: waits for an output of SqsQueue/jobs
    Zone/example.com#slow/A  Progressing: the remote is on its way
    ```

    **Unassigned, left alone**

    ```text
    bind/example.net  3 tracked; no entry `bind` is configured here
    ```

    <details><summary><code>pdns/example.com</code>: 2 to create, 1 to update, 1 to replace, 1 to delete, 1 to adopt, 1 to move, 1 to forget</summary>

    ```diff
      > Zone/example.com#new/A  moved from Zone/example.com#old/A  zones/example.com.yaml:12  commit abc1234
      = Zone/example.com#here/A  content 192.0.2.4  zones/example.com.yaml:12  adopt, held
      . Zone/example.com#left/A  commit abc1234, held
    + Zone/example.com#www/A  content 192.0.2.1  zones/example.com.yaml:12  commit abc1234, held
    + Zone/example.com#arn/TXT  (known after apply)  zones/example.com.yaml:12  commit abc1234, held
    #   waiting: for an output of SqsQueue/jobs
    ! Zone/example.com#drifted/A  zones/example.com.yaml:12  drift
    -   content: 198.51.100.1
    +   content: 192.0.2.3
    - -/+ Zone/example.com#mail/MX  zones/example.com.yaml:12  commit abc1234, held
    -   content: 10 a.
    +   content: !20 b.
    - Zone/example.com#gone/A  content 192.0.2.9  commit abc1234, held
    ```

    </details>

    2 foreign, left alone
    "#);
}

#[test]
fn names_cannot_write_markdown() {
    let mut change = create("a", "`````\n</details> @everyone");
    Arc::make_mut(&mut change.address.whole).name = "``` | <img src=x>".into();
    let mut survey = survey(vec![change]);
    let scope = Scope::new("pdns", "<b>`*|@all*`</b>");
    survey.scopes.insert(scope.clone(), Ok(view(&scope, vec![create("b", "x")])));
    let shown = markdown(&document(&survey, &Options::default()));
    assert!(shown.contains("``````diff\n"), "{shown}");
    assert!(
        shown.contains("<code>pdns/&#60;b&#62;&#96;&#42;&#124;&#64;all&#42;&#96;&#60;/b&#62;</code>"),
        "{shown}"
    );
}

#[test]
fn markdown_fits_a_comment_and_counts_what_does_not() {
    let mut survey = survey(Vec::new());
    for zone in 0..100 {
        let scope = Scope::new("pdns", format!("z{zone:03}.example"));
        let steps = (0..100).map(|i| create(&format!("r{i}/TXT"), &"`x".repeat(200))).collect();
        survey.scopes.insert(scope.clone(), Ok(view(&scope, steps)));
    }
    let document = document(&survey, &Options::default());
    let shown = markdown(&document);
    assert!(shown.chars().count() <= 60_000);
    let listed = shown.matches("+ Zone/").count();
    assert!(listed > 100, "{listed}");
    assert!(shown.contains(&format!("**Truncated**: {} more changes", 10_000 - listed)), "{shown}");
    assert_eq!(shown.matches("<details>").count(), shown.matches("</details>").count());
}

#[test]
fn what_is_left_alone_is_listed_as_in_the_text() {
    let frozen = Frozen {
        source: "infra".into(),
        reason: "zone.yaml has errors".into(),
        manifests: vec!["Zone/example.com".into()],
        tracked: 2,
    };
    let unassigned = Unassigned { scope: "old/example.net".into(), tracked: 3, source: None };
    let foreign =
        ForeignResource { scope: "pdns/example.com".into(), id: "www/A".into(), owner: Some("lab".into()) };
    let document = Document {
        frozen: vec![frozen],
        unassigned: vec![unassigned],
        foreign: Foreign { count: 1, ignored: 0, resources: vec![foreign] },
        ..Document::standing(0, 0, &[])
    };
    let page = markdown(&document);
    for line in [
        "**Frozen: not changed, restored or deleted**",
        "source infra  2 of Zone/example.com: zone.yaml has errors",
        "old/example.net  3 tracked; no entry `old` is configured here",
        "pdns/example.com  www/A  marked by lab",
    ] {
        assert!(page.contains(line), "{page}");
    }
}
