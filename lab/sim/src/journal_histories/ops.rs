//! Operations on a journal, scripted and random. Histories and `process` use them.
//!
//! Invariant: one list for all histories.

use super::Size;
use crate::Seed;

/// An operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JournalOp {
    /// Appends this many records; full buffers are written out.
    Append(u64, Size),
    /// Makes all records durable.
    Flush,
    /// Makes a checkpoint at the head, less this many records, then trims.
    Checkpoint(u64),
    /// Kills the process and starts another one.
    Kill,
    /// Kills the process after this many disk operations, then starts another one.
    KillAfter(u64),
}

/// The scripted histories.
pub fn scripts() -> Vec<(&'static str, Vec<JournalOp>)> {
    use JournalOp::{Append, Checkpoint, Flush, Kill, KillAfter};
    use Size::{Chunks, Large, Middle, Small, Zero};
    let deaths = |first: u64, step: usize| -> Vec<JournalOp> {
        (first..first + 30)
            .step_by(step)
            .flat_map(|after| [KillAfter(after), Append(2, Middle), Flush, Append(1, Large)])
            .chain([Checkpoint(0)])
            .collect()
    };
    vec![
        (
            "flushes",
            vec![
                Append(1, Small),
                Flush,
                Append(3, Middle),
                Flush,
                Append(1, Zero),
                Append(1, Chunks),
                Flush,
                Append(2, Small),
            ],
        ),
        (
            "slots change",
            vec![
                Append(1, Large),
                Flush,
                Append(1, Large),
                Append(1, Large),
                Flush,
                Append(3, Large),
                Append(1, Small),
                Flush,
            ],
        ),
        (
            // Only the journal's own syncs.
            "no flush",
            vec![Append(6, Large), Append(9, Middle)],
        ),
        (
            "round and round",
            vec![
                Append(5, Large),
                Flush,
                Checkpoint(1),
                Append(4, Large),
                Checkpoint(0),
                Append(5, Large),
                Flush,
                Checkpoint(3),
                Append(3, Large),
                Flush,
                Append(1, Small),
            ],
        ),
        (
            // Records that the next process finds in the page cache count from then on.
            "killed",
            vec![
                Append(3, Large),
                Kill,
                Flush,
                Append(1, Small),
                Flush,
                Kill,
                Append(2, Large),
                Append(1, Small),
                Kill,
                Checkpoint(2),
                Append(3, Large),
                Kill,
                Flush,
            ],
        ),
        ("killed anywhere", [deaths(1, 4), deaths(3, 5)].concat()),
        (
            "killed and killed",
            (0..7)
                .flat_map(|n| [Append(1, [Small, Large][n % 2]), Flush, Kill, KillAfter(2)])
                .chain([Checkpoint(0), Append(1, Small), Flush])
                .collect(),
        ),
    ]
}

/// Random operations.
pub fn random_ops(seed: u64, count: usize) -> Vec<JournalOp> {
    let mut seed = Seed::new(seed);
    let sizes = [
        Size::Small,
        Size::Middle,
        Size::Middle,
        Size::Large,
        Size::Zero,
        Size::Chunks,
    ];
    let mut draw = || match seed.below(16) {
        0..=7 => {
            let size = sizes[seed.below(sizes.len() as u64) as usize];
            JournalOp::Append(1 + seed.below(4), size)
        }
        8..=11 => JournalOp::Flush,
        12 | 13 => JournalOp::Checkpoint(seed.below(4)),
        14 => JournalOp::Kill,
        _ => JournalOp::KillAfter(1 + seed.below(12)),
    };
    (0..count).map(|_| draw()).collect()
}
