//! The operations of volumes' lives, scripted and drawn.
//!
//! Invariant: one list for all histories (style 12).

use crate::Seed;

/// Something that a client or an administrator does, or that happens to them. Volumes are chosen
/// by a number, modulo how many there are; sectors modulo the size.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum VolumeOp {
    /// A new volume of so many sectors, chunks of 2^n bytes.
    Create(u64, u8),
    /// Writes so many sectors from this one on.
    Write(usize, u64, u64),
    /// The same with bytes that depend on the place only: they come again.
    WriteKnown(usize, u64, u64),
    /// Collects space, all of it at once; nobody waits for anything.
    Collect,
    /// Copies the chunks of all volumes and snapshots forward, in one commit.
    Defragment,
    /// So many steps of a collection that goes on beside what follows.
    CollectSteps(usize),
    /// The same, and waits until it is durable.
    WriteDurable(usize, u64, u64),
    /// So many sectors become zero.
    Discard(usize, u64, u64),
    /// Waits until everything is durable.
    Flush(usize),
    /// About so many bytes of background work.
    Step(u64),
    /// A round that stores at most about so many bytes: the rest stays in the journal.
    Part(u64),
    /// Folds everything in.
    Checkpoint,
    /// Freezes a moment.
    Snapshot(usize),
    /// A new volume from what one has now.
    Clone(usize),
    /// A new volume from the newest snapshot.
    CloneSnapshot,
    /// Another size, sectors.
    Resize(usize, u64),
    /// Back to its newest snapshot.
    Rollback(usize),
    /// Removes a volume.
    Delete(usize),
    /// The process ends without a word and another one opens the pool.
    Reopen,
    /// The process is killed after so many disk operations of this; the next one takes over.
    Killed(u64, Box<VolumeOp>),
}

/// The scripted histories: each explores its part.
pub fn volume_scripts() -> Vec<(&'static str, Vec<VolumeOp>)> {
    use VolumeOp::{
        Checkpoint, Clone, CloneSnapshot, Collect, CollectSteps, Create, Defragment, Delete,
        Discard, Flush, Killed, Part, Reopen, Resize, Rollback, Snapshot, Step, Write,
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
                // Over what the journal has, and not flushed.
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
            // What was overwritten, and whose overwriting is lost, is still needed.
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
            // Large writes that are only in the journal refer to what no root needs.
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
            // What was written over them is not flushed: a crash needs them again.
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
            // What was copied is all that is left after two collections.
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
        Discard, Flush, Killed, Part, Reopen, Resize, Rollback, Snapshot, Step, Write,
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
