//! What goes with a resource that is removed, or stays behind it: what that took the place of and is still there. It has no step of
//! its own, and is in no count.

use super::document::Warning;
use reconciled_engine::{
    plan::{Change, Step},
    survey::Survey,
};
use reconciled_provider::Observer;

/// One warning for each removal of something that took the place of another one.
pub(super) fn formers<'a>(survey: &Survey, show: &dyn Fn(&str) -> Option<&'a dyn Observer>) -> Vec<Warning> {
    let views = survey.scopes.iter().filter_map(|(scope, view)| Some((scope, view.as_ref().ok()?)));
    let steps = views.flat_map(|(scope, view)| view.plan.steps.iter().map(move |step| (scope, step)));
    steps.filter_map(|(scope, step)| warning(step, show(&scope.provider)?)).collect()
}

fn warning(step: &Step, observer: &dyn Observer) -> Option<Warning> {
    let is_removal = matches!(step.change, Change::Delete | Change::Forget | Change::Abandon);
    let row = step.work.was.as_ref().filter(|_| is_removal)?;
    let count = observer.former_names(&step.id, &row.tracked.private).len();
    if count == 0 {
        return None;
    }
    let address = &step.address;
    let which = format!("to see which: reconciled status {address}");
    let (message, hint) = match step.change {
        Change::Delete => {
            (format!("{address} is deleted together with {count} that it took the place of"), which)
        }
        _ => (
            format!("{address} is let go of, and {count} that it took the place of will never be deleted"),
            format!("to have that deleted, let go of {address} afterwards; {which}"),
        ),
    };
    Some(Warning {
        reason: "FormerToo".into(),
        message,
        hint: Some(hint),
        addresses: vec![address.to_string()],
    })
}
