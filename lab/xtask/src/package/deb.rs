//! Writes the Debian package with `dpkg-deb`.
//!
//! Invariant: scripts of the package are those of `packaging`. The package has no configuration
//! files of its own, so an upgrade never asks about one.

use super::Release;
use super::contents;
use super::tools::succeed;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// Writes the package into `to` and returns its path.
pub fn write(release: &Release, stage: &Path, to: &Path) -> io::Result<PathBuf> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let version = &release.version;
    let top = stage.join("deb");
    if top.exists() {
        std::fs::remove_dir_all(&top)?;
    }
    contents::lay(release, &contents::SYSTEM, &top.join("usr"))?;
    let control = top.join("DEBIAN");
    std::fs::create_dir_all(&control)?;
    let kibibytes = kibibytes(&top)?;
    std::fs::write(
        control.join("control"),
        format!(
            "Package: quintet\n\
             Version: {version}\n\
             Architecture: {architecture}\n\
             Maintainer: the authors of Quintet\n\
             Installed-Size: {kibibytes}\n\
             Depends: systemd | systemd-standalone-sysusers, systemd | systemd-standalone-tmpfiles\n\
             Recommends: fuse3\n\
             Suggests: qemu-utils, nbd-client, bash-completion\n\
             Section: admin\n\
             Priority: optional\n\
             Description: deduplicating, encrypted protection store\n \
             Stores disk images, file trees and streams once, and restores them exactly.\n \
             Serves them as writable disks over NBD, iSCSI and FUSE.\n"
        ),
    )?;
    for script in SCRIPTS {
        let path = control.join(script);
        std::fs::copy(release.root.join("packaging").join(script), &path)?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o755))?;
    }
    for directory in [&top, &control] {
        std::fs::set_permissions(directory, Permissions::from_mode(0o755))?;
    }
    std::fs::set_permissions(control.join("control"), Permissions::from_mode(0o644))?;
    let path = to.join(format!("quintet_{version}_{architecture}.deb"));
    let mut dpkg = Command::new("dpkg-deb");
    // Files are newer than the commit, so all get its time.
    dpkg.env("SOURCE_DATE_EPOCH", &release.epoch)
        .args(["--root-owner-group", "-Zgzip", "-z6", "--build"])
        .args([&top, &path]);
    succeed(&mut dpkg).map_err(|e| {
        io::Error::other(format!(
            "{e} (dpkg-deb is in the package dpkg, also on other systems)"
        ))
    })?;
    Ok(path)
}

/// Returns the size of a tree, rounded up for each file, as dpkg wants it.
fn kibibytes(top: &Path) -> io::Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(top)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        sum += match metadata.is_dir() {
            true => kibibytes(&entry.path())?,
            false => metadata.len().div_ceil(1024),
        };
    }
    Ok(sum)
}
