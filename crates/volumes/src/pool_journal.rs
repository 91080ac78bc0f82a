//! Opens the journal of a pool.
//!
//! [`Volumes::open`] calls this.
//! Invariant: the journal is opened only after all roots are durable.
//!
//! [`Volumes::open`]: crate::Volumes::open

use journal::{Journal, JournalDamage, JournalDisks, JournalOptions, Record};
use media::Barrier;
use store::{Pool, Result};
use units::JournalPosition;

/// Opens the journal and replays the records at `from` and above.
pub(crate) fn open_journal(
    pool: &Pool,
    disks: &JournalDisks,
    options: &JournalOptions,
    from: JournalPosition,
    replay: &mut dyn FnMut(JournalPosition, Record<'_>) -> Result<()>,
) -> Result<(Journal, Vec<JournalDamage>)> {
    // Applied writes may be only below a root that is not durable: flushes of the journal do not
    // cover roots.
    pool.media().blobs.barrier(Barrier::RootBeforeJournal)?;
    let (master, seal) = pool.sealing();
    let id = pool.config().pool;
    Journal::open(disks.clone(), id, master, seal, options, from, replay)
}
