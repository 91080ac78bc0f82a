//! Checks that the modules of the engine's crates are in pipeline order and import only to their
//! left. `check` calls this.
//!
//! Invariant: a name that `lib.rs` re-exports counts as a name of the module that defines it.

use super::{Finding, SourceFile, Tree, lexer};
use std::collections::BTreeMap;

/// Crates with an order, and their modules from left to right.
const ORDERS: [(&str, &[&str]); 3] = [
    (
        "chunk_store",
        &[
            "error",
            "superblock",
            "container",
            "index",
            "chunk_map",
            "recipe",
            "catalog",
        ],
    ),
    (
        "store",
        &[
            "budget",
            "worker",
            "write_path",
            "space",
            "recovery",
            "check",
            "pool",
            "collect",
            "defragment",
        ],
    ),
    (
        "volumes",
        &[
            "budget",
            "pool_journal",
            "kept",
            "overlay",
            "states",
            "decisions",
            "tracker",
            "tally",
            "tracing",
            "backing",
            "direct",
            "fetcher",
            "levels",
            "losses",
            "reading",
            "around",
            "live",
            "registry",
            "replaying",
            "room",
            "checkpointer",
            "back_pressure",
            "engine",
            "changes",
            "writing",
            "handle",
            "administration",
            "reservations",
            "unapplied",
            "resident",
            "fragmentables",
            "view",
            "damaged",
            "memory",
            "loss_messages",
            "placing",
        ],
    ),
];

/// See the module's head.
pub fn check(tree: &Tree) -> Vec<Finding> {
    ORDERS
        .iter()
        .flat_map(|(krate, order)| check_crate(tree, krate, order))
        .collect()
}

fn check_crate(tree: &Tree, krate: &str, order: &[&str]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let root_path = format!("crates/{krate}/src/lib.rs");
    let Some(root) = tree.sources.iter().find(|s| s.path == root_path) else {
        return findings;
    };
    let exported = exports(&root.lexed.code);
    let place = |module: &str| order.iter().position(|m| *m == module);
    for (line, code) in root.code_lines() {
        let module = code.trim().trim_start_matches("pub ").strip_prefix("mod ");
        if let Some(module) = module.and_then(|m| m.strip_suffix(';'))
            && !root.is_test_line(line)
            && !root.lexed.test_modules.iter().any(|test| test == module)
            && place(module).is_none()
        {
            let message =
                format!("{module} has no place in the pipeline: add it to xtask's ORDERS");
            findings.push(Finding::refuse(&root_path, line, message));
        }
    }
    let sources = format!("crates/{krate}/src/");
    let inside = |s: &&SourceFile| s.krate == krate && s.path.starts_with(&sources);
    for source in tree.sources.iter().filter(inside) {
        let path = source.module_path();
        let Some(own) = path.first().and_then(|m| place(m)) else {
            continue;
        };
        for (line, name) in imports(&source.lexed.code, path.len()) {
            let module = exported.get(&name).map_or(name.as_str(), String::as_str);
            if let Some(other) = place(module)
                && other > own
                && !source.is_test_line(line)
            {
                let message = format!(
                    "{} imports {name} to its right ({module}); the order is {}",
                    path.first().unwrap_or(&""),
                    order.join(", ")
                );
                findings.push(Finding::refuse(&source.path, line, message));
            }
        }
    }
    findings
}

/// `pub use module::{A, B};` at the root: maps A and B to module.
fn exports(code: &str) -> BTreeMap<String, String> {
    let mut exported = BTreeMap::new();
    for item in code.split(';') {
        let Some((_, path)) = item.split_once("use ") else {
            continue;
        };
        if let Some((module, names)) = path.trim().split_once("::") {
            let module = module.trim();
            for name in words(names) {
                exported.insert(name.to_owned(), module.to_owned());
            }
        }
    }
    exported
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|w| !w.is_empty())
}

/// Returns the first names after `crate::` and after as many `super::` as lead to the root, with
/// their lines.
fn imports(code: &str, depth: usize) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let ways = ["crate::".to_owned(), "super::".repeat(depth)];
    for way in &ways {
        for (at, _) in code.match_indices(way.as_str()) {
            let after = code.get(at + way.len()..).unwrap_or_default();
            for name in first_names(after) {
                found.push((lexer::line_of(code, at), name));
            }
        }
    }
    found
}

/// `name::...` gives name; `{a::x, b::{y, z}}` gives a and b; `super::name` gives name.
fn first_names(after: &str) -> Vec<String> {
    let after = after.trim_start();
    let Some(group) = after.strip_prefix('{') else {
        let after = after.trim_start_matches("super::");
        return words(after).next().map(str::to_owned).into_iter().collect();
    };
    let (mut depth, mut names, mut item) = (0usize, Vec::new(), String::new());
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                names.extend(words(&std::mem::take(&mut item)).next().map(str::to_owned))
            }
            c if depth == 0 => item.push(c),
            _ => {}
        }
    }
    names.extend(words(&item).next().map(str::to_owned));
    names
}
