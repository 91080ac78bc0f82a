//! Checks that a crate depends only on crates of lower layers. `check` calls this.
//!
//! Invariant: tests of a crate may also use crates of its own layer and `dev` crates. `dev` crates
//! may use all.

use super::manifest::Layer;
use super::{Finding, Tree};

/// The crates of the program: those that speak to its user.
const PROGRAM: &[&str] = &[
    "unlocking",
    "setup",
    "host_tools",
    "command_line",
    "browsing",
    "image_sources",
    "quintet",
];

/// Restricted dependencies: name, crates that may use it, reason.
const RESTRICTED: [(&str, &[&str], &str); 4] = [
    ("anyhow", PROGRAM, "errors have kinds below the program"),
    ("tokio", &[], "the core is synchronous"),
    ("clap", PROGRAM, "only the program knows the command line"),
    // The terminal's JSON lines are for programs. It stores no byte.
    (
        "serde",
        &["terminal"],
        "stored bytes have layouts, not derived ones",
    ),
];

/// See the module's head.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for manifest in &tree.manifests {
        let path = &manifest.path;
        let Some(layer) = manifest.layer else {
            let message =
                "say where the crate stands: [package.metadata.quintet] layer = n or \"dev\"";
            findings.push(Finding::refuse(path, 0, message));
            continue;
        };
        for dependency in &manifest.dependencies {
            let (line, name) = (dependency.line, &dependency.name);
            if let Some(krate) = tree.manifest(name)
                && let Some(below) = krate.layer
                && !may_use(layer, below, dependency.is_dev)
            {
                let message = format!(
                    "{} ({}) may not use {name} ({}): imports go to lower layers",
                    manifest.name,
                    words(layer),
                    words(below)
                );
                findings.push(Finding::refuse(path, line, message));
            }
            let restricted = RESTRICTED.iter().find(|(other, ..)| other == name);
            if let Some((_, crates, why)) = restricted
                && layer != Layer::Dev
                && !crates.contains(&manifest.name.as_str())
                && !dependency.is_dev
            {
                let message = match crates {
                    [] => format!("no crate may use {name}: {why}"),
                    crates => format!("{name} only in {}: {why}", crates.join(", ")),
                };
                findings.push(Finding::refuse(path, line, message));
            }
        }
    }
    findings
}

fn may_use(user: Layer, used: Layer, for_tests: bool) -> bool {
    match (user, used) {
        (Layer::Dev, _) => true,
        (Layer::Number(_), Layer::Dev) => for_tests,
        (Layer::Number(user), Layer::Number(used)) => used < user || (for_tests && used == user),
    }
}

fn words(layer: Layer) -> String {
    match layer {
        Layer::Dev => "dev".to_owned(),
        Layer::Number(n) => format!("layer {n}"),
    }
}
