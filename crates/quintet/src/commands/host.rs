//! `host`: hands the command to `host_tools`, and opens the pool for it. [`super::run`] calls this.
//!
//! Invariant: the pool is opened to read, in this process: a server runs no `host` command.

use super::invocation::Invocation;
use super::known_snapshots::KnownSnapshots;
use browsing::choice::{SnapshotFilter, choose};
use browsing::tree::{TreePath, lookup, top};
use format::snapshot::Snapshot;
use format::tree::EntryKind;
use host_tools::{HostCommand, Pools, Snapshots, Stored};
use store::{OpenMode, Pool};
use terminal::exit::Exit;

pub(super) fn run(invocation: &Invocation, command: &HostCommand) -> anyhow::Result<Exit> {
    host_tools::run(invocation, invocation, command)
}

impl Pools for Invocation {
    fn open_to_read(&self) -> anyhow::Result<Pool> {
        self.open_within(OpenMode::Read, self.settings.memory_bytes)
    }

    fn snapshots(&self, pool: &Pool) -> anyhow::Result<Box<dyn Snapshots>> {
        Ok(Box::new(KnownSnapshots::of(self, pool)?))
    }

    fn lookup(&self, pool: &Pool, snapshot: &Snapshot, path: &[u8]) -> anyhow::Result<Stored> {
        let found = lookup(pool.reader(), top(snapshot)?, path)?;
        let entry = match &found {
            TreePath::Top(_) => None,
            TreePath::Entry(entry) => Some(entry),
        };
        Ok(Stored {
            directory: found.directory(),
            device: entry.map(|entry| entry.device),
            is_file: entry.is_some_and(|entry| matches!(entry.kind, EntryKind::File { .. })),
        })
    }
}

impl Snapshots for KnownSnapshots {
    fn readable(&self) -> &[Snapshot] {
        self
    }

    fn named(&self, text: &str) -> anyhow::Result<&Snapshot> {
        choose(self, text, &SnapshotFilter::default())
    }

    fn not_found(&self, why: anyhow::Error) -> anyhow::Error {
        KnownSnapshots::not_found(self, why)
    }

    fn exit_of_all(&self, exit: Exit) -> Exit {
        KnownSnapshots::exit_of_all(self, exit)
    }
}
