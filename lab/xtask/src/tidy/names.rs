//! Refuses names of modules and crates that say nothing. `check` calls this.
//!
//! Invariant: a name is refused as a file, a directory, or a module.

use super::{Finding, Tree};

/// Names that say nothing about the contents.
const EMPTY: [&str; 12] = [
    "util",
    "utils",
    "common",
    "helper",
    "helpers",
    "manager",
    "base",
    "misc",
    "shared",
    "stuff",
    "lib_internal",
    "core",
];

/// See the module's head.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &tree.sources {
        let stem = source.path.strip_suffix(".rs").unwrap_or(&source.path);
        if let Some(name) = stem.split('/').find(|part| EMPTY.contains(part)) {
            let message = format!("a module called {name} says nothing: use the field's noun");
            findings.push(Finding::refuse(&source.path, 0, message));
        }
        for (line, code) in source.code_lines() {
            let inline = code.trim().trim_start_matches("pub ").strip_prefix("mod ");
            let name = inline.map(|m| m.trim_end_matches([' ', '{', '}', ';']));
            if let Some(name) = name.filter(|name| EMPTY.contains(name)) {
                let message = format!("a module called {name} says nothing: use the field's noun");
                findings.push(Finding::refuse(&source.path, line, message));
            }
        }
    }
    findings
}
