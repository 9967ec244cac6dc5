//! Builds a manifest as backends see it: with values in the place of `${…}` and of templates.

use super::{
    loading::Loading,
    request::Mode,
    substitute::{self, Gaps, Put, PutOut},
    unit::Unit,
};
use reconciled_provider::{
    Manifest, Node, Reference,
    yaml::{NodeValue, ScalarKind},
};
use std::{collections::BTreeSet, sync::Arc};

impl Loading<'_> {
    /// The manifest of a unit, built when it is first needed.
    pub(super) fn manifest<'a>(&'a self, unit: &'a Unit) -> &'a Manifest {
        unit.manifest.get_or_init(|| self.build(unit, false))
    }

    /// Builds a manifest with values in place; with `hides_outputs` outputs of others stay unknown.
    pub(super) fn build(&self, unit: &Unit, hides_outputs: bool) -> Manifest {
        let document = &unit.document;
        let (file, mut spec) = self.take_spec(unit);
        let mut gaps = self.substitute(unit, &mut spec, hides_outputs);
        if document.is_template {
            self.put_texts(unit, &mut spec, hides_outputs, &mut gaps);
        }
        let mut failed = gaps.failed;
        if self.mode == Mode::Anywhere {
            // Whether the value fits can be told where it is known.
            failed.extend(gaps.unknown);
        }
        unit.failed.replace(failed);
        if !hides_outputs {
            unit.secrets.replace(gaps.secrets);
        }
        let names: BTreeSet<Arc<str>> = document.providers.iter().map(|(name, _)| name.clone()).collect();
        Manifest {
            index: unit.index.unwrap_or(u32::MAX),
            key: unit.key.clone(),
            api_version: document.api_version.clone(),
            kind: document.kind.clone(),
            name: document.name.clone(),
            labels: document.labels.clone(),
            annotations: document.annotations.clone(),
            providers: (!names.is_empty()).then(|| names.into_iter().collect()),
            policy: document.settings.policy.clone(),
            file,
            span: document.span,
            spec,
        }
    }

    /// Puts what templates came to in their place.
    fn put_texts(&self, unit: &Unit, spec: &mut Node, hides_outputs: bool, gaps: &mut Gaps) {
        let Some(file) = self.templates.get(&unit.document.kind) else { return };
        let nothing = BTreeSet::new();
        let verbatim = self.verbatim.get(&unit.document.kind).unwrap_or(&nothing);
        let (mut puts, mut moved) = (unit.resolved.texts.iter(), None);
        substitute::texts_mut(spec, verbatim, file.as_ref(), &mut |text, node| {
            let span = node.span;
            let unknown = |reference: &Reference| ScalarKind::Unknown([reference.clone()].into());
            // What is not known yet stands as it is written: consent is given to that.
            let value: (Box<str>, ScalarKind) = match puts.next() {
                Some((put, written)) if hides_outputs && put.output().is_some() => {
                    (written.as_str().into(), put.output().map_or(ScalarKind::Str, unknown))
                }
                Some((Put::Secret(secret), _)) => {
                    let new = gaps.place(secret.clone(), span);
                    match text {
                        substitute::Text::Here => *node = new,
                        substitute::Text::Of(field) => moved = Some((field, new)),
                    }
                    return;
                }
                Some((Put::Value(text, kind) | Put::Output(text, kind, _), _)) => {
                    (text.clone(), kind.clone())
                }
                Some((Put::Unknown(reference), written)) => (written.as_str().into(), unknown(reference)),
                Some((Put::Failed | Put::Sealed(_) | Put::AsWritten, _)) | None => {
                    return gaps.failed.push(span);
                }
            };
            if let ScalarKind::Unknown(_) = value.1 {
                gaps.unknown.push(span);
            }
            let new = Node { span, value: NodeValue::Scalar(value.0, value.1) };
            match text {
                substitute::Text::Here => *node = new,
                substitute::Text::Of(field) => moved = Some((field, new)),
            }
        });
        let (Some((field, text)), Some((from, _))) = (moved, file) else { return };
        let NodeValue::Map(entries) = &mut spec.value else { return };
        // Both at once is a mistake that the backend tells.
        if !entries.iter().any(|(key, _)| key.as_str() == Some(&*field)) {
            entries.retain(|(key, _)| key.as_str() != Some(&**from));
            let key = Node { span: text.span, value: NodeValue::Scalar((*field).into(), ScalarKind::Str) };
            entries.push((key, text));
        }
    }

    fn substitute(&self, unit: &Unit, spec: &mut Node, hides_outputs: bool) -> Gaps {
        let nothing = BTreeSet::new();
        let verbatim = self.verbatim.get(&unit.document.kind).unwrap_or(&nothing);
        substitute::substitute(spec, verbatim, &|root| {
            let put = unit.resolved.puts.get(root).cloned().unwrap_or(Put::Failed);
            match put {
                Put::Output(_, _, from) | Put::Secret(PutOut { from, .. }) if hides_outputs => {
                    Put::Unknown(from)
                }
                put => put,
            }
        })
    }
}
