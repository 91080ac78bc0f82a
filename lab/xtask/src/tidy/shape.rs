//! Checks the shape of files and crates: a head, a bounded length, and reasons for `unsafe`.
//! `check` calls this.
//!
//! Invariant: tests may lack a head and may import with `*`.

use super::{Finding, SourceFile, Tree};

/// Longer files get a warning.
const LINES_WARNED: usize = 300;
/// Longer files are refused.
const LINES_MAX: usize = 600;
/// Larger crates are refused. All Rust files of a crate count, its tests too (decision 33).
const CRATE_LINES_MAX: usize = 16_000;

/// See the module's head.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &tree.sources {
        findings.extend(opening(source));
        findings.extend(length(source));
        findings.extend(unsafe_without_reason(source));
        findings.extend(forbids_unsafe(source, tree));
        findings.extend(stars(source));
    }
    findings.extend(crates(tree));
    findings
}

fn crates(tree: &Tree) -> Vec<Finding> {
    let refuse = |manifest: &super::manifest::Manifest| {
        let files = tree.sources.iter().filter(|s| s.krate == manifest.name);
        let lines: usize = files.map(|source| source.text.lines().count()).sum();
        let message = format!(
            "{lines} lines in the crate's Rust files; at most {CRATE_LINES_MAX}: move a whole topic \
             to the crate where it belongs, or to its own"
        );
        (lines > CRATE_LINES_MAX).then(|| Finding::refuse(&manifest.path, 0, message))
    };
    tree.manifests.iter().filter_map(refuse).collect()
}

fn opening(source: &SourceFile) -> Option<Finding> {
    let said = source
        .text
        .strip_prefix("//!")
        .and_then(|t| t.lines().next());
    let said = said.map(str::trim).unwrap_or_default();
    let only_tests = source.is_test && source.path.ends_with("tests.rs");
    if only_tests || said.len() >= 10 {
        return None;
    }
    let message = "opens with `//!`: purpose, invariant, who calls it";
    Some(Finding::refuse(&source.path, 1, message))
}

fn length(source: &SourceFile) -> Option<Finding> {
    let lines = source.text.lines().count();
    let message = format!("{lines} lines: split it by what changes together");
    match lines {
        n if n > LINES_MAX => Some(Finding::refuse(&source.path, 0, message)),
        n if n > LINES_WARNED => Some(Finding::warn(&source.path, 0, message)),
        _ => None,
    }
}

/// `unsafe` needs a `SAFETY:` comment on its line or directly above it.
fn unsafe_without_reason(source: &SourceFile) -> Vec<Finding> {
    let comments: Vec<&str> = source.lexed.comments.lines().collect();
    let code: Vec<&str> = source.lexed.code.lines().collect();
    let has_reason = |line: usize| {
        let says = |n: usize| comments.get(n).is_some_and(|c| c.contains("SAFETY"));
        let above = (0..line - 1).rev().take_while(|n| {
            let code = code.get(*n).map(|c| c.trim()).unwrap_or_default();
            let comment = comments.get(*n).map(|c| c.trim()).unwrap_or_default();
            code.starts_with("#[") || (code.is_empty() && !comment.is_empty())
        });
        says(line - 1) || above.into_iter().any(says)
    };
    let mut findings = Vec::new();
    for (line, code) in source.code_lines() {
        let words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
        if words.clone().any(|w| w == "unsafe") && !has_reason(line) {
            let message = "unsafe without a `// SAFETY:` comment that says why it is sound";
            findings.push(Finding::refuse(&source.path, line, message));
        }
    }
    findings
}

/// A crate without `unsafe` forbids it, so that its first use is a decision.
fn forbids_unsafe(source: &SourceFile, tree: &Tree) -> Option<Finding> {
    let of_crate = source.path.split_once("/src/");
    let (directory, _) = of_crate.filter(|_| !source.krate.is_empty())?;
    let root = format!("{directory}/src/");
    let is_library = source.path == format!("{root}lib.rs");
    let has_library = tree
        .sources
        .iter()
        .any(|s| s.path == format!("{root}lib.rs"));
    let is_root = is_library || (!has_library && source.path == format!("{root}main.rs"));
    let uses = |s: &SourceFile| {
        let code = s.lexed.code.replace("unsafe_code", "");
        s.path.starts_with(&root) && code.contains("unsafe")
    };
    if !is_root
        || source.lexed.code.contains("forbid(unsafe_code)")
        || tree.sources.iter().any(uses)
    {
        return None;
    }
    Some(Finding::refuse(
        &source.path,
        1,
        "#![forbid(unsafe_code)] can stand here",
    ))
}

/// `use super::*` hides imports; unit tests may use it.
fn stars(source: &SourceFile) -> Vec<Finding> {
    let hidden = |(line, code): &(usize, &str)| {
        let stars = ["use super::*", "use crate::*"];
        stars.iter().any(|s| code.contains(s)) && !source.is_test_line(*line)
    };
    let found = source.code_lines().filter(hidden);
    found
        .map(|(line, _)| Finding::refuse(&source.path, line, "name what is imported"))
        .collect()
}
