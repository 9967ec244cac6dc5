//! Decoding that goes on behind a wrong entry.

use super::node::{Node, NodeValue, SourceFile, Span};
use crate::problem::Problem;
use serde::de::DeserializeOwned;

impl Node {
    /// Decodes a mapping as [`Node::decode`] does, but goes on without an entry whose value is wrong, so that
    /// the others are looked at too.
    ///
    /// Beside an error the value serves to find more problems; it is not what was written.
    ///
    /// ```
    /// use reconciled_provider::yaml::{parse, Each, Limits, SourceFile};
    /// #[derive(serde::Deserialize)]
    /// struct Zone { ttl: Option<u32>, names: Each<String> }
    /// let file = SourceFile::new("z.yaml", "ttl: many\nnames: [a, []]\n");
    /// let node = parse(&file, Limits::default()).unwrap().remove(0);
    /// assert_eq!(node.decode::<Zone>(&file).1.len(), 1);
    /// let (zone, problems) = node.decode_all::<Zone>(&file);
    /// assert_eq!((zone.unwrap().ttl, problems.len()), (None, 2));
    /// ```
    pub fn decode_all<T: DeserializeOwned>(&self, file: &SourceFile) -> (Option<T>, Vec<Problem>) {
        let (value, found) = self.decode(file);
        match (&value, &self.value) {
            (None, NodeValue::Map(_)) => decode_rest(self.clone(), found, file),
            _ => (value, found),
        }
    }
}

fn decode_rest<T: DeserializeOwned>(
    mut node: Node,
    mut found: Vec<Problem>,
    file: &SourceFile,
) -> (Option<T>, Vec<Problem>) {
    let (mut value, mut problems, mut removed) = (None, Vec::new(), Vec::new());
    while let NodeValue::Map(entries) = &mut node.value {
        let mut wrong = Vec::new();
        for problem in found {
            if let Some(place) = &problem.place {
                let place = Span { line: place.line, column: place.column };
                let holder = entries.iter().rposition(|(key, _)| key.span <= place);
                wrong.extend(holder.filter(|index| entries[*index].0.span != place));
            }
            let follows =
                removed.iter().any(|key: &String| problem.message == format!("field `{key}` is missing"));
            if !follows && !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        if value.is_some() || wrong.is_empty() {
            break;
        }
        wrong.sort_unstable();
        wrong.dedup();
        for index in wrong.into_iter().rev() {
            removed.extend(entries.remove(index).0.as_str().map(String::from));
        }
        (value, found) = node.decode(file);
    }
    problems.sort_by(|a, b| a.place.cmp(&b.place));
    (value, problems)
}
