//! Lays the files of a package below a directory.
//!
//! Invariant: only this module says where a file goes, and under which path the units call the
//! program. Modes do not depend on the umask.

use super::Release;
use super::licences;
use super::tools::{output, run};
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The program's path in the units of the sources.
const UNITS_CALL: &str = "/usr/local/bin/quintet";

/// Where things go.
pub struct Place {
    /// The directory that is laid, as an absolute path of the machine.
    prefix: &'static str,
    /// Below the prefix: where zsh finds functions of others.
    zsh: &'static str,
}

/// Of a package of the distribution.
pub const SYSTEM: Place = Place {
    prefix: "/usr",
    zsh: "share/zsh/vendor-completions",
};
/// Of a tarball that the admin unpacks.
pub const LOCAL: Place = Place {
    prefix: "/usr/local",
    zsh: "share/zsh/site-functions",
};

/// Lays everything below `top`, which stands for the prefix.
pub fn lay(release: &Release, place: &Place, top: &Path) -> io::Result<()> {
    if top.exists() {
        std::fs::remove_dir_all(top)?;
    }
    let root = &release.root;
    let program = release.program.canonicalize()?;
    copy(&program, &top.join("bin/quintet"))?;

    let man = top.join("share/man/man1");
    std::fs::create_dir_all(&man)?;
    let pages = man.display().to_string();
    run(root, &program, &["generate", "man", "--to", &pages])?;
    let mut names = vec!["-n9".to_owned()];
    names.extend(files(&man)?.iter().map(|path| path.display().to_string()));
    run(
        root,
        "gzip",
        &names.iter().map(String::as_str).collect::<Vec<_>>(),
    )?;

    let completions = [
        (
            "bash",
            "share/bash-completion/completions/quintet".to_owned(),
        ),
        ("zsh", format!("{}/_quintet", place.zsh)),
        (
            "fish",
            "share/fish/vendor_completions.d/quintet.fish".to_owned(),
        ),
    ];
    for (shell, path) in completions {
        write(
            &top.join(path),
            &output(root, &program, &["generate", shell])?,
        )?;
    }

    for unit in files(&root.join("systemd"))? {
        let text = std::fs::read_to_string(&unit)?;
        let text = text.replace(UNITS_CALL, &format!("{}/bin/quintet", place.prefix));
        let directory = match unit.extension().is_some_and(|e| e == "conf") {
            // A part of a unit, for those who want it.
            true => "share/quintet",
            false => "lib/systemd/system",
        };
        write(&top.join(directory).join(name(&unit)), &text)?;
    }
    for kind in ["sysusers", "tmpfiles"] {
        let from = root.join(format!("packaging/{kind}.conf"));
        copy(&from, &top.join(format!("lib/{kind}.d/quintet.conf")))?;
    }
    for policy in files(&root.join("policies"))? {
        copy(
            &policy,
            &top.join("share/quintet/policies").join(name(&policy)),
        )?;
    }

    let documents = top.join("share/doc/quintet");
    for page in files(&root.join("docs"))? {
        copy(&page, &documents.join("docs").join(name(&page)))?;
    }
    for page in ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"] {
        copy(&root.join(page), &documents.join(page))?;
    }
    let own = "Quintet: MIT or Apache-2.0, as you like: LICENSE-MIT, LICENSE-APACHE.\n\n";
    let copyright = format!("{own}{}", licences::of_libraries(root)?);
    write(&documents.join("copyright"), &copyright)?;
    set_modes(top, &top.join("bin"))
}

fn name(path: &Path) -> PathBuf {
    path.file_name().unwrap_or_default().into()
}

/// Returns the files of a directory, sorted.
fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir_all(to.parent().unwrap_or(to))?;
    std::fs::copy(from, to)
        .map_err(|e| io::Error::other(format!("cannot copy {}: {e}", from.display())))?;
    Ok(())
}

fn write(to: &Path, text: &str) -> io::Result<()> {
    std::fs::create_dir_all(to.parent().unwrap_or(to))?;
    std::fs::write(to, format!("{}\n", text.trim_end()))
}

/// Sets the modes of a tree. Files below `programs` can be run.
fn set_modes(top: &Path, programs: &Path) -> io::Result<()> {
    std::fs::set_permissions(top, Permissions::from_mode(0o755))?;
    for entry in std::fs::read_dir(top)? {
        let path = entry?.path();
        match path.is_dir() {
            true => set_modes(&path, programs)?,
            false => {
                let mode = if path.starts_with(programs) {
                    0o755
                } else {
                    0o644
                };
                std::fs::set_permissions(&path, Permissions::from_mode(mode))?;
            }
        }
    }
    Ok(())
}
