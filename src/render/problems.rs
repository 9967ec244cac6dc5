//! Problems in manifests: for people, for programs, and in the forms that code hosts show beside the line.
//!
//! Paths of problems are relative to what was read. `base` is put before them, so that they are relative to
//! the repository a code host shows: the `DIR` of `validate DIR`, or empty.

use crate::text::clean_lines;
use reconciled_provider::{Hash, Place, Problem, Severity};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write,
};

/// Each problem with its line, caret and hint, and how many there are; empty when there are none.
pub fn text(problems: &[Problem]) -> String {
    let mut out = String::new();
    for problem in problems {
        out.push_str(&clean_lines(&problem.to_string()));
        out.push_str("\n\n");
    }
    if !problems.is_empty() {
        let errors = problems.iter().filter(|p| p.is_error()).count();
        let count = |n: usize, word: &str| match n {
            0 => None,
            1 => Some(format!("1 {word}")),
            n => Some(format!("{n} {word}s")),
        };
        let words: Vec<String> = [count(errors, "error"), count(problems.len() - errors, "warning")]
            .into_iter()
            .flatten()
            .collect();
        out.push_str(&words.join(", "));
        out.push('\n');
    }
    out
}

/// `[{severity, file, line, column, message, rule, hint, related}]`.
pub fn json(problems: &[Problem], base: &str) -> String {
    let all: Vec<Value> = problems
        .iter()
        .map(|problem| {
            let related: Vec<Value> = problem
                .related
                .iter()
                .map(|(place, word)| {
                    json!({"file": path(base, place), "line": known(place.line), "column": known(place.column), "message": word})
                })
                .collect();
            let (line, column) = position(problem);
            json!({
                "severity": severity(problem),
                "file": problem.place.as_ref().map(|p| path(base, p)),
                "line": line,
                "column": column,
                "message": problem.message,
                "rule": problem.rule,
                "hint": problem.hint,
                "related": related,
            })
        })
        .collect();
    pretty(&Value::Array(all))
}

/// Workflow commands of GitHub Actions: `::error file=…,line=…,col=…::message`.
///
/// Source: docs.github.com, "Workflow commands for GitHub Actions".
pub fn github(problems: &[Problem], base: &str) -> String {
    let mut out = String::new();
    for problem in problems {
        let mut properties = Vec::new();
        if let Some(place) = &problem.place {
            properties.push(format!("file={}", property(&path(base, place))));
        }
        let (line, column) = position(problem);
        properties.extend(line.map(|line| format!("line={line}")));
        properties.extend(column.map(|column| format!("col={column}")));
        let space = if properties.is_empty() { "" } else { " " };
        let _ = writeln!(
            out,
            "::{}{space}{}::{}",
            severity(problem),
            properties.join(","),
            data(&message(problem))
        );
    }
    out
}

/// A Code Quality report of GitLab.
///
/// Source: docs.gitlab.com, "Code Quality", report format.
pub fn gitlab(problems: &[Problem], base: &str) -> String {
    let fingerprints = fingerprints(problems, base);
    let all: Vec<Value> = problems
        .iter()
        .zip(fingerprints)
        .map(|(problem, fingerprint)| {
            let file = problem.place.as_ref().map_or_else(|| ".".to_string(), |p| path(base, p));
            json!({
                "description": message(problem),
                "check_name": rule(problem),
                "fingerprint": fingerprint,
                "severity": if problem.is_error() { "major" } else { "minor" },
                "location": {"path": file, "lines": {"begin": position(problem).0.unwrap_or(1)}},
            })
        })
        .collect();
    pretty(&Value::Array(all))
}

