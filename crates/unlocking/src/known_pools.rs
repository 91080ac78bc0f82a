//! Remembers pools on this machine, in one file for each directory of a pool, in the user's cache
//! directory. `Door` and `Visit` call this.
//!
//! Invariant: a party that can write the pool cannot write these files, so the user notices changes
//! that it makes. If nothing can be stored there, nothing is remembered, and that is no error.

use crate::cache_file::CacheFile;
use format::known::{KNOWN_BYTES_MAX, KnownPool};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use terminal::environment::{Environment, SettingError};

/// Subdirectory of the cache directory.
const DIR: &str = "pools";

/// The memory of one directory.
#[derive(Clone, Debug)]
pub struct KnownPlace {
    /// Canonical path of the pool's directory.
    place: Vec<u8>,
    /// `None` if nothing can be remembered.
    file: Option<CacheFile>,
}

impl KnownPlace {
    /// Opens the memory of the pool in this directory.
    pub fn of(pool: &Path, environment: &Environment) -> Result<Self, SettingError> {
        let place = match pool.canonicalize() {
            Ok(path) => path.as_os_str().as_bytes().to_vec(),
            Err(_) => pool.as_os_str().as_bytes().to_vec(),
        };
        let name = blake3::hash(&place).to_hex();
        let file = CacheFile::of(DIR, name.as_str(), environment)?;
        let fits = place.len() as u64 + 1024 < KNOWN_BYTES_MAX;
        Ok(Self {
            place,
            file: file.filter(|_| fits),
        })
    }

    /// Returns the remembered state. `None` if there is none or it cannot be read.
    pub fn recall(&self) -> Option<KnownPool> {
        let bytes = self.file.as_ref()?.read(KNOWN_BYTES_MAX)?;
        let known = KnownPool::decode(&bytes).ok()?;
        (known.place == self.place).then_some(known)
    }

    /// Remembers a state, if that is possible. An older state of the same pool replaces a newer one
    /// only if `accept_older`.
    pub fn remember(&self, mut known: KnownPool, accept_older: bool) {
        known.place.clone_from(&self.place);
        let before = self.recall();
        let is_newer = |before: &KnownPool| {
            before.pool != known.pool
                || before.seal != known.seal
                || before.generation < known.generation
        };
        if accept_older || before.as_ref().is_none_or(is_newer) {
            // The file is a cache: errors are ignored.
            let _ = self.file.as_ref().map(|file| file.write(&known.encode()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use format::config::Seal;
    use std::os::unix::fs::PermissionsExt;
    use units::{Generation, PoolId, UnixNanos};

    fn known(generation: u64) -> KnownPool {
        KnownPool {
            pool: PoolId([3; 16]),
            generation: Generation(generation),
            seen: UnixNanos(1),
            seal: Seal::Aes256Gcm,
            place: Vec::new(),
        }
    }

    #[test]
    fn the_highest_generation_stays_unless_an_older_one_is_accepted() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("deep/cache");
        let cache = cache.to_str().unwrap();
        let environment = Environment::of(&[("QUINTET_CACHE_DIR", cache)]);
        let place = KnownPlace::of(dir.path(), &environment).unwrap();
        assert_eq!(place.recall(), None);
        let seen = || place.recall().unwrap().generation.0;
        place.remember(known(5), false);
        place.remember(known(4), false);
        assert_eq!(seen(), 5);
        place.remember(known(4), true);
        assert_eq!(seen(), 4);
        let file = place.file.clone().unwrap().path().to_owned();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
        std::fs::write(&file, b"torn").unwrap();
        assert_eq!(place.recall(), None);
        place.remember(known(2), false);
        assert_eq!(seen(), 2);
    }

    #[test]
    fn where_nothing_can_be_remembered_nothing_fails() {
        let nowhere = KnownPlace::of(Path::new("/srv/pool"), &Environment::of(&[])).unwrap();
        nowhere.remember(known(1), false);
        assert_eq!(nowhere.recall(), None);
        let environment = Environment::of(&[("HOME", "/proc/1/nothing")]);
        let place = KnownPlace::of(Path::new("/srv/pool"), &environment).unwrap();
        place.remember(known(1), false);
        assert_eq!(place.recall(), None);
        let environment = Environment::of(&[("QUINTET_CACHE_DIR", "relative")]);
        assert!(KnownPlace::of(Path::new("/srv/pool"), &environment).is_err());
    }
}
