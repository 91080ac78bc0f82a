//! Operations on volumes, scripted and random. Histories and `process` use them.
//!
//! Invariant: one list for all histories.

use crate::Seed;
use format::journal_place::JournalPlace;

/// An action of a client or an administrator, or an event. A number selects the volume, modulo
/// their count; sectors are modulo the size.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum VolumeOp {
    /// Creates a volume of this many sectors, with chunks of 2^n bytes.
    Create(u64, u8),
    /// Writes sectors: volume, first, count.
    Write(usize, u64, u64),
    /// The same with bytes that depend only on the position: they repeat.
    WriteKnown(usize, u64, u64),
    /// Runs gc completely, without trash periods.
    Collect,
    /// Copies the chunks of all volumes and snapshots forward, in one commit.
    Defragment,
    /// Does this many steps of a gc run that continues beside later operations.
    CollectSteps(usize),
    /// Writes sectors durably.
    WriteDurable(usize, u64, u64),
    /// Zeroes sectors.
    Discard(usize, u64, u64),
    /// Flushes.
    Flush(usize),
    /// About this many bytes of background work.
    Step(u64),
    /// A checkpoint that stores at most about this many bytes: the rest stays in the journal.
    Part(u64),
    /// Makes a complete checkpoint.
    Checkpoint,
    /// Takes a snapshot.
    Snapshot(usize),
    /// Clones a volume.
    Clone(usize),
    /// Clones the newest snapshot.
    CloneSnapshot,
    /// Changes the size, in sectors.
    Resize(usize, u64),
    /// Rolls back to the volume's newest snapshot.
    Rollback(usize),
    /// Deletes a volume.
    Delete(usize),
    /// Renames a volume.
    Rename(usize),
    /// Drops the process without a flush; another one opens the pool.
    Reopen,
    /// Ends the process in good order; another one opens the pool.
    Close,
    /// The next process has the journal there.
    MoveJournal(JournalPlace),
    /// Kills the process after this many disk operations of this operation; the next one takes
    /// over.
    Killed(u64, Box<VolumeOp>),
}

