//! Resolves the arguments of a scrub: the snapshot, the path in it, and the record of an
//! interrupted scrub. [`super::run`] calls this.
//!
//! Invariant: without `--snapshot` it is the newest snapshot of the host that has the path, or the
//! one that an interrupted scrub began with, as long as that exists.

use crate::arguments::HostScrubArgs;
use crate::pools::{Pools, Stored};
use anyhow::{Context, bail};
use archive::selection::Patterns;
use format::bytes::checksum;
use format::host_scrub::{HOST_SCRUB_BYTES_MAX, HostScrubRecord};
use format::snapshot::{Snapshot, SnapshotKind};
use host_tasks::Top;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use store::Pool;
use terminal::calendar;
use terminal::exit::Exit;
use terminal::latest::latest;
use terminal::names::short_id;
use terminal::paths::absolute;
use terminal::shell::Shell;
use units::UnixNanos;
use unlocking::CacheFile;

/// Subdirectory of the cache directory.
const DIR: &str = "host-scrub";

/// See the module's head.
pub(super) struct Choice {
    /// The scrubbed path.
    pub path: PathBuf,
    /// The directory below which findings have their paths.
    pub top_path: PathBuf,
    pub top: Top,
    pub excludes: Patterns,
    pub snapshot: Snapshot,
    /// A newer snapshot than that of the interrupted scrub.
    pub newer: Option<String>,
    file: Option<CacheFile>,
    begin: HostScrubRecord,
    is_latest: bool,
    doubt: Exit,
}

impl Choice {
    pub fn of(
        shell: &Shell,
        pools: &dyn Pools,
        args: &HostScrubArgs,
        pool: &Pool,
    ) -> anyhow::Result<Self> {
        let path = absolute(&args.path)?;
        let bytes = path.as_os_str().as_bytes();
        let id = pool.config().pool;
        let name = blake3::hash(&[&id.0[..], bytes].concat()).to_hex();
        let environment = &shell.context.environment;
        let file = CacheFile::of(DIR, name.as_str(), environment)?;
        let stored = file
            .as_ref()
            .and_then(|file| file.read(HOST_SCRUB_BYTES_MAX));
        let stored = stored.and_then(|bytes| HostScrubRecord::decode(&bytes, id).ok());
        let stored = stored.filter(|record| record.path == bytes && !args.restart);

        let snapshots = pools.snapshots(pool)?;
        let host = shell.host(args.host.as_deref());
        let newest = match &args.snapshot {
            Some(text) => snapshots.named(text),
            None => {
                let newest = newest(snapshots.readable(), &host, &path);
                newest.with_context(|| {
                    format!(
                        "no snapshot of host {host} has {}: back it up first (quintet backup), or name \
                         the snapshot (--snapshot) or its host (--host)",
                        path.display()
                    )
                })
            }
        };
        let newest = newest.map_err(|why| snapshots.not_found(why))?;
        let begun = stored.as_ref().filter(|_| args.snapshot.is_none());
        let begun = begun.and_then(|record| {
            snapshots
                .readable()
                .iter()
                .find(|s| s.id == record.snapshot)
        });
        let snapshot = begun.unwrap_or(newest);
        let (top, top_path) = find(pools, pool, snapshot, &path, args.one_file_system)?;

        let mut excludes = Patterns::default();
        let mut options = [&snapshot.id.0[..], bytes, &[u8::from(args.one_file_system)]].concat();
        for pattern in &args.exclude {
            excludes.add(pattern.as_bytes(), false)?;
            options.push(0);
            options.extend(pattern.as_bytes());
        }
        let options = checksum(0, &options);
        let stored = stored.filter(|r| r.snapshot == snapshot.id && r.options == options);
        let begin = stored.unwrap_or_else(|| HostScrubRecord {
            pool: id,
            snapshot: snapshot.id,
            options,
            began: pool.now(),
            path: bytes.to_vec(),
            ..HostScrubRecord::default()
        });
        Ok(Self {
            top_path,
            top,
            excludes,
            newer: (newest.id != snapshot.id).then(|| short_id(newest)),
            file,
            begin,
            is_latest: args.snapshot.is_none(),
            doubt: snapshots.exit_of_all(Exit::Done),
            snapshot: snapshot.clone(),
            path,
        })
    }

