//! Checks the directory to mount at. `mounted` calls this.
//!
//! Invariant: a mount over the pool or over a directory that contains it is refused: the server
//! would wait for itself. A mount inside the pool is refused too. An abandoned mount of a killed
//! program is unmounted first.

use super::error::MountingError;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Returns the directory to mount at, absolute and without symbolic links.
/// `over`: it may have files.
pub(super) fn mountpoint(pool: &Path, given: &Path, over: bool) -> Result<PathBuf, MountingError> {
    let place = || given.display().to_string();
    let refused = |source| MountingError::Place {
        place: place(),
        source,
    };
    if fuse::is_abandoned(given) {
        let unmounted = fuse::unmount_abandoned(&std::path::absolute(given)?);
        unmounted.map_err(|source| MountingError::Abandoned {
            place: place(),
            source,
        })?;
    }
    let mountpoint = given.canonicalize().map_err(refused)?;
    let own = mountpoint.metadata().map_err(refused)?;
    if !own.is_dir() {
        return Err(MountingError::NotDirectory(place()));
    }
    let own = (own.dev(), own.ino());
    let mut names = mountpoint.read_dir().map_err(refused)?;
    let is_empty = names.next().is_none();
    // Opening the pool reports a missing pool.
    let Ok(pool) = pool.canonicalize() else {
        return expect_empty(mountpoint, is_empty || over, place);
    };
    if pool.ancestors().any(|above| is_same(above, own)) {
        return Err(MountingError::HidesPool(place()));
    }
    let hit = pool.metadata().map_err(|source| MountingError::Place {
        place: pool.display().to_string(),
        source,
    })?;
    let hit = (hit.dev(), hit.ino());
    if mountpoint.ancestors().any(|above| is_same(above, hit)) {
        return Err(MountingError::InPool(place()));
    }
    expect_empty(mountpoint, is_empty || over, place)
}

fn expect_empty(
    mountpoint: PathBuf,
    is_empty: bool,
    place: impl Fn() -> String,
) -> Result<PathBuf, MountingError> {
    match is_empty {
        true => Ok(mountpoint),
        false => Err(MountingError::NotEmpty(place())),
    }
}

/// Returns true if `path` has this device and inode.
fn is_same(path: &Path, identity: (u64, u64)) -> bool {
    let metadata = path.metadata();
    metadata.is_ok_and(|m| (m.dev(), m.ino()) == identity)
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
            assert!(mountpoint(&pool, &at(refused), true).is_err(), "{refused}");
        }
        assert!(mountpoint(&pool, &at("file"), true).is_err());
        assert!(mountpoint(&pool, &at("nowhere"), true).is_err());
        assert!(mountpoint(&pool, &at("mnt"), false).is_ok());
        assert!(mountpoint(&at("no-pool"), &at("mnt"), false).is_ok());
        std::fs::write(at("mnt/file"), b"").unwrap();
        for pool in [&pool, &at("no-pool")] {
            assert!(mountpoint(pool, &at("mnt"), false).is_err());
            assert!(mountpoint(pool, &at("mnt"), true).is_ok());
        }
    }
}