/// The scripted histories: each explores its part.
#[expect(clippy::too_many_lines, reason = "a table")]
pub fn volume_scripts() -> Vec<(&'static str, Vec<VolumeOp>)> {
    use VolumeOp::{
        Checkpoint, Clone, CloneSnapshot, Collect, CollectSteps, Create, Defragment, Delete,
        Discard, Flush, Killed, Part, Rename, Reopen, Resize, Rollback, Snapshot, Step, Write,
        WriteDurable, WriteKnown,
    };
    let killed = |after, op| Killed(after, Box::new(op));
    vec![
        (
            "flushes",
            vec![
                Create(128, 12),
                Write(0, 0, 16),
                Flush(0),
                Write(0, 4, 9),
                Write(0, 40, 8),
                WriteDurable(0, 8, 8),
                Write(0, 8, 3),
                Flush(0),
                Write(0, 0, 64),
            ],
        ),
        (
            "checkpoints",
            vec![
                Create(200, 13),
                Write(0, 0, 100),
                Checkpoint,
                Write(0, 10, 20),
                Flush(0),
                Step(1),
                Write(0, 12, 4),
                Step(8192),
                WriteDurable(0, 14, 10),
                Step(1 << 20),
                Checkpoint,
                Write(0, 0, 8),
                Flush(0),
            ],
        ),
        (
            "parts",
            vec![
                Create(128, 12),
                Create(64, 13),
                Write(0, 0, 64),
                Write(1, 0, 32),
                Checkpoint,
                Write(0, 0, 32),
                Flush(0),
                // Over data in the journal, and not flushed.
                Write(0, 2, 20),
                WriteKnown(0, 16, 32),
                Write(1, 0, 64),
                Part(24_000),
                Write(0, 0, 6),
                Collect,
                Part(24_000),
                Discard(0, 8, 16),
                Part(30_000),
                Flush(0),
                Collect,
                killed(9, Part(40_000)),
                Write(0, 4, 40),
                Snapshot(0),
                Part(1 << 20),
                Reopen,
                Collect,
            ],
        ),
        (
            "many volumes",
            vec![
                Create(64, 12),
                Create(64, 14),
                Write(0, 0, 16),
                Write(1, 8, 16),
                Flush(1),
                Snapshot(0),
                Write(0, 4, 8),
                Write(1, 0, 64),
                Flush(0),
                Checkpoint,
                Clone(1),
                Write(2, 0, 9),
                Flush(2),
                Delete(1),
                Reopen,
                Write(0, 1, 2),
                Flush(0),
            ],
        ),
        (
            "snapshots",
            vec![
                Create(100, 12),
                Write(0, 0, 40),
                Snapshot(0),
                Write(0, 5, 40),
                Snapshot(0),
                Discard(0, 0, 100),
                CloneSnapshot,
                Rollback(0),
                Write(0, 3, 3),
                Flush(0),
                Reopen,
                Snapshot(1),
            ],
        ),
        (
            "names",
            vec![
                Create(64, 12),
                Create(64, 12),
                Write(0, 0, 40),
                Write(1, 0, 40),
                Snapshot(0),
                Snapshot(1),
                Snapshot(0),
                WriteDurable(0, 5, 9),
                Rename(0),
                Step(1),
                Write(0, 8, 8),
                Rename(1),
                Flush(0),
                Checkpoint,
                killed(6, Rename(0)),
                Rollback(0),
                Reopen,
                Rename(0),
                Write(0, 3, 3),
                Flush(0),
            ],
        ),
        (
            "sizes",
            vec![
                Create(100, 13),
                Write(0, 0, 100),
                Resize(0, 37),
                Write(0, 20, 17),
                Flush(0),
                Resize(0, 300),
                Write(0, 250, 50),
                Flush(0),
                Resize(0, 5),
                Discard(0, 0, 3),
                Flush(0),
            ],
        ),
        (
            "killed",
            vec![
                Create(128, 12),
                WriteDurable(0, 0, 30),
                killed(1, Flush(0)),
                Write(0, 3, 40),
                killed(2, Flush(0)),
                WriteDurable(0, 8, 8),
                killed(9, Checkpoint),
                Write(0, 0, 64),
                killed(25, Checkpoint),
                WriteDurable(0, 50, 3),
                killed(40, Checkpoint),
                Write(0, 1, 1),
                Flush(0),
            ],
        ),
        (
            "killed in checkpoints",
            std::iter::once(Create(128, 12))
                .chain((0..12).flat_map(|n| {
                    let write = Write(0, n * 8, 8);
                    let durable = WriteDurable(0, n * 8 + 2, 3);
                    [write, killed(20 + 3 * n, Checkpoint), durable]
                }))
                .collect::<Vec<_>>(),
        ),
        (
            // Overwritten chunks are still needed if the overwriting is lost.
            "collected",
            vec![
                Create(256, 12),
                WriteKnown(0, 0, 64),
                Write(0, 64, 24),
                WriteKnown(0, 96, 64),
                Flush(0),
                Checkpoint,
                Write(0, 0, 160),
                Checkpoint,
                Collect,
                WriteKnown(0, 0, 64),
                WriteKnown(0, 96, 64),
                Flush(0),
                Write(0, 0, 160),
                Collect,
                Collect,
                Flush(0),
                Checkpoint,
                Collect,
                Collect,
            ],
        ),
        (
            // Large writes that are only in the journal refer to chunks that no root needs.
            "collected below what is not folded",
            vec![
                Create(256, 12),
                Write(0, 0, 24),
                WriteKnown(0, 128, 64),
                Flush(0),
                Checkpoint,
                Write(0, 128, 64),
                Checkpoint,
                Write(0, 0, 24),
                WriteKnown(0, 128, 64),
                Flush(0),
                Collect,
                Collect,
                Checkpoint,
            ],
        ),
        (
            // The writes over them are not flushed: a crash needs the chunks again.
            "collected below what is not flushed",
            vec![
                Create(256, 12),
                Write(0, 0, 24),
                WriteKnown(0, 128, 64),
                Flush(0),
                Checkpoint,
                Write(0, 128, 64),
                Checkpoint,
                Write(0, 0, 24),
                WriteKnown(0, 128, 64),
                Flush(0),
                Write(0, 128, 64),
                Collect,
                Collect,
                Flush(0),
            ],
        ),
        (
            "collected beside writes",
            vec![
                Create(256, 12),
                WriteKnown(0, 0, 64),
                WriteKnown(0, 128, 64),
                Flush(0),
                Snapshot(0),
                Write(0, 0, 128),
                CollectSteps(2),
                Checkpoint,
                CollectSteps(3),
                WriteKnown(0, 128, 64),
                WriteKnown(0, 0, 64),
                Flush(0),
                CollectSteps(30),
                Write(0, 0, 200),
                CollectSteps(30),
                Flush(0),
                CollectSteps(30),
                Checkpoint,
                Reopen,
                CollectSteps(60),
                WriteKnown(0, 0, 64),
                Flush(0),
            ],
        ),
        (
            // After two gc runs only the copies are left.
            "defragmented",
            vec![
                Create(256, 12),
                WriteKnown(0, 0, 64),
                Write(0, 64, 24),
                Flush(0),
                Checkpoint,
                Write(0, 4, 9),
                WriteKnown(0, 128, 40),
                Snapshot(0),
                Write(0, 8, 16),
                Checkpoint,
                Defragment,
                Collect,
                Collect,
                Write(0, 0, 8),
                Flush(0),
                killed(12, Defragment),
                WriteDurable(0, 70, 8),
                Checkpoint,
                killed(30, Defragment),
                Defragment,
                CollectSteps(9),
                Defragment,
                Collect,
                Reopen,
                WriteKnown(0, 0, 64),
                Flush(0),
                Checkpoint,
                Collect,
                Defragment,
                Flush(0),
            ],
        ),
        (
            "the ring turns",
            vec![
                Create(512, 12),
                WriteDurable(0, 0, 200),
                Write(0, 200, 200),
                Checkpoint,
                WriteDurable(0, 100, 200),
                Checkpoint,
                Write(0, 0, 400),
                Checkpoint,
                WriteDurable(0, 90, 50),
                Reopen,
                WriteDurable(0, 95, 5),
            ],
        ),
    ]
}

