//! Checks that a crate depends only on crates of lower layers. `check` calls this.
//!
//! Invariant: tests of a crate may also use crates of its own layer and `dev` crates. `dev` crates
//! may use all.

use super::manifest::Floor;
use super::{Finding, Tree};

/// Restricted dependencies: name, lowest layer, reason.
const RESTRICTED: [(&str, u32, &str); 4] = [
    ("anyhow", 7, "errors have kinds below the program"),
    ("tokio", 7, "the core is synchronous"),
    ("clap", 7, "only the program knows the command line"),
    ("serde", 7, "stored bytes have layouts, not derived ones"),
];

/// See the module's head.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for manifest in &tree.manifests {
        let path = &manifest.path;
        let Some(floor) = manifest.floor else {
            let message = "say where the room stands: [package.metadata.room] floor = n or \"dev\"";
            findings.push(Finding::refuse(path, 0, message));
            continue;
        };
        for dependency in &manifest.dependencies {
            let (line, name) = (dependency.line, &dependency.name);
            if let Some(room) = tree.manifest(name)
                && let Some(below) = room.floor
                && !may_use(floor, below, dependency.is_dev)
            {
                let message = format!(
                    "{} ({}) may not use {name} ({}): imports go to lower floors",
                    manifest.name,
                    words(floor),
                    words(below)
                );
                findings.push(Finding::refuse(path, line, message));
            }
            let restricted = RESTRICTED
                .iter()
                .find(|(restricted, ..)| restricted == name);
            if let Some((_, from, why)) = restricted
                && matches!(floor, Floor::Number(n) if n < *from)
                && !dependency.is_dev
            {
                let message = format!("{name} only from floor {from} up: {why}");
                findings.push(Finding::refuse(path, line, message));
            }
        }
    }
    findings
}

fn may_use(who: Floor, whom: Floor, for_tests: bool) -> bool {
    match (who, whom) {
        (Floor::Dev, _) => true,
        (Floor::Number(_), Floor::Dev) => for_tests,
        (Floor::Number(who), Floor::Number(whom)) => whom < who || (for_tests && whom == who),
    }
}

fn words(floor: Floor) -> String {
    match floor {
        Floor::Dev => "dev".to_owned(),
        Floor::Number(n) => format!("floor {n}"),
    }
}
