//! The journal of a pool: opened by its volumes, looked at by who reads beside them.
//!
//! Invariant: only opening writes, and after all roots are durable. Called by [`Volumes::open`] and check.
//!
//! [`Volumes::open`]: crate::Volumes::open

use super::journal::{Inspection, Journal, JournalDamage, JournalOptions, LostWrites, Record};
use media::Barrier;
use store::{Pool, Result};
use units::JournalPosition;

/// Opens the journal and replays what lies at `from` and above.
pub(crate) fn open_journal(
    pool: &Pool,
    options: &JournalOptions,
    from: JournalPosition,
    replay: &mut dyn FnMut(JournalPosition, Record<'_>) -> Result<()>,
) -> Result<(Journal, Vec<JournalDamage>)> {
    // What it folded in may be nowhere else, and flushes say nothing of roots.
    pool.media().blobs.barrier(Barrier::RootBeforeJournal)?;
    let (master, seal) = pool.sealing();
    let id = pool.config().pool;
    Journal::open(pool.media(), id, master, seal, options, from, replay)
}

/// What is wrong with the journal of a pool; writes nothing. Where somebody else writes, damage below
/// the position that a root says afterwards is none.
pub fn inspect_journal(pool: &Pool) -> Result<Inspection> {
    let from = JournalPosition(pool.record().journal_position);
    let (master, seal) = pool.sealing();
    Journal::inspect(pool.media(), pool.config().pool, master, seal, from)
}

/// Acknowledged writes of a pool's volumes that are lost and that nobody has acknowledged, and how many
/// more there were. Reads the journal's record of them only.
pub fn recorded_losses(pool: &Pool) -> Result<(Vec<LostWrites>, u32)> {
    let (master, seal) = pool.sealing();
    Journal::recorded_losses(pool.media(), pool.config().pool, master, seal)
}