/// A random history.
pub fn random_volume_ops(seed: u64, count: usize) -> Vec<VolumeOp> {
    let mut seed = Seed::new(seed).part(77);
    let mut ops = vec![VolumeOp::Create(
        16 + seed.below(240),
        12 + seed.below(3) as u8,
    )];
    while ops.len() < count {
        ops.push(random_op(&mut seed));
    }
    ops
}

fn random_op(seed: &mut Seed) -> VolumeOp {
    use VolumeOp::{
        Checkpoint, Clone, CloneSnapshot, Collect, CollectSteps, Create, Defragment, Delete,
        Discard, Flush, Killed, Part, Rename, Reopen, Resize, Rollback, Snapshot, Step, Write,
        WriteDurable, WriteKnown,
    };
    let volume = seed.below(4) as usize;
    let first = match seed.below(2) {
        0 => seed.below(256),
        _ => seed.below(256) & !7,
    };
    let count = match seed.below(3) {
        0 => 8,
        1 => 1 + seed.below(8),
        _ => 1 + seed.below(64),
    };
    match seed.below(40) {
        0 => Create(seed.below(200), 12 + seed.below(5) as u8),
        1..=10 => Write(volume, first, count),
        11..=13 => WriteDurable(volume, first, count),
        14..=15 => Discard(volume, first, count),
        16..=18 => Flush(volume),
        19..=20 => Step(1 + seed.below(40_000)),
        21 => Part(12_000 + seed.below(60_000)),
        22 => Checkpoint,
        32 => Collect,
        38..=39 => Defragment,
        33..=34 => CollectSteps(1 + seed.below(9) as usize),
        35..=37 => WriteKnown(volume, first & !7, (count + 7) & !7),
        23 => Snapshot(volume),
        24 => Clone(volume),
        25 => CloneSnapshot,
        26 => Resize(volume, seed.below(300)),
        27 => Rollback(volume),
        28 => Delete(volume),
        29 => Reopen,
        30 => Rename(volume),
        _ => {
            let inner = match seed.below(3) {
                0 => Flush(volume),
                1 => Step(1 << 20),
                _ => Checkpoint,
            };
            Killed(1 + seed.below(40), Box::new(inner))
        }
    }
}