    /// Returns the record to begin with.
    pub fn record(&self) -> HostScrubRecord {
        self.begin.clone()
    }

    /// When the scrub began.
    pub fn began(&self) -> UnixNanos {
        self.begin.began
    }

    /// Returns the snapshot's id and time.
    pub fn called(&self, shell: &Shell) -> String {
        let time = calendar::local(self.snapshot.taken, &shell.zone);
        format!("{} of {time}", short_id(&self.snapshot))
    }

    /// Records the progress.
    pub fn save(&self, record: &HostScrubRecord) -> io::Result<()> {
        match &self.file {
            Some(file) => file.write(&record.encode()),
            None => Err(io::Error::other("there is no cache directory")),
        }
    }

    /// The scrub is complete.
    pub fn forget(&self) {
        if let Some(file) = &self.file {
            file.remove();
        }
    }

    /// The newest snapshot may be one that cannot be read.
    pub fn exit_of(&self, exit: Exit) -> Exit {
        match exit {
            Exit::Done | Exit::Partly if self.is_latest && self.doubt != Exit::Done => self.doubt,
            exit => exit,
        }
    }
}

/// Returns the newest tree of a host that was made of a path at or above this one.
fn newest<'s>(snapshots: &'s [Snapshot], host: &str, path: &Path) -> Option<&'s Snapshot> {
    let has = |stored: &Vec<u8>| path.starts_with(Path::new(OsStr::from_bytes(stored)));
    let fits =
        |s: &&Snapshot| s.kind == SnapshotKind::Tree && s.host == host && s.paths.iter().any(has);
    latest(snapshots.iter().filter(fits))
}

/// Finds a path in a snapshot. Also returns the directory below which the tree has its paths.
fn find(
    pools: &dyn Pools,
    pool: &Pool,
    snapshot: &Snapshot,
    path: &Path,
    one_file_system: bool,
) -> anyhow::Result<(Top, PathBuf)> {
    let lookup = |path: &Path| pools.lookup(pool, snapshot, path.as_os_str().as_bytes());
    let Stored {
        directory,
        device,
        is_file,
    } = lookup(path)?;
    if let Some(content) = directory {
        let of_path = || path.metadata().map_or(0, |found| found.dev());
        let one_device = one_file_system.then(|| device.unwrap_or_else(of_path));
        let directory = Top::Directory {
            path: path.to_owned(),
            content,
            one_device,
        };
        return Ok((directory, path.to_owned()));
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        bail!("{} is not a file", path.display());
    };
    if !is_file {
        bail!(
            "{} is neither a file nor a directory in the snapshot; a path through links is stored without them",
            path.display()
        );
    }
    let directory = lookup(parent)?.directory;
    let top = Top::File {
        directory: parent.to_owned(),
        content: directory.context("the file has no directory in the snapshot")?,
        name: name.as_bytes().to_vec(),
    };
    Ok((top, parent.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(number: u8, host: &str, paths: &[&str]) -> Snapshot {
        let (id, taken) = (units::SnapshotId([number; 16]), UnixNanos(number.into()));
        let root = format::recipe::ObjectRoot::EMPTY;
        Snapshot {
            host: host.to_owned(),
            paths: paths.iter().map(|p| p.as_bytes().to_vec()).collect(),
            ..Snapshot::new(id, taken, SnapshotKind::Tree, root)
        }
    }

    #[test]
    fn the_newest_that_has_the_path() {
        let all = [
            snapshot(1, "a", &["/srv", "/home"]),
            snapshot(2, "a", &["/srv/db"]),
            snapshot(3, "b", &["/srv"]),
            snapshot(4, "a", &["/srvx"]),
        ];
        let number = |host, path| newest(&all, host, Path::new(path)).map(|s| s.id.0[0]);
        assert_eq!(number("a", "/srv"), Some(1));
        assert_eq!(number("a", "/srv/db/x"), Some(2));
        assert_eq!(number("a", "/srv/other"), Some(1));
        assert_eq!(number("b", "/srv/db"), Some(3));
        assert_eq!(number("a", "/"), None);
        assert_eq!(number("c", "/srv"), None);
    }
}
