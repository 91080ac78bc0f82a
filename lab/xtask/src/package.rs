//! `cargo xtask package`: makes a Debian package and a tarball with a statically linked program.
//! `main` calls [`run`].
//!
//! Invariant: two runs with one program write the same bytes. Times come from the commit, owners
//! are root, lists are sorted.
//!
//! ```text
//! program (static) --> contents (prefix /usr)       --> deb
//!                  --> contents (prefix /usr/local) --> tarball
//! ```

mod contents;
mod deb;
mod licences;
mod program;
mod tools;

use std::io;
use std::path::{Path, PathBuf};
use tools::{output, run as call};

/// The user's choices.
#[derive(Debug, Default)]
pub struct Request {
    /// The program to pack. `None`: build it.
    pub program: Option<PathBuf>,
    /// Version of the packages. `None`: that of the workspace, and the commit.
    pub version: Option<String>,
    /// Directory for the packages. `None`: `target/package`.
    pub to: Option<PathBuf>,
}

/// Facts that all packages of a run share.
struct Release {
    root: PathBuf,
    version: String,
    /// Seconds since 1970: the time of all files.
    epoch: String,
    program: PathBuf,
}

/// Makes the packages and returns their paths.
pub fn run(root: &Path, request: Request) -> io::Result<Vec<PathBuf>> {
    let to = request.to.unwrap_or_else(|| root.join("target/package"));
    let epoch = epoch(root)?;
    let release = Release {
        root: root.to_owned(),
        version: match request.version {
            Some(version) => version,
            None => version(root, &epoch)?,
        },
        epoch,
        program: match request.program {
            Some(program) => program,
            None => program::build(root)?,
        },
    };
    if !program::is_static(&release.program)? {
        let name = release.program.display();
        eprintln!("warning: {name} is not static: it runs only where its libraries are");
    }
    std::fs::create_dir_all(&to)?;
    let stage = to.join("stage");
    let packages = vec![
        deb::write(&release, &stage, &to)?,
        tarball(&release, &stage, &to)?,
    ];
    std::fs::remove_dir_all(&stage)?;
    Ok(packages)
}

/// Writes the tarball. Its directories go below `/usr/local`.
fn tarball(release: &Release, stage: &Path, to: &Path) -> io::Result<PathBuf> {
    let name = format!(
        "quintet-{}-{}-linux",
        release.version,
        std::env::consts::ARCH
    );
    contents::lay(release, &contents::LOCAL, &stage.join(&name))?;
    let path = to.join(format!("{name}.tar.gz"));
    let archive = path.display().to_string();
    let time = format!("--mtime=@{}", release.epoch);
    let order = [
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--format=gnu",
    ];
    let mut arguments = vec!["--use-compress-program=gzip -n", &time];
    arguments.extend(order);
    arguments.extend(["-cf", &archive, &name]);
    call(stage, "tar", &arguments)?;
    Ok(path)
}

/// Returns the time of the commit, or what the caller wants instead.
fn epoch(root: &Path) -> io::Result<String> {
    match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(epoch) => Ok(epoch),
        Err(_) => output(root, "git", &["show", "-s", "--format=%ct", "HEAD"]).map_err(|e| {
            io::Error::other(format!(
                "{e}; without git set SOURCE_DATE_EPOCH and --version"
            ))
        }),
    }
}

/// Returns the version of the workspace with time and commit, so that later commits are upgrades.
fn version(root: &Path, epoch: &str) -> io::Result<String> {
    let manifest = std::fs::read_to_string(root.join("Cargo.toml"))?;
    let mut values = manifest
        .lines()
        .filter_map(|l| l.strip_prefix("version = "));
    let base = values.next().unwrap_or_default().trim_matches('"');
    let commit = output(root, "git", &["rev-parse", "--short=12", "HEAD"])?;
    let time = output(
        root,
        "date",
        &["-u", "-d", &format!("@{epoch}"), "+%Y%m%d%H%M%S"],
    )?;
    let modified = output(
        root,
        "git",
        &["--no-optional-locks", "status", "--porcelain"],
    )?;
    let modified = if modified.is_empty() { "" } else { ".modified" };
    Ok(format!("{base}+{time}.{commit}{modified}"))
}
