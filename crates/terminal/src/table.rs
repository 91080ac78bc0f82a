//! Formats tables: columns as wide as needed, two spaces apart. Commands that list something call
//! this.
//!
//! Invariant: control characters in cells are escaped, because hosts, tags and labels may contain
//! anything.

use crate::console::tamed_name;
use crate::words::shortened;

/// Names are not shortened below this, characters, while there are columns to leave out.
const NAME_CHARS_MIN: usize = 16;
/// Spaces between two columns.
const GAP: usize = 2;

/// Rows of cells. The last column is not padded.
pub struct Table {
    rows: Vec<Vec<String>>,
    right: &'static [usize],
}

impl Table {
    /// Makes a table with a heading. `right` lists the columns that are aligned right.
    pub fn new<const N: usize>(heading: [&str; N], right: &'static [usize]) -> Self {
        Self {
            rows: vec![heading.map(str::to_owned).to_vec()],
            right,
        }
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows
            .push(cells.iter().map(|cell| tamed_name(cell)).collect());
    }

    /// Returns all lines, without line ends.
    pub fn lines(&self) -> Vec<String> {
        self.lines_within(usize::MAX, 0, &[])
    }

    /// Returns lines of at most `width` characters, as far as that is possible. Where it is too
    /// little, columns of `optional` are left out, the first one first; then the cells of the
    /// column `name` are shortened. Other cells are never cut.
    pub fn lines_within(&self, width: usize, name: usize, optional: &[usize]) -> Vec<String> {
        let columns = self.rows.first().map_or(0, Vec::len);
        let widest = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let mut shown: Vec<(usize, usize)> = (0..columns).map(|at| (at, widest(at))).collect();
        let others = |shown: &[(usize, usize)]| -> usize {
            let others = shown.iter().filter(|(column, _)| *column != name);
            others.map(|(_, width)| width + GAP).sum()
        };
        let name_width = widest(name);
        for column in optional {
            let least = name_width.min(NAME_CHARS_MIN);
            if others(&shown).saturating_add(least) > width {
                shown.retain(|(at, _)| at != column);
            }
        }
        let left = width.saturating_sub(others(&shown)).min(name_width);
        for (_, width) in shown.iter_mut().filter(|(column, _)| *column == name) {
            *width = left;
        }
        let line = |row: &Vec<String>| {
            let mut line = String::new();
            for (number, (column, width)) in shown.iter().enumerate() {
                let cell = row.get(*column).map_or("", String::as_str);
                let cell = match *column == name {
                    true => shortened(cell, *width),
                    false => cell.into(),
                };
                if number > 0 {
                    line.push_str(&" ".repeat(GAP));
                }
                line += &match self.right.contains(column) {
                    true => format!("{cell:>width$}"),
                    false => format!("{cell:<width$}"),
                };
            }
            line.trim_end().to_owned()
        };
        self.rows.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(["ID", "Size", "Path"], &[1]);
        table.row(["abc".into(), "1".into(), "/x".into()]);
        table.row(["\u{fc}".into(), "1000".into(), String::new()]);
        assert_eq!(
            table.lines(),
            ["ID   Size  Path", "abc     1  /x", "\u{fc}    1000"]
        );
    }

    #[test]
    fn narrow_tables_lose_columns_then_ends_of_names_and_no_number() {
        let mut table = Table::new(["Name", "Size", "Mean us", "Errors"], &[1, 2, 3]);
        let long = "v".repeat(60);
        table.row([long.clone(), "1023 KiB".into(), "12345".into(), "7".into()]);
        table.row(["short".into(), "1 B".into(), "1".into(), "123456789".into()]);
        let within = |width| table.lines_within(width, 0, &[2]);
        assert_eq!(within(usize::MAX), table.lines());
        assert!(
            within(usize::MAX)
                .iter()
                .any(|line| line.starts_with(&long))
        );
        for width in [90, 80, 46, 40, 37, 30] {
            let lines = within(width);
            assert!(
                lines.iter().all(|line| line.chars().count() <= width),
                "{width}: {lines:?}"
            );
            let text = lines.join("\n");
            assert_eq!(text.contains("vvv..."), width < 90, "{width}: {text}");
            for whole in ["1023 KiB", "123456789", "short"] {
                assert!(text.contains(whole), "{width}: {text}");
            }
            assert_eq!(text.contains("12345 "), width >= 46, "{width}: {text}");
        }
    }

    #[test]
    fn cells_stay_in_their_places() {
        let mut table = Table::new(["Host"], &[]);
        table.row(["a\u{1b}[2J\nb\u{202e}\u{9b}".into()]);
        let escaped = "a\\u{1b}[2J\\nb\\u{202e}\\u{9b}";
        assert_eq!(table.lines(), ["Host", escaped]);
    }
}