/// SARIF 2.1.0 (OASIS), one run with the rules that are broken.
pub fn sarif(problems: &[Problem], base: &str) -> String {
    let fingerprints = fingerprints(problems, base);
    let mut rules: BTreeMap<&str, Value> = BTreeMap::new();
    for problem in problems {
        rules.entry(rule(problem)).or_insert_with(|| described(problem));
    }
    let index = |problem: &Problem| rules.keys().position(|id| *id == rule(problem));
    let results: Vec<Value> = problems
        .iter()
        .zip(fingerprints)
        .map(|(problem, fingerprint)| {
            let mut result = json!({
                "ruleId": rule(problem),
                "ruleIndex": index(problem),
                "level": severity(problem),
                "message": {"text": message(problem)},
                "partialFingerprints": {"reconciled/v1": fingerprint},
            });
            if let Some(place) = &problem.place {
                result["locations"] = json!([location(base, place)]);
            }
            if !problem.related.is_empty() {
                let related = problem.related.iter().map(|(place, word)| {
                    let mut location = location(base, place);
                    location["message"] = json!({"text": word});
                    location
                });
                result["relatedLocations"] = related.collect();
            }
            result
        })
        .collect();
    pretty(&json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "reconciled",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules.values().collect::<Vec<_>>(),
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    }))
}

/// The rule behind all that has no name: a problem says in words what is wrong.
const RULE: &str = "manifest";

fn rule(problem: &Problem) -> &str {
    problem.rule.unwrap_or(RULE)
}

/// The rule that `problem` breaks, as SARIF describes rules: by what to do, and where that is written.
fn described(problem: &Problem) -> Value {
    let mut described = json!({"id": rule(problem)});
    let text = match problem.rule {
        None => "a manifest is not as its kind demands",
        Some(name) => problem.hint.as_deref().unwrap_or(name),
    };
    described["shortDescription"] = json!({"text": text});
    if let Some(number) = problem.rule.and_then(|_| rfc(text)) {
        described["helpUri"] = json!(format!("https://www.rfc-editor.org/rfc/rfc{number}"));
    }
    described
}

/// The number of the first RFC that `text` names.
fn rfc(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("RFC ")?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    Some(&rest[..end]).filter(|number| !number.is_empty())
}

/// Line and column, where the problem has them.
pub(crate) fn position(problem: &Problem) -> (Option<u32>, Option<u32>) {
    let Some(place) = &problem.place else { return (None, None) };
    // A column of no line says nothing.
    let line = known(place.line);
    (line, line.and_then(|_| known(place.column)))
}

/// 0 stands for the whole file or line.
fn known(number: u32) -> Option<u32> {
    (number > 0).then_some(number)
}

fn severity(problem: &Problem) -> &'static str {
    match problem.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}

fn message(problem: &Problem) -> String {
    match &problem.hint {
        Some(hint) => format!("{}\nhint: {hint}", problem.message),
        None => problem.message.clone(),
    }
}

fn path(base: &str, place: &Place) -> String {
    let base = base.trim_end_matches('/');
    let base = base.strip_prefix("./").unwrap_or(base);
    if base.is_empty() || base == "." { place.file.to_string() } else { format!("{base}/{}", place.file) }
}

/// Stable while lines move, different for each problem of a report.
fn fingerprints(problems: &[Problem], base: &str) -> Vec<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let texts = problems.iter().map(|problem| {
        let file = problem.place.as_ref().map(|p| path(base, p)).unwrap_or_default();
        format!("{}\0{file}\0{}", severity(problem), problem.message)
    });
    texts
        .map(|text| {
            let nth = seen.entry(text.clone()).and_modify(|n| *n += 1).or_insert(0);
            Hash::of(format!("{text}\0{nth}").as_bytes()).to_string()
        })
        .collect()
}

fn location(base: &str, place: &Place) -> Value {
    let mut physical = json!({"artifactLocation": {"uri": uri(&path(base, place))}});
    if place.line > 0 {
        let mut region = json!({"startLine": place.line});
        if place.column > 0 {
            region["startColumn"] = json!(place.column);
        }
        physical["region"] = region;
    }
    json!({"physicalLocation": physical})
}

/// What of a path is escaped in a URI: all but its slashes and what is unreserved (RFC 3986 §2.3).
const RESERVED: &percent_encoding::AsciiSet =
    &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// A path as a relative URI.
