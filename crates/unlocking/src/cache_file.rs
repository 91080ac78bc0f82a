//! Small files in the user's cache directory: remembered pools, progress of scrubs of this machine.
//! `known_pools` and `quintet host scrub` call this.
//!
//! Invariant: files have mode 0600 in our own directory of mode 0700, and are replaced atomically.
//! A directory of another user is not written, and no link is followed.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use terminal::environment::{Environment, SettingError};

/// A file. See the module's head.
#[derive(Clone, Debug)]
pub struct CacheFile {
    path: PathBuf,
}

impl CacheFile {
    /// Returns the file of this name in a subdirectory of the cache directory; `None` if there is
    /// no cache directory. That is `QUINTET_CACHE_DIR`, else `XDG_CACHE_HOME/quintet`, else
    /// `HOME/.cache/quintet`. A relative `QUINTET_CACHE_DIR` is refused.
    pub fn of(
        subdirectory: &str,
        name: &str,
        environment: &Environment,
    ) -> Result<Option<Self>, SettingError> {
        let dir = cache_dir(environment)?;
        Ok(dir.map(|dir| Self {
            path: dir.join(subdirectory).join(name),
        }))
    }

    /// Its path.
    #[cfg(test)]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the bytes; `None` if there are none, or more than `limit`.
    pub fn read(&self, limit: u64) -> Option<Vec<u8>> {
        let no_links = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(no_links.bits().cast_signed())
            .open(&self.path);
        let mut bytes = Vec::new();
        let mut limited = opened.ok()?.take(limit + 1);
        limited.read_to_end(&mut bytes).ok()?;
        (bytes.len() as u64 <= limit).then_some(bytes)
    }

    /// Removes the file, if it is there.
    pub fn remove(&self) {
        let _ = std::fs::remove_file(&self.path);
    }

    /// Replaces the file.
    pub fn write(&self, bytes: &[u8]) -> std::io::Result<()> {
        let file = &self.path;
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
