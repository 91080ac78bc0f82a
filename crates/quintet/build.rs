//! Tells the program the commit that it is built from, for `quintet --version`. Cargo runs this
//! before it compiles this crate.
//!
//! Invariant: it never fails a build. Without git, or in a source tree that is no checkout of its
//! own, the commit is unknown. A new commit rebuilds this crate only.

use std::path::Path;
use std::process::Command;

fn main() {
    let top = Path::new("../..");
    let sources = sources(top);
    for source in &sources {
        println!("cargo:rerun-if-changed={}", top.join(source).display());
    }
    // Git appends a line to it for each commit and checkout.
    let moves = git(top, &["rev-parse", "--git-path", "logs/HEAD"]);
    if let Some(moves) = moves
        .map(|path| top.join(path))
        .filter(|path| path.exists())
    {
        println!("cargo:rerun-if-changed={}", moves.display());
    }
    let commit = commit(top, &sources).unwrap_or_else(|| "unknown commit".to_owned());
    println!("cargo:rustc-env=QUINTET_COMMIT={commit}");
}

/// Returns the sources of the program, below the top of the checkout. Crates for tests are none.
fn sources(top: &Path) -> Vec<String> {
    let mut sources = vec!["Cargo.toml".to_owned(), "Cargo.lock".to_owned()];
    for entry in std::fs::read_dir(top.join("crates"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let manifest = std::fs::read_to_string(entry.path().join("Cargo.toml"));
        if manifest.is_ok_and(|text| !text.contains("layer = \"dev\"")) {
            sources.push(format!("crates/{}", entry.file_name().display()));
        }
    }
    sources.sort();
    sources
}

fn commit(top: &Path, sources: &[String]) -> Option<String> {
    // A source tree that lies inside another checkout is not of its commit.
    let checkout = git(top, &["rev-parse", "--show-toplevel"])?;
    if Path::new(&checkout).canonicalize().ok()? != top.canonicalize().ok()? {
        return None;
    }
    let commit = git(top, &["rev-parse", "--short=12", "HEAD"])?;
    let mut status = vec!["--no-optional-locks", "status", "--porcelain", "--"];
    status.extend(sources.iter().map(String::as_str));
    Some(match git(top, &status)?.is_empty() {
        true => commit,
        false => format!("{commit}, modified"),
    })
}

/// Returns what git prints, or `None` if it fails or is not there.
fn git(top: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .current_dir(top)
        .args(arguments)
        .output();
    let output = output.ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim_end().to_owned())
}