fn uri(path: &str) -> String {
    percent_encoding::utf8_percent_encode(path, RESERVED).to_string()
}

/// Escapes the message of a workflow command, so that none can be smuggled into another line.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes a property of a workflow command.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

fn pretty(value: &Value) -> String {
    // Invariant: built from strings and numbers here, so there is nothing that JSON cannot hold.
    let mut text = serde_json::to_string_pretty(value).expect("problems are plain data");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;
    use reconciled_provider::{SourceFile, Span};

    fn problems() -> Vec<Problem> {
        let file = SourceFile::new("zones/a b.yaml", "kind: Zone\nspec:\n  valuez: 1\n");
        vec![
            Problem::error("unknown field `valuez`, 100% wrong")
                .at(&file, Span { line: 3, column: 3 })
                .hint("did you mean `values`?")
                .related(Place { file: "kinds.yaml".into(), line: 7, column: 0 }, "declared here"),
            Problem::warning("nothing declares anything").in_file("zones/b,c:d.yaml"),
            Problem::error("no manifest"),
        ]
    }

    #[test]
    fn people_see_line_caret_hint_and_count() {
        assert_snapshot!(text(&problems()), @r#"
        error: unknown field `valuez`, 100% wrong
          --> zones/a b.yaml:3:3
        3 |   valuez: 1
          |   ^
          --> kinds.yaml:7 declared here
        hint: did you mean `values`?

        warning: nothing declares anything
          --> zones/b,c:d.yaml

        error: no manifest

        2 errors, 1 warning
        "#);
        assert_eq!(text(&[]), "");
    }

    #[test]
    fn programs_see_every_part() {
        assert_snapshot!(json(&problems(), ""), @r#"
        [
          {
            "severity": "error",
            "file": "zones/a b.yaml",
            "line": 3,
            "column": 3,
            "message": "unknown field `valuez`, 100% wrong",
            "rule": null,
            "hint": "did you mean `values`?",
            "related": [
              {
                "file": "kinds.yaml",
                "line": 7,
                "column": null,
                "message": "declared here"
              }
            ]
          },
          {
            "severity": "warning",
            "file": "zones/b,c:d.yaml",
            "line": null,
            "column": null,
            "message": "nothing declares anything",
            "rule": null,
            "hint": null,
            "related": []
          },
          {
            "severity": "error",
            "file": null,
            "line": null,
            "column": null,
            "message": "no manifest",
            "rule": null,
            "hint": null,
            "related": []
          }
        ]
        "#);
    }

    #[test]
    fn github_gets_one_escaped_command_for_each_problem() {
        assert_snapshot!(github(&problems(), "./infra/"), @r#"
        ::error file=infra/zones/a b.yaml,line=3,col=3::unknown field `valuez`, 100%25 wrong%0Ahint: did you mean `values`?
        ::warning file=infra/zones/b%2Cc%3Ad.yaml::nothing declares anything
        ::error::no manifest
        "#);
    }

    #[test]
    fn a_message_cannot_smuggle_a_workflow_command() {
        let text = github(&[Problem::error("a\n::set-env name=X::y\r")], "");
        assert_eq!(text, "::error::a%0A::set-env name=X::y%0D\n");
    }

    #[test]
    fn gitlab_gets_a_report_in_which_equal_problems_have_fingerprints_of_their_own() {
        let twice = [problems(), problems()].concat();
        let report: Vec<Value> = serde_json::from_str(&gitlab(&twice, "infra")).unwrap();
        let prints: std::collections::BTreeSet<_> =
            report.iter().map(|r| r["fingerprint"].to_string()).collect();
        assert_eq!(prints.len(), 6);
        assert_snapshot!(serde_json::to_string(&report[1]).unwrap(), @r#"{"description":"nothing declares anything","check_name":"manifest","fingerprint":"9bc07ef601e1019293e1a38de501d080","severity":"minor","location":{"path":"infra/zones/b,c:d.yaml","lines":{"begin":1}}}"#);
    }

    #[test]
    fn a_fingerprint_stays_when_lines_move() {
        let at = |line| {
            let file = SourceFile::new("a.yaml", "\n\n\n");
            gitlab(&[Problem::error("bad").at(&file, Span { line, column: 1 })], "")
        };
        let print =
            |text: String| serde_json::from_str::<Value>(&text).unwrap()[0]["fingerprint"].to_string();
        assert_eq!(print(at(1)), print(at(3)));
    }

    #[test]
    fn sarif_names_the_rule_the_place_and_related_places() {
        let version = format!("\"version\": \"{}\"", env!("CARGO_PKG_VERSION"));
        let shown = sarif(&problems()[..1], "").replace(&version, "\"version\": \"VERSION\"");
        assert_snapshot!(shown, @r#"
        {
          "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
          "version": "2.1.0",
          "runs": [
            {
              "tool": {
                "driver": {
                  "name": "reconciled",
                  "version": "VERSION",
                  "rules": [
                    {
                      "id": "manifest",
                      "shortDescription": {
                        "text": "a manifest is not as its kind demands"
                      }
                    }
                  ]
                }
              },
              "columnKind": "unicodeCodePoints",
              "results": [
                {
                  "ruleId": "manifest",
                  "ruleIndex": 0,
                  "level": "error",
                  "message": {
                    "text": "unknown field `valuez`, 100% wrong\nhint: did you mean `values`?"
                  },
                  "partialFingerprints": {
                    "reconciled/v1": "71f9568b3cb393623f1dfbf70b37111a"
                  },
                  "locations": [
                    {
                      "physicalLocation": {
                        "artifactLocation": {
                          "uri": "zones/a%20b.yaml"
                        },
                        "region": {
                          "startLine": 3,
                          "startColumn": 3
                        }
                      }
                    }
                  ],
                  "relatedLocations": [
                    {
                      "physicalLocation": {
                        "artifactLocation": {
                          "uri": "kinds.yaml"
                        },
                        "region": {
                          "startLine": 7
                        }
                      },
                      "message": {
                        "text": "declared here"
                      }
                    }
                  ]
                }
              ]
            }
          ]
        }
        "#);
    }

    #[test]
    fn a_rule_of_lint_is_named_and_described_by_what_to_do() {
        let hint = "name the host itself (RFC 2181 §10.3)";
        let lint = |rule, hint: Option<&str>| Problem {
            rule: Some(rule),
            hint: hint.map(str::to_owned),
            ..Problem::warning("bad")
        };
        let problems =
            [lint("mx-target-cname", Some(hint)), Problem::error("worse"), lint("alias", Some("why"))];
        let report: Value = serde_json::from_str(&sarif(&problems, "")).unwrap();
        let run = &report["runs"][0];
        let rules = json!([
            {"id": "alias", "shortDescription": {"text": "why"}},
            {"id": "manifest", "shortDescription": {"text": "a manifest is not as its kind demands"}},
            {"id": "mx-target-cname", "shortDescription": {"text": hint}, "helpUri": "https://www.rfc-editor.org/rfc/rfc2181"},
        ]);
        assert_eq!(run["tool"]["driver"]["rules"], rules);
        let of = |result: &Value| (result["ruleId"].clone(), result["ruleIndex"].clone());
        let results: Vec<_> = run["results"].as_array().unwrap().iter().map(of).collect();
        let named = |id: &str, index: usize| (json!(id), json!(index));
        assert_eq!(results, [named("mx-target-cname", 2), named("manifest", 1), named("alias", 0)]);
        let report: Vec<Value> = serde_json::from_str(&gitlab(&problems, "")).unwrap();
        assert_eq!(report[0]["check_name"], "mx-target-cname");
    }

    #[test]
    fn escape_sequences_in_file_names_do_not_reach_the_terminal() {
        let problem = Problem::error("bad").in_file("a\u{1b}[31m.yaml");
        assert!(!text(&[problem]).contains('\u{1b}'));
    }
}
