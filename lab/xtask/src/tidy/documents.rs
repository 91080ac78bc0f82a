//! Checks that required documents exist, are short and complete, and have valid links. `check`
//! calls this.
//!
//! Invariant: only the text is checked, not whether it is true.

use super::manifest::Manifest;
use super::{Finding, Tree};
use std::collections::BTreeSet;

const MAP: &str = "ARCHITECTURE.md";
const MAP_LINES_MAX: usize = 300;
const DEPENDENCIES: &str = "docs/dependencies.md";
const FORMAT: &str = "docs/format/README.md";
const REQUIRED: [&str; 9] = [
    MAP,
    DEPENDENCIES,
    FORMAT,
    "README.md",
    "CHANGELOG.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "docs/semantics.md",
    "docs/security.md",
];

/// See the module's head.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for path in REQUIRED.iter().filter(|path| tree.text(path).is_none()) {
        findings.push(Finding::refuse(path, 0, "is missing"));
    }
    findings.extend(map(tree));
    findings.extend(dependencies(tree));
    findings.extend(versions(tree));
    findings.extend(links(tree));
    findings
}

/// The map is short and names every crate.
fn map(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.text(MAP) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    let lines = text.lines().count();
    if lines > MAP_LINES_MAX {
        let message =
            format!("{lines} lines, at most {MAP_LINES_MAX}: it is a map, not the country");
        findings.push(Finding::refuse(MAP, 0, message));
    }
    for krate in tree.manifests.iter().map(|m| &m.name) {
        if !text.contains(&format!("`{krate}`")) {
            findings.push(Finding::refuse(
                MAP,
                0,
                format!("does not name the crate `{krate}`"),
            ));
        }
    }
    findings
}

/// Every direct dependency has a line about its purpose.
fn dependencies(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.text(DEPENDENCIES) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    let crates: BTreeSet<&str> = tree.manifests.iter().map(|m| m.name.as_str()).collect();
    let names = |m: &Manifest| m.dependencies.clone();
    let all: BTreeSet<String> = tree
        .manifests
        .iter()
        .flat_map(names)
        .map(|d| d.name)
        .collect();
    for name in all.iter().filter(|name| !crates.contains(name.as_str())) {
        let mark = format!("`{name}`");
        let has_line = |line: &str| {
            line.trim_start_matches(['-', '*', '|', ' '])
                .starts_with(&mark)
        };
        if !text.lines().any(has_line) {
            let message =
                format!("has no line for `{name}`: what it is for, and what else was considered");
            findings.push(Finding::refuse(DEPENDENCIES, 0, message));
        }
    }
    findings
}

/// Every version constant of a stored layout appears in the history of the format pages.
fn versions(tree: &Tree) -> Vec<Finding> {
    let Some(history) = tree.text(FORMAT) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    for source in tree.sources.iter().filter(|s| s.krate == "format") {
        for (line, code) in source.code_lines() {
            let Some((name, value)) = code
                .trim()
                .strip_prefix("pub const ")
                .and_then(|c| c.split_once(':'))
            else {
                continue;
            };
            let value = value
                .split_once('=')
                .map(|(_, v)| v.trim().trim_end_matches(';'));
            let stem = source
                .path
                .trim_start_matches("crates/format/src/")
                .trim_end_matches(".rs");
            if name != "VERSION" && !name.ends_with("_VERSION") {
                continue;
            }
            let value = value.unwrap_or_default();
            let row =
                |l: &str| l.contains(&format!("`{stem}`")) && l.contains(&format!("| {value} |"));
            if !history.lines().any(row) {
                let message =
                    format!("{name} = {value} has no line `{stem}` | {value} | in {FORMAT}");
                findings.push(Finding::refuse(&source.path, line, message));
            }
        }
    }
    findings
}

/// Relative links of Markdown files lead to files of the checkout.
fn links(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts.iter().filter(|(path, _)| path.ends_with(".md")) {
        for (line, content) in (1..).zip(text.lines()) {
            for link in content
                .split("](")
                .skip(1)
                .filter_map(|rest| rest.split(')').next())
            {
                let target = link.split('#').next().unwrap_or_default();
                if target.is_empty() || target.contains(':') {
                    continue;
                }
                let target = resolve(path, target);
                if !target.as_deref().is_some_and(|target| tree.has(target)) {
                    findings.push(Finding::refuse(path, line, format!("{link} leads nowhere")));
                }
            }
        }
    }
    findings
}

/// Returns a link as a path from the top; `None` if it leaves the checkout.
fn resolve(from: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.trim_end_matches('/').split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}
