//! Checks that no two files of a crate import each other, directly or through others. `check` calls
//! this.
//!
//! A file may use the files above and below it. A re-exported name counts as a name of the file
//! that defines it. Tests are ignored.
//!
//! Invariant: known import cycles are in a table that may only shrink. A cycle outside the table is
//! refused, and so is an entry whose cycle no longer exists.

mod paths;
mod table;

use super::{Finding, SourceFile, Tree};
use paths::{Import, imports};
use std::collections::{BTreeMap, BTreeSet};
pub use table::CYCLES;

/// Maximum number of re-exports to follow.
const EXPORTS_MAX: usize = 16;

/// See the module's head.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let cycles = cycles(tree);
    let mut findings = Vec::new();
    for cycle in &cycles {
        let members: Vec<&str> = cycle.iter().map(|(member, _)| *member).collect();
        if tree.cycles.contains(&members.as_slice()) {
            continue;
        }
        let edges: Vec<String> = cycle.iter().map(|(_, edge)| edge.clone()).collect();
        let first = members.first().copied().unwrap_or_default();
        let message = format!(
            "files that use each other, {}: move what they share to a file of its own ({})",
            members.join(", "),
            edges.join("; ")
        );
        findings.push(Finding::refuse(first, 0, message));
    }
    for known in tree.cycles {
        let is_known = |c: &Vec<(&str, String)>| c.iter().map(|m| m.0).eq(known.iter().copied());
        if !cycles.iter().any(is_known) {
            let first = known.first().copied().unwrap_or_default();
            let message = "this circle is gone, or smaller: take it out of xtask's CIRCLES";
            findings.push(Finding::refuse(first, 0, message));
        }
    }
    findings
}

/// Returns the sorted paths of the files of each cycle, each with its imports from the others.
fn cycles(tree: &Tree) -> Vec<Vec<(&str, String)>> {
    let mut crates: BTreeMap<&str, Crate<'_>> = BTreeMap::new();
    for source in &tree.sources {
        let is_code = source.path.split('/').nth(2) == Some("src") && !source.is_test;
        if is_code && !source.krate.is_empty() {
            crates.entry(&source.krate).or_default().add(source);
        }
    }
    crates.values().flat_map(Crate::cycles).collect()
}

/// Files of a crate by module (`a::b`; the root is empty), and their imports.
#[derive(Default)]
struct Crate<'a> {
    files: BTreeMap<String, (&'a SourceFile, Vec<Import>)>,
}

/// The modules that each module uses, and the line of the first use.
type Edges = BTreeMap<String, BTreeMap<String, usize>>;

impl<'a> Crate<'a> {
    fn add(&mut self, source: &'a SourceFile) {
        let module = source.module_path().join("::");
        // If there is a library, `main.rs` is another crate.
        if source.path.ends_with("/src/main.rs") && self.files.contains_key(&module) {
            return;
        }
        self.files.insert(module, (source, imports(source)));
    }

    /// Returns the module that a path leads to, as seen from another module.
    fn target(&self, from: &str, path: &[String], steps: usize) -> Option<String> {
        let mut at = String::new();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => rest = path.get(1..)?,
            "self" | "super" => {
                from.clone_into(&mut at);
                while let Some(first @ ("self" | "super")) = rest.first().map(String::as_str) {
                    if first == "super" {
                        at = at
                            .rsplit_once("::")
                            .map_or("", |(above, _)| above)
                            .to_owned();
                    }
                    rest = rest.get(1..)?;
                }
            }
            // A module below, or another crate.
            below => {
                from.clone_into(&mut at);
                self.below(from, below)?;
            }
        }
        while let Some(name) = rest.first() {
            rest = rest.get(1..)?;
            if let Some(below) = self.below(&at, name) {
                at = below;
                continue;
            }
            let (_, imports) = self.files.get(&at)?;
            let exported = imports.iter().find(|i| i.is_item && i.name == *name);
            if let Some(import) = exported.filter(|_| steps > 0) {
                let path: Vec<String> = import.path.iter().chain(rest).cloned().collect();
                // `None` for a name of another crate.
                return self.target(&at, &path, steps - 1);
            }
            break;
        }
        Some(at)
    }

    /// Returns the module of that name inside another.
    fn below(&self, module: &str, name: &str) -> Option<String> {
        let below = match module {
            "" => name.to_owned(),
            above => format!("{above}::{name}"),
        };
        self.files.contains_key(&below).then_some(below)
    }

    /// Returns the imports, except those from files above or below.
    fn edges(&self) -> Edges {
        let edges_of = |(module, (_, imports)): (&String, &(&SourceFile, Vec<Import>))| {
            let mut used = BTreeMap::new();
            for import in imports {
                let target = self.target(module, &import.path, EXPORTS_MAX);
                let beside = |t: &String| !is_above(t, module) && !is_above(module, t);
                if let Some(target) = target.filter(beside) {
                    used.entry(target).or_insert(import.line);
                }
            }
            (module.clone(), used)
        };
        self.files.iter().map(edges_of).collect()
    }

    fn cycles(&self) -> Vec<Vec<(&'a str, String)>> {
        let edges = self.edges();
        let reached: BTreeMap<&str, _> = edges.keys().map(|m| (&**m, reach(m, &edges))).collect();
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let mut cycles = Vec::new();
        for (module, reach) in &reached {
            if seen.contains(module) || !reach.contains(module) {
                continue;
            }
            let back = |other: &str| reached.get(other).is_some_and(|r| r.contains(module));
            let members: Vec<&str> = reach.iter().copied().filter(|m| back(m)).collect();
            seen.extend(&members);
            let member = |module: &&str| self.member(module, &members, &edges);
            let mut cycle: Vec<_> = members.iter().map(member).collect();
            cycle.sort();
            cycles.push(cycle);
        }
        cycles
    }

    /// Returns the path of a module, and its imports from the others of its cycle.
    fn member(&self, module: &str, members: &[&str], edges: &Edges) -> (&'a str, String) {
        let path = self
            .files
            .get(module)
            .map_or("", |(file, _)| file.path.as_str());
        let used = edges.get(module).into_iter().flatten();
        let used = used.filter(|(other, _)| members.contains(&other.as_str()));
        let used: Vec<String> = used
            .map(|(other, line)| format!("{other} (line {line})"))
            .collect();
        (path, format!("{module} uses {}", used.join(", ")))
    }
}

/// Returns true if `other` is below `module`, or the same.
fn is_above(module: &str, other: &str) -> bool {
    let rest = other.strip_prefix(module);
    module.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Returns everything that a module uses, directly or indirectly.
fn reach<'e>(from: &str, edges: &'e Edges) -> BTreeSet<&'e str> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&str> = vec![from];
    while let Some(module) = next.pop() {
        for used in edges.get(module).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(used.as_str()) {
                next.push(used);
            }
        }
    }
    reached
}
