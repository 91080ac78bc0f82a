//! Where to mount.
//!
//! Invariant: over the pool, or what it is in, we would wait for ourselves: refused. What a program
//! that was killed has left there is unmounted first.

use anyhow::{Context, bail};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The directory to mount at, absolute and without links.
pub(super) fn mountpoint(pool: &Path, given: &Path) -> anyhow::Result<PathBuf> {
    let describe = || given.display().to_string();
    if fuse::is_abandoned(given) {
        fuse::unmount_abandoned(&std::path::absolute(given)?).with_context(describe)?;
    }
    let mountpoint = given.canonicalize().with_context(describe)?;
    let own = mountpoint.metadata().with_context(describe)?;
    if !own.is_dir() {
        bail!("{} is not a directory", given.display());
    }
    // A pool that is not there is reported when it is opened.
    let Ok(pool) = pool.canonicalize() else {
        return Ok(mountpoint);
    };
    if pool.ancestors().any(|above| is_same(above, &own)) {
        bail!("the pool is in {}: it would be hidden", given.display());
    }
    let hit = pool
        .metadata()
        .with_context(|| pool.display().to_string())?;
    if mountpoint.ancestors().any(|above| is_same(above, &hit)) {
        bail!("{} is in the pool", given.display());
    }
    Ok(mountpoint)
}

fn is_same(path: &Path, as_this: &Metadata) -> bool {
    let metadata = path.metadata();
    metadata.is_ok_and(|m| (m.dev(), m.ino()) == (as_this.dev(), as_this.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_is_never_hidden() {
        let top = tempfile::tempdir().unwrap();
        let at = |path: &str| top.path().join(path);
        std::fs::create_dir_all(at("srv/pool/containers")).unwrap();
        std::fs::create_dir_all(at("mnt")).unwrap();
        std::fs::write(at("file"), b"").unwrap();
        std::os::unix::fs::symlink("srv", at("link")).unwrap();
        let pool = at("srv/pool");
        for refused in [
            "srv",
            "srv/pool",
            "srv/pool/containers",
            ".",
            "link",
            "link/pool",
        ] {
            assert!(mountpoint(&pool, &at(refused)).is_err(), "{refused}");
        }
        assert!(mountpoint(&pool, &at("file")).is_err());
        assert!(mountpoint(&pool, &at("nowhere")).is_err());
        assert!(mountpoint(&pool, &at("mnt")).is_ok());
        assert!(mountpoint(&at("no-pool"), &at("mnt")).is_ok());
    }
}
