//! Estimates how much each move would fragment other objects that share its chunks, one owner after
//! the other. The defragmenter calls this.
//!
//! Invariant: each step is bounded. Owners judged before a restart are not judged again. Only the
//! inner nodes of their recipes are visited once more, so that leaves shared by several owners
//! count once.

use super::load::Load;
use super::step_budget::StepBudget;
use format::recipe::ObjectRoot;
use fragpicker::REQUEST_WEIGHT;
use std::collections::BTreeMap;
use std::sync::Arc;
use store::{Fragmentable, Move, Moves, Pool, Result};

/// Maximum number of windows, ranges or moves that one step examines.
const STEP_LOOKS: usize = 256;

/// See the module's head.
pub struct TollEstimator {
    waiting: std::vec::IntoIter<Move>,
    moves: Moves,
    /// Current owner, and its bytes that are done.
    owner: usize,
    at: u64,
    /// An earlier process has judged all owners before this position.
    asked: (usize, u64),
}

impl TollEstimator {
    /// Judges these moves. Owners before `asked` are done.
    pub fn new(pool: &Arc<Pool>, moves: Vec<Move>, asked: (usize, u64)) -> Self {
        Self {
            waiting: moves.into_iter(),
            moves: Moves::new(pool),
            owner: 0,
            at: 0,
            asked,
        }
    }

    /// Returns all moves.
    pub fn moves(&self) -> impl Iterator<Item = &Move> {
        self.moves.moves().iter().chain(self.waiting.as_slice())
    }

    /// Returns the judged moves.
    pub fn into_moves(self) -> Vec<Move> {
        self.moves.into_moves()
    }

    /// Returns the number of the current owner.
    pub fn owner(&self) -> usize {
        self.owner
    }

    /// Returns the owner and offset before which all are judged.
    pub fn asked(&self) -> (usize, u64) {
        self.asked.max((self.owner, self.at))
    }

    /// Returns true if no owner is left. Counts unreadable ranges in `failed`.
    pub fn step(
        &mut self,
        owners: &[Fragmentable],
        roots: &BTreeMap<u64, ObjectRoot>,
        load: &Load,
        budget: &StepBudget<'_>,
        failed: &mut u64,
    ) -> Result<bool> {
        for _ in 0..STEP_LOOKS {
            let is_asking = self.waiting.len() == 0;
            let looked = match self.waiting.next() {
                Some(one) => match roots.get(&one.object) {
                    Some(root) => self.moves.add(root, one),
                    None => Ok(()),
                },
                None => match owners.get(self.owner) {
                    Some(owner) => self.ask(owner, load),
                    None => return Ok(true),
                },
            };
            match looked {
                Ok(()) => {}
                // Readers of the damaged range get an error, and check names it.
                Err(e) if e.is_corruption() => {
                    *failed += 1;
                    if is_asking {
                        self.next_owner();
                    }
                }
                Err(e) => return Err(e),
            }
            if budget.is_spent() {
                break;
            }
        }
        Ok(false)
    }

    /// Judges a part of one owner.
    fn ask(&mut self, owner: &Fragmentable, load: &Load) -> Result<()> {
        let was_asked = (self.owner, self.at) < self.asked;
        let (root, at) = (&owner.root, self.at);
        // End of the part that an earlier process has judged.
        let until = match self.owner == self.asked.0 {
            true => self.asked.1,
            false => root.len,
        };
        let next = match load.heat_of(owner.key) {
            // Without a trace every window may be read.
            None if at >= root.len => None,
            None if was_asked => Some(self.moves.pass(root, at, until)?),
            None => Some(self.moves.weigh_next(root, at, REQUEST_WEIGHT)?),
            Some(ranges) => {
                let nth = ranges.partition_point(|range| range.start < at);
                match ranges.get(nth) {
                    Some(range) => {
                        if !was_asked {
                            let bytes = range.start..range.end;
                            self.moves.weigh(root, bytes, range.weight)?;
                        }
                        Some(range.end.max(range.start.saturating_add(1)))
                    }
                    None => None,
                }
            }
        };
        match next {
            Some(next) => self.at = next,
            None => self.next_owner(),
        }
        Ok(())
    }

    fn next_owner(&mut self) {
        self.owner += 1;
        self.at = 0;
    }
}
