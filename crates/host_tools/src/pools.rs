//! The door to the program's pools. `scrub` calls it; the program implements it.
//!
//! Invariant: it only reads. The program asks for passwords, warns of damage, and decides which
//! snapshot a name means, as it does for its other commands.

use format::recipe::ObjectRoot;
use format::snapshot::Snapshot;
use store::Pool;
use terminal::exit::Exit;

/// The program's pools. See the module's head.
pub trait Pools {
    /// Opens the pool that the user named.
    fn open_to_read(&self) -> anyhow::Result<Pool>;

    /// Returns the snapshots of a pool. Warns if some cannot be read.
    fn snapshots(&self, pool: &Pool) -> anyhow::Result<Box<dyn Snapshots>>;

    /// Returns what a snapshot of files has at a path. Fails if it has nothing there.
    fn lookup(&self, pool: &Pool, snapshot: &Snapshot, path: &[u8]) -> anyhow::Result<Stored>;
}

/// The snapshots of a pool.
pub trait Snapshots {
    /// Returns those that can be read, oldest first.
    fn readable(&self) -> &[Snapshot];

    /// Returns the snapshot that the user named.
    fn named(&self, text: &str) -> anyhow::Result<&Snapshot>;

    /// Returns the error of a search that found nothing. It is one of corruption if what was
    /// searched for may be among snapshots that cannot be read.
    fn not_found(&self, why: anyhow::Error) -> anyhow::Error;

    /// Returns the exit code of a command whose answer depends on all snapshots.
    fn exit_of_all(&self, exit: Exit) -> Exit;
}

/// An entry of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Contents of a directory. `None` for anything else.
    pub directory: Option<ObjectRoot>,
    /// The device that it was on. `None` for the top, which has no entry.
    pub device: Option<u64>,
    /// It is a regular file.
    pub is_file: bool,
}
