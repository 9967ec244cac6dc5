//! `windows:` of a source: when it may write.

use super::{decode::decode_all, values::Period};
use crate::window::{Cron, Window, Windows};
use jiff::tz::{self, TimeZone};
use reconciled_engine::{Heals, Passes};
use reconciled_provider::{Node, Problem, SourceFile, problem::did_you_mean, yaml::NodeValue};
use serde::Deserialize;
use std::time::Duration;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawWindow {
    deny: Option<String>,
    allow: Option<String>,
    duration: Period,
    time_zone: Option<String>,
    #[serde(default)]
    heal: Heal,
    rollback: Option<bool>,
    #[serde(default)]
    manual: bool,
}

/// What is healed while the window keeps the source closed.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Heal {
    #[default]
    None,
    Protected,
    All,
}

/// Longer ones are no windows.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// Reads the windows of the source `node`; what is wrong with one is a problem, and none of them counts then.
pub(super) fn read(node: &Node, file: &SourceFile, problems: &mut Vec<Problem>) -> Windows {
    let Some(list) = node.get("windows") else { return Windows::default() };
    let windows: Vec<Option<Window>> = match &list.value {
        NodeValue::Seq(items) => items.iter().map(|item| window(item, file, problems)).collect(),
        _ => {
            let hint = "write windows: [{deny: \"0 18 * * FRI\", duration: 62h, timeZone: Europe/Berlin}]";
            let problem = Problem::error("`windows` is a list");
            problems.push(problem.at(file, list.span).hint(hint));
            Vec::new()
        }
    };
    Windows(windows.into_iter().collect::<Option<Vec<Window>>>().unwrap_or_default().into())
}

fn window(node: &Node, file: &SourceFile, problems: &mut Vec<Problem>) -> Option<Window> {
    let raw = decode_all::<RawWindow>(node, file, problems)?;
    let mut error = |key: &str, message: String, hint: &str| {
        let span = node.entry(key).map_or(node.span, |(_, value)| value.span);
        problems.push(Problem::error(message).at(file, span).hint(hint));
        None::<Window>
    };
    let (word, text) = match (raw.deny, raw.allow) {
        (Some(text), None) => ("deny", text),
        (None, Some(text)) => ("allow", text),
        _ => {
            let message = "a window has either `deny` or `allow`".into();
            return error("allow", message, "write one of them: deny: \"0 18 * * FRI\"");
        }
    };
    let cron = match Cron::parse(&text) {
        Ok(cron) => cron,
        Err(problem) => return error(word, problem.to_string(), "see crontab(5)"),
    };
    if raw.duration.0.is_zero() || raw.duration.0 > LONGEST {
        let message = format!("a window of {} is none", raw.duration);
        return error("duration", message, "write how long it lasts, up to 366d: 62h");
    }
    let zone = match raw.time_zone.as_deref().map_or(Ok(TimeZone::UTC), TimeZone::get) {
        Ok(zone) if !zone.is_unknown() => zone,
        _ => {
            let name = raw.time_zone.unwrap_or_default();
            let known: Vec<_> = tz::db().available().collect();
            let near = did_you_mean(&name, known.iter().map(|zone| zone.as_str()));
            let hint = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => "write a name of the IANA database: Europe/Berlin".into(),
            };
            return error("timeZone", format!("`{name}` is no time zone"), &hint);
        }
    };
    let heals = match raw.heal {
        Heal::None => Heals::Nothing,
        Heal::Protected => Heals::Protected,
        Heal::All => Heals::Everything,
    };
    // Who rolls back has an outage; a change freeze is no reason to keep it.
    let passes = Passes { heals, rollback: raw.rollback.unwrap_or(true), manual: raw.manual };
    Some(Window { denies: word == "deny", cron, duration: raw.duration.0, zone, passes })
}
