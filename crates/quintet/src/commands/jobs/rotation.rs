//! Which part of the data a check reads: each in turn. [`super`] calls this.
//!
//! Invariant: after as many finished checks as there are parts, every part was read. A part that
//! was not finished is the next one again.

use super::memory::Memory;
use crate::commands::invocation::Invocation;
use media::{Clock, SystemClock};
use std::path::Path;

const DAY_NS: i64 = 86_400 * 1_000_000_000;

/// The turn of one check.
pub(super) struct Rotation {
    /// The part to read, from 1.
    pub part: u64,
    parts: u64,
    memory: Memory,
}

impl Rotation {
    /// Returns the turn that follows the remembered one. Without a memory the day says it.
    pub fn of(invocation: &Invocation, pool: &Path, parts: u64) -> anyhow::Result<Self> {
        let memory = Memory::of(invocation, "check", pool)?;
        let today = u64::try_from(SystemClock.now().0 / DAY_NS).unwrap_or(0);
        let part = next(memory.recall().as_deref(), parts, today);
        Ok(Self {
            part,
            parts,
            memory,
        })
    }

    /// The part was read.
    pub fn finish(&self, invocation: &Invocation) {
        if self.parts == 1 {
            return;
        }
        let text = format!("{}/{}\n", self.part, self.parts);
        let effect = "the day decides which part the next check reads";
        self.memory.remember(invocation, &text, effect);
    }
}

fn next(last: Option<&str>, parts: u64, today: u64) -> u64 {
    let last = last.and_then(|last| {
        let (part, of) = last.trim().split_once('/')?;
        Some((part.parse::<u64>().ok()?, of.parse::<u64>().ok()?))
    });
    match last {
        Some((part, of)) if of == parts && part < parts => part + 1,
        Some(_) => 1,
        None => today % parts + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_have_their_turn() {
        let mut last = None;
        let mut turns = Vec::new();
        for _ in 0..7 {
            let part = next(last.as_deref(), 3, 4);
            turns.push(part);
            last = Some(format!("{part}/3\n"));
        }
        assert_eq!(turns, [2, 3, 1, 2, 3, 1, 2]);
        assert_eq!(
            next(Some("2/3"), 5, 4),
            1,
            "the number of parts has changed"
        );
        assert_eq!(next(Some("torn"), 3, 5), 3);
        assert_eq!(next(None, 1, 9), 1);
    }
}
