//! Checks the table "Where is ..." of ARCHITECTURE.md: each file that it names exists.
//!
//! `check` calls this. A path that begins with `crates/` must exist as it is written. Another name
//! of a Rust file must be the end of some file's path.
//! Invariant: only code spans of that table are read, so prose may name what does not exist.

use super::{Finding, Tree};

const MAP: &str = "ARCHITECTURE.md";
const HEADING: &str = "## Where is ...";

/// One row: its line in the map, the question, and the code spans of the answer.
pub struct Row<'a> {
    pub line: usize,
    pub question: &'a str,
    pub files: Vec<&'a str>,
}

/// The rows of the table, without its head. Empty if the map has no such table.
pub fn rows(map: &str) -> Vec<Row<'_>> {
    let lines = (1..).zip(map.lines());
    let table = lines
        .skip_while(|(_, line)| *line != HEADING)
        .skip(1)
        .take_while(|(_, line)| !line.starts_with('#'))
        .filter(|(_, line)| line.starts_with("| "));
    // The head of the table, whose rule begins with "|-".
    table.skip(1).filter_map(row).collect()
}

fn row((line, text): (usize, &str)) -> Option<Row<'_>> {
    let mut cells = text.trim_matches('|').splitn(2, " | ");
    let question = cells.next()?.trim();
    let files = cells.next()?.split('`').skip(1).step_by(2).collect();
    Some(Row {
        line,
        question,
        files,
    })
}

/// See the module's head.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let rows = rows(tree.text(MAP).unwrap_or_default());
    let named = rows
        .iter()
        .flat_map(|row| row.files.iter().map(move |file| (row, *file)));
    named
        .filter(|(_, file)| !exists(tree, file))
        .map(|(row, file)| {
            let message = format!("{}: `{file}` does not exist", row.question);
            Finding::refuse(MAP, row.line, message)
        })
        .collect()
}

/// Whether a name of the table is that of a file or folder. Names that are no paths exist.
pub fn exists(tree: &Tree, name: &str) -> bool {
    if name.starts_with("crates/") || name.starts_with("lab/") {
        return tree.has(name);
    }
    let end = format!("/{name}");
    !name.ends_with(".rs") || tree.paths().any(|path| path.ends_with(&end))
}
