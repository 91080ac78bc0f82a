//! Checks that no two modules of a crate import each other, directly or through others. `check`
//! calls this.
//!
//! A module counts with everything below it: `state.rs` and `state/live.rs` are one. Between two
//! files, their first modules that differ count; a file may use the files above and below it. A
//! re-exported name counts as a name of the file that defines it. Tests are ignored.

mod paths;

use super::{Finding, SourceFile, Tree};
use paths::{Import, imports};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of re-exports to follow.
const EXPORTS_MAX: usize = 16;

/// See the module's head.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, Crate<'_>> = BTreeMap::new();
    for source in &tree.sources {
        let is_code = source.path.split('/').nth(2) == Some("src") && !source.is_test;
        if is_code && !source.krate.is_empty() {
            crates.entry(&source.krate).or_default().add(source);
        }
    }
    crates.values().flat_map(Crate::check).collect()
}

/// Files of a crate by module (`a::b`; the root is empty), and their imports.
#[derive(Default)]
struct Crate<'a> {
    files: BTreeMap<String, (&'a SourceFile, Vec<Import>)>,
}

/// The modules beside it that each module uses, and where: a file with a line for each use.
type Edges = BTreeMap<String, BTreeMap<String, Vec<String>>>;

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

    /// Returns the uses between modules that have the same parent.
    fn edges(&self) -> Edges {
        let mut edges = Edges::new();
        for (module, (file, imports)) in &self.files {
            for import in imports {
                let target = self.target(module, &import.path, EXPORTS_MAX);
                if let Some((from, to)) = target.as_deref().and_then(|t| siblings(module, t)) {
                    let place = format!("{}:{}", file.path, import.line);
                    let of = edges.entry(from.to_owned()).or_default();
                    let places = of.entry(to.to_owned()).or_default();
                    if !places.contains(&place) {
                        places.push(place);
                    }
                }
            }
        }
        edges
    }

    fn check(&self) -> Vec<Finding> {
        let edges = self.edges();
        let reached: BTreeMap<&str, _> = edges.keys().map(|m| (&**m, reach(m, &edges))).collect();
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let mut findings = Vec::new();
        for (module, reach) in &reached {
            if seen.contains(module) || !reach.contains(module) {
                continue;
            }
            let back = |other: &str| reached.get(other).is_some_and(|r| r.contains(module));
            let members: Vec<&str> = reach.iter().copied().filter(|m| back(m)).collect();
            seen.extend(&members);
            let uses: Vec<String> = members
                .iter()
                .flat_map(|m| uses(m, &members, &edges))
                .collect();
            let message = format!(
                "modules that use each other, {}: move what they share to a module of its own ({})",
                members.join(", "),
                uses.join("; ")
            );
            let path = self.files.get(*module).map_or("", |(file, _)| &file.path);
            findings.push(Finding::refuse(path, 0, message));
        }
        findings
    }
}

/// Returns words for the uses of other members of a cycle by one.
fn uses(module: &str, members: &[&str], edges: &Edges) -> Vec<String> {
    let used = edges.get(module).into_iter().flatten();
    let used = used.filter(|(other, _)| members.contains(&other.as_str()));
    used.map(|(other, places)| format!("{module} uses {other} in {}", places.join(", ")))
        .collect()
}

/// Returns the first modules on the ways to two modules that differ; `None` if one is above the
/// other, or they are the same.
fn siblings<'m>(one: &'m str, other: &'m str) -> Option<(&'m str, &'m str)> {
    let mut end = 0;
    for (a, b) in one.split("::").zip(other.split("::")) {
        if a != b {
            return Some((one.get(..end + a.len())?, other.get(..end + b.len())?))
                .filter(|_| !a.is_empty() && !b.is_empty());
        }
        end += a.len() + "::".len();
    }
    None
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
