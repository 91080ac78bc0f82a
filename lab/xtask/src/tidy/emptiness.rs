//! Refuses an empty default in place of a part of a slice that is not there, in the crates that
//! store, read and restore bytes. `check` calls this.
//!
//! `bytes.get(a..b).unwrap_or_default()` makes nothing out of a fault of ours, and nothing is then
//! stored, sealed or restored without a word.

use super::{Finding, SourceFile, Tree};

const CRATES: [&str; 6] = [
    "archive",
    "chunk_store",
    "maintenance",
    "media",
    "store",
    "volumes",
];
const DEFAULT: &str = ".unwrap_or_default()";

/// See the module's head.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let stores = |source: &&SourceFile| CRATES.contains(&source.krate.as_str()) && !source.is_test;
    tree.sources.iter().filter(stores).flat_map(of).collect()
}

fn of(source: &SourceFile) -> Vec<Finding> {
    let code = &source.lexed.code;
    let mut findings = Vec::new();
    for (at, _) in code.match_indices(DEFAULT) {
        let before = code.get(..at).unwrap_or_default();
        let line = before.lines().count();
        if source.is_test_line(line) || !is_part(before.trim_end()) {
            continue;
        }
        let message = "nothing in place of a part that is not there: use units::Part, or skip() for what may be left";
        findings.push(Finding::refuse(&source.path, line, message));
    }
    findings
}

/// Does `code` end with `get(RANGE)` or `get_mut(RANGE)`?
fn is_part(code: &str) -> bool {
    let Some(inner) = code.strip_suffix(')') else {
        return false;
    };
    let mut depth = 1;
    let opening = inner.char_indices().rev().find(|(_, c)| {
        depth += match c {
            ')' => 1,
            '(' => -1,
            _ => 0,
        };
        depth == 0
    });
    let Some((at, _)) = opening else {
        return false;
    };
    let (call, argument) = inner.split_at(at);
    (call.ends_with(".get") || call.ends_with(".get_mut")) && argument.contains("..")
}
