//! The programs that a build made, from the lines that cargo writes with `--message-format=json`.
//!
//! Invariant: a line that is not understood is an error, never a test that is silently left out.

use std::io;
use std::path::{Path, PathBuf};

/// One executable of the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Name of its crate.
    pub package: String,
    /// Name of its target: of the library, the integration test, the program or the example.
    pub target: String,
    /// `lib`, `bin`, `test` or `example`.
    pub kind: String,
    /// Whether it is a test harness.
    pub is_test: bool,
    /// The file.
    pub path: PathBuf,
    /// Directory of the crate, where its tests run.
    pub directory: PathBuf,
}

/// Everything that a build made.
pub struct Programs(pub Vec<Program>);

impl Programs {
    /// Reads the messages of a build.
    pub fn load(path: &Path) -> io::Result<Self> {
        let found = parse(&super::read(path)?).map_err(io::Error::other)?;
        match found.is_empty() {
            true => Err(io::Error::other(format!(
                "{} names no program: build first",
                path.display()
            ))),
            false => Ok(Self(found)),
        }
    }

    /// Returns the program or example of this name.
    pub fn named(&self, name: &str) -> Option<&Path> {
        let found = self.0.iter().find(|p| !p.is_test && p.target == name);
        found.map(|p| p.path.as_path())
    }
}

/// Returns the executables of `text`, a JSON object a line.
pub fn parse(text: &str) -> Result<Vec<Program>, String> {
    let lines = text
        .lines()
        .filter(|line| line.starts_with(r#"{"reason":"compiler-artifact""#));
    let made = lines.filter(|line| !line.contains(r#""executable":null"#));
    // Build scripts are executables as well.
    made.filter(|line| !line.contains(r#""kind":["custom-build"]"#))
        .map(program)
        .collect()
}

fn program(line: &str) -> Result<Program, String> {
    let wrong = |what: &str| format!("a message of cargo has no {what}: {line}");
    let between = |from: &str, to: &str, what: &str| {
        let rest = line.split_once(from).ok_or_else(|| wrong(what))?.1;
        let (value, _) = rest.split_once(to).ok_or_else(|| wrong(what))?;
        // Quotes in paths would need a reader of JSON.
        match value.contains('\\') {
            true => Err(wrong("path without a backslash")),
            false => Ok(value.to_owned()),
        }
    };
    let manifest = PathBuf::from(between(r#""manifest_path":""#, "\"", "manifest")?);
    let directory = manifest
        .parent()
        .ok_or_else(|| wrong("directory"))?
        .to_owned();
    // The id names the crate only if its directory has another name.
    let id = between(r#""package_id":""#, "\"", "package")?;
    let named = id.split_once('#').and_then(|(_, end)| end.split_once('@'));
    let package = match named {
        Some((name, _)) => Some(name),
        None => directory.file_name().and_then(|name| name.to_str()),
    };
    Ok(Program {
        package: package.ok_or_else(|| wrong("crate"))?.to_owned(),
        target: between(r#""name":""#, "\"", "name")?,
        kind: between(r#""kind":[""#, "\"", "kind")?,
        is_test: between(r#""profile":{"#, "}", "profile")?.contains(r#""test":true"#),
        path: between(r#""executable":""#, "\"", "executable")?.into(),
        directory,
    })
}
