//! The journal of a pool: volumes open it; other readers inspect it.
//!
//! [`Volumes::open`] and check call this.
//! Invariant: only opening writes, and only after all roots are durable.
//!
//! [`Volumes::open`]: crate::Volumes::open

use journal::{Inspection, Journal, JournalDamage, JournalOptions, LostWrites, Record};
use media::Barrier;
use store::{Pool, Result};
use units::JournalPosition;

/// Opens the journal and replays the records at `from` and above.
pub(crate) fn open_journal(
    pool: &Pool,
    options: &JournalOptions,
    from: JournalPosition,
    replay: &mut dyn FnMut(JournalPosition, Record<'_>) -> Result<()>,
) -> Result<(Journal, Vec<JournalDamage>)> {
    // Applied writes may be only below a root that is not durable: flushes of the journal do not
    // cover roots.
    pool.media().blobs.barrier(Barrier::RootBeforeJournal)?;
    let (master, seal) = pool.sealing();
    let id = pool.config().pool;
    Journal::open(pool.media(), id, master, seal, options, from, replay)
}

/// Checks the journal of a pool without writing. If another process writes meanwhile, damage below
/// the position that a root names afterwards does not count.
pub fn inspect_journal(pool: &Pool) -> Result<Inspection> {
    let from = JournalPosition(pool.record().journal_position);
    let (master, seal) = pool.sealing();
    Journal::inspect(pool.media(), pool.config().pool, master, seal, from)
}

/// Returns lost acknowledged writes that no user has acknowledged, and how many more there were.
/// Reads only the journal's record of them.
pub fn recorded_losses(pool: &Pool) -> Result<(Vec<LostWrites>, u32)> {
    let (master, seal) = pool.sealing();
    Journal::recorded_losses(pool.media(), pool.config().pool, master, seal)
}
