//! Plain tables: columns aligned by spaces, no lines, as `kubectl get` and `ps` print them.

use crate::text::{clean, cut};

/// Space between columns.
const GAP: usize = 2;

/// Narrowest that a column is cut to.
const NARROWEST: usize = 8;

/// A table under construction.
///
/// ```
/// use reconciled::render::table::Table;
/// let mut table = Table::new(["ADDRESS", "STATE"]);
/// table.row(["Zone/example.com", "in sync"]);
/// assert_eq!(table.render(None), "ADDRESS           STATE\nZone/example.com  in sync\n");
/// ```
#[derive(Clone, Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with this heading.
    pub fn new<'a>(heading: impl IntoIterator<Item = &'a str>) -> Table {
        Table { rows: vec![heading.into_iter().map(str::to_string).collect()] }
    }
    /// Adds a row. Missing cells are empty; cells beyond the heading are kept without one.
    pub fn row<S: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(|cell| clean(cell.as_ref()).into_owned()).collect());
    }
    /// True while there is nothing but the heading.
    pub fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }
    /// The text, each line at most `width` characters where that leaves 8 to each column: the widest columns
    /// are cut first.
    pub fn render(&self, width: Option<usize>) -> String {
        let mut widths = self.widths();
        if let Some(width) = width {
            shrink(&mut widths, width);
        }
        let mut out = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                let cell = cut(cell, *width);
                let padding = *width - cell.chars().count() + GAP;
                line.push_str(&cell);
                line.extend(std::iter::repeat_n(' ', padding));
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let mut widths = vec![0; columns];
        for row in &self.rows {
            for (cell, width) in row.iter().zip(&mut widths) {
                *width = (*width).max(cell.chars().count());
            }
        }
        widths
    }
}

/// Narrows the widest columns until all fit into `width`.
fn shrink(widths: &mut [usize], width: usize) {
    let gaps = GAP * widths.len().saturating_sub(1);
    loop {
        let over = (widths.iter().sum::<usize>() + gaps).saturating_sub(width);
        let Some(widest) = widths.iter().copied().max().filter(|w| over > 0 && *w > NARROWEST) else {
            return;
        };
        let second = widths.iter().copied().filter(|w| *w < widest).max().unwrap_or(0).max(NARROWEST);
        // Of several equally wide columns the last gives first: what identifies a row stands on the left.
        let Some(column) = widths.iter().rposition(|w| *w == widest) else { return };
        widths[column] -= over.min((widest - second).max(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;

    fn table() -> Table {
        let mut table = Table::new(["ADDRESS", "STATE", "AGE", "MESSAGE"]);
        table.row([
            "Zone/example.com#www/A",
            "stalled",
            "3m",
            "it exists, differs from the manifest, and is not tracked",
        ]);
        table.row(["Zone/b", "in sync"]);
        table
    }

    #[test]
    fn columns_are_aligned_and_lines_end_without_spaces() {
        assert_snapshot!(table().render(None), @r#"
        ADDRESS                 STATE    AGE  MESSAGE
        Zone/example.com#www/A  stalled  3m   it exists, differs from the manifest, and is not tracked
        Zone/b                  in sync
        "#);
    }

    #[test]
    fn the_widest_columns_are_cut_until_the_lines_fit() {
        let text = table().render(Some(50));
        assert!(text.lines().all(|l| l.chars().count() <= 50), "{text}");
        assert_snapshot!(text, @r#"
        ADDRESS                 STATE    AGE  MESSAGE
        Zone/example.com#www/A  stalled  3m   it exists, …
        Zone/b                  in sync
        "#);
    }

    #[test]
    fn no_column_becomes_narrower_than_it_can_be_read() {
        let text = table().render(Some(1));
        assert!(text.contains("Zone/ex…  stalled  3m   it exis…"), "{text}");
    }

    #[test]
    fn a_cell_is_one_line_and_steers_nothing() {
        let mut table = Table::new(["NAME"]);
        table.row(["a\u{1b}[2J\nb"]);
        assert_eq!(table.render(None), "NAME\na\\u{1b}[2J\\nb\n");
        assert!(!table.is_empty() && Table::new(["NAME"]).is_empty());
    }
}
