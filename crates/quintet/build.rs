//! Tells the program the commit that it is built from, for `quintet --version`. Cargo runs this
//! before it compiles this crate.
//!
//! Invariant: it never fails a build. Without git, or in a source tree that is no checkout of its
//! own, the commit is unknown. A new commit rebuilds this crate only.

use std::path::Path;
use std::process::Command;

/// Sources of the program, below the top of the checkout.
const SOURCES: [&str; 3] = ["Cargo.toml", "Cargo.lock", "crates"];

fn main() {
    let top = Path::new("../..");
    for source in SOURCES {
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
    let commit = commit(top).unwrap_or_else(|| "unknown commit".to_owned());
    println!("cargo:rustc-env=QUINTET_COMMIT={commit}");
}

fn commit(top: &Path) -> Option<String> {
    // A source tree that lies inside another checkout is not of its commit.
    let checkout = git(top, &["rev-parse", "--show-toplevel"])?;
    if Path::new(&checkout).canonicalize().ok()? != top.canonicalize().ok()? {
        return None;
    }
    let commit = git(top, &["rev-parse", "--short=12", "HEAD"])?;
    let mut status = vec!["--no-optional-locks", "status", "--porcelain", "--"];
    status.extend(SOURCES);
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
