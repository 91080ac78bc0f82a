//! Formats tables: columns as wide as needed, two spaces apart. Commands that list something call
//! this.
//!
//! Invariant: control characters in cells are escaped, because hosts, tags and labels may contain
//! anything.

use crate::console::tamed_name;

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
        let columns = self.rows.first().map_or(0, Vec::len);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let line = |row: &Vec<String>| {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                if column > 0 {
                    line += "  ";
                }
                line += &match self.right.contains(&column) {
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
    fn cells_stay_in_their_places() {
        let mut table = Table::new(["Host"], &[]);
        table.row(["a\u{1b}[2J\nb\u{202e}\u{9b}".into()]);
        let escaped = "a\\u{1b}[2J\\nb\\u{202e}\\u{9b}";
        assert_eq!(table.lines(), ["Host", escaped]);
    }
}
