//! Remembers pools on this machine, in one file for each directory of a pool, in the user's cache
//! directory. `commands::unlocking` calls this.
//!
//! Invariant: a party that can write the pool cannot write these files, so the user notices changes
//! that it makes. Files have mode 0600 in our own directory of mode 0700, and are replaced
//! atomically. If the directory is missing, read-only or of another user, nothing is remembered,
//! and that is no error.

use format::known::{KNOWN_BYTES_MAX, KnownPool};
use server::settings::{Environment, SettingError};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Subdirectory of the cache directory.
const DIR: &str = "pools";

/// The memory of one directory.
#[derive(Clone, Debug)]
pub struct KnownPlace {
    /// Canonical path of the pool's directory.
    place: Vec<u8>,
    /// `None` if nothing can be remembered.
    file: Option<PathBuf>,
}

impl KnownPlace {
    /// Opens the memory of the pool in this directory. The cache directory is `QUINTET_CACHE_DIR`,
    /// else `XDG_CACHE_HOME/quintet`, else `HOME/.cache/quintet`. A relative `QUINTET_CACHE_DIR` is
    /// refused.
    pub fn of(pool: &Path, environment: &Environment) -> Result<Self, SettingError> {
        let place = match pool.canonicalize() {
            Ok(path) => path.as_os_str().as_bytes().to_vec(),
            Err(_) => pool.as_os_str().as_bytes().to_vec(),
        };
        let name = blake3::hash(&place).to_hex();
        let file = cache_dir(environment)?.map(|dir| dir.join(DIR).join(name.as_str()));
        let fits = place.len() as u64 + 1024 < KNOWN_BYTES_MAX;
        Ok(Self {
            place,
            file: file.filter(|_| fits),
        })
    }

    /// Returns the remembered state. `None` if there is none or it cannot be read.
    pub fn recall(&self) -> Option<KnownPool> {
        let file = self.file.as_ref()?;
        let no_links = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(no_links.bits().cast_signed())
            .open(file);
        let mut bytes = Vec::new();
        let mut limited = opened.ok()?.take(KNOWN_BYTES_MAX + 1);
        limited.read_to_end(&mut bytes).ok()?;
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
            let _ = self.write(&known.encode());
        }
    }

    fn write(&self, bytes: &[u8]) -> std::io::Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let dir = file.parent().unwrap_or(Path::new("/"));
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(dir)?;
        // Do not write into a directory of another user or through a link.
        let metadata = dir.symlink_metadata()?;
        if !metadata.is_dir() || metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(std::io::ErrorKind::PermissionDenied.into());
        }
        let unfinished = file.with_extension(std::process::id().to_string());
        let mut new = OpenOptions::new();
        let written = new
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&unfinished)
            .and_then(|mut file: File| {
                file.write_all(bytes)?;
                file.sync_all()
            })
            .and_then(|()| std::fs::rename(&unfinished, file));
        if written.is_err() {
            let _ = std::fs::remove_file(&unfinished);
        }
        written
    }
}

fn cache_dir(environment: &Environment) -> Result<Option<PathBuf>, SettingError> {
    const NAME: &str = "QUINTET_CACHE_DIR";
    let absolute = |name| environment.value(name).map(PathBuf::from);
    if let Some(dir) = absolute(NAME) {
        return match dir.is_absolute() {
            true => Ok(Some(dir)),
            false => Err(SettingError::new(NAME, "it is not an absolute path")),
        };
    }
    // The XDG specification says that a relative XDG_CACHE_HOME counts as unset.
    let xdg = absolute("XDG_CACHE_HOME").filter(|dir| dir.is_absolute());
    let home = absolute("HOME").filter(|dir| dir.is_absolute());
    let dir = xdg.or(home.map(|home| home.join(".cache")));
    Ok(dir.map(|dir| dir.join("quintet")))
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
        let file = place.file.clone().unwrap();
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
