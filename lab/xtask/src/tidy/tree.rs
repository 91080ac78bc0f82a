//! The files that rules examine, in memory.
//!
//! Invariant: no rule reads a file itself; samples of the canaries are trees too.

use super::lexer::{self, Lexed};
use super::manifest::Manifest;
use std::collections::BTreeSet;
use std::path::Path;

/// Directories without files of this project.
const SKIPPED: [&str; 6] = [
    ".git",
    "target",
    "corpus",
    "artifacts",
    "__pycache__",
    "node_modules",
];
/// Longer files are data.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A Rust file, with its comments and its code separated.
pub struct SourceFile {
    /// Relative to the checkout, with `/`.
    pub path: String,
    /// The unchanged text.
    pub text: String,
    /// Comments, strings and tests.
    pub lexed: Lexed,
    /// The crate of the file (`crates/CRATE/...`, `lab/CRATE/...`), else empty.
    pub krate: String,
    /// Only compiled for tests, examples or benchmarks.
    pub is_test: bool,
}

/// A checkout, or a sample of one.
#[derive(Default)]
pub struct Tree {
    /// All Rust files.
    pub sources: Vec<SourceFile>,
    /// Manifests of the crates.
    pub manifests: Vec<Manifest>,
    /// All other text files: path and contents.
    pub texts: Vec<(String, String)>,
    /// Directories of this machine, which no committed file may name.
    pub private_paths: Vec<String>,
}

impl Tree {
    /// Reads a checkout.
    pub fn load(root: &Path) -> std::io::Result<Self> {
        let mut files = Vec::new();
        collect(root, "", &mut files)?;
        files.sort();
        let mut tree = Self::of(files);
        tree.private_paths = private_paths(root);
        Ok(tree)
    }

    /// Creates a tree from paths and contents.
    pub fn of(files: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut tree = Self::default();
        for (path, text) in files {
            if path.ends_with(".rs") {
                tree.sources.push(SourceFile::new(path, text));
                continue;
            }
            let has_crates = ["crates/", "lab/", "fuzz/replay/"];
            let is_of_crate = has_crates.iter().any(|start| path.starts_with(start));
            if is_of_crate && path.ends_with("/Cargo.toml") {
                tree.manifests.push(Manifest::parse(&path, &text));
            }
            tree.texts.push((path, text));
        }
        tree.mark_test_modules();
        tree
    }

    /// Returns the paths of all files.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let texts = self.texts.iter().map(|(path, _)| path.as_str());
        texts.chain(self.sources.iter().map(|source| source.path.as_str()))
    }

    /// Returns true if a path is that of a file, or of a directory with files.
    pub fn has(&self, path: &str) -> bool {
        let below = format!("{path}/");
        self.paths()
            .any(|known| known == path || known.starts_with(&below))
    }

    /// Returns the contents of a text file.
    pub fn text(&self, path: &str) -> Option<&str> {
        let found = self.texts.iter().find(|(p, _)| p == path);
        found.map(|(_, text)| text.as_str())
    }

    /// Returns the manifest of a crate.
    pub fn manifest(&self, krate: &str) -> Option<&Manifest> {
        self.manifests.iter().find(|m| m.name == krate)
    }

    /// Marks files of `#[cfg(test)] mod name;`, and files below them, as tests.
    fn mark_test_modules(&mut self) {
        let mut stems = BTreeSet::new();
        for source in &self.sources {
            let parent = source.module_directory();
            stems.extend(
                source
                    .lexed
                    .test_modules
                    .iter()
                    .map(|m| format!("{parent}/{m}")),
            );
        }
        for source in &mut self.sources {
            source.is_test |= stems.iter().any(|stem| {
                source
                    .path
                    .strip_prefix(stem.as_str())
                    .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
            });
        }
    }
}

impl SourceFile {
    fn new(path: String, text: String) -> Self {
        let parts: Vec<&str> = path.split('/').collect();
        let krate = match parts.as_slice() {
            ["crates" | "lab", krate, ..] => (*krate).to_owned(),
            ["fuzz", "replay", ..] => "fuzz_replay".to_owned(),
            _ => String::new(),
        };
        let is_test = parts
            .iter()
            .any(|p| matches!(*p, "tests" | "tests.rs" | "examples" | "benches" | "fuzz"));
        let lexed = lexer::lex(&text);
        Self {
            path,
            text,
            lexed,
            krate,
            is_test,
        }
    }

    /// Returns the directory of its submodules: beside `lib.rs`, `main.rs` and `mod.rs`, else its
    /// own one.
    fn module_directory(&self) -> &str {
        let stem = self.path.strip_suffix(".rs").unwrap_or(&self.path);
        match stem.rsplit_once('/') {
            Some((parent, "lib" | "main" | "mod")) => parent,
            _ => stem,
        }
    }

    /// Names of its modules from the root of the crate; empty for the root itself.
    pub fn module_path(&self) -> Vec<&str> {
        let below = self.module_directory().splitn(4, '/').nth(3);
        below.map(|p| p.split('/').collect()).unwrap_or_default()
    }

    /// Lines of code with their number from 1; comments and strings are blank.
    pub fn code_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.lexed.code.lines())
    }

    /// Returns true if the line is only compiled for tests.
    pub fn is_test_line(&self, line: usize) -> bool {
        self.is_test
            || self
                .lexed
                .test_lines
                .iter()
                .any(|range| range.contains(&line))
    }
}

fn collect(root: &Path, below: &str, into: &mut Vec<(String, String)>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(root.join(below))? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let path = if below.is_empty() {
            name.clone()
        } else {
            format!("{below}/{name}")
        };
        let kind = entry.file_type()?;
        if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
            collect(root, &path, into)?;
        } else if kind.is_file() && entry.metadata()?.len() <= FILE_BYTES_MAX {
            // Files that are not text are data, and no rule is about data.
            if let Ok(text) = String::from_utf8(std::fs::read(entry.path())?) {
                into.push((path, text));
            }
        }
    }
    Ok(())
}

/// Returns the checkout itself, the directories above it, and the user's home. Leaves out paths of
/// one name, which a text may have for other reasons (`/home`, `/work`).
fn private_paths(root: &Path) -> Vec<String> {
    let root = std::fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
    let home = std::env::var_os("HOME").map(std::path::PathBuf::from);
    let mut paths: Vec<String> = root
        .ancestors()
        .chain(home.as_deref())
        .filter(|p| p.components().count() > 2)
        .filter_map(|p| p.to_str().map(|p| format!("{p}/")))
        .collect();
    paths.sort();
    paths.dedup();
    paths
}
