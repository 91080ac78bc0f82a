//! Refuses integration tests that no harness runs, and a second harness without need. `check` calls
//! this.
//!
//! A crate has one harness, `tests/main.rs`, because each one is linked with the whole engine. The
//! compiler says nothing of a file beside it that nobody declares: its tests would be lost.

use super::{Finding, Tree};

/// See the module's head.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for manifest in &tree.manifests {
        let directory = manifest.path.replace("Cargo.toml", "tests/");
        let below = |path: &'_ str| path.strip_prefix(&directory).map(str::to_owned);
        let files: Vec<_> = tree.sources.iter().filter_map(|s| below(&s.path)).collect();
        let files: Vec<_> = files.iter().filter(|name| !name.contains('/')).collect();
        let text = tree.text(&manifest.path).unwrap_or_default();
        let is_harness = |name: &str| text.contains(&format!("path = \"tests/{name}\""));
        let main = format!("{directory}main.rs");
        let main = tree.sources.iter().find(|source| source.path == main);
        let is_module = |name: &str| {
            let declared = format!("mod {};", name.trim_end_matches(".rs"));
            main.is_some_and(|main| main.code_lines().any(|(_, code)| code.trim() == declared))
        };
        for name in &files {
            let is_only = files.len() == 1 && main.is_none();
            if is_only || is_harness(name) || (is_harness("main.rs") && is_module(name)) {
                continue;
            }
            let message = "no harness runs this file: declare it in tests/main.rs, which the manifest names as the \
                           test `all`";
            findings.push(Finding::refuse(&format!("{directory}{name}"), 0, message));
        }
    }
    findings
}
