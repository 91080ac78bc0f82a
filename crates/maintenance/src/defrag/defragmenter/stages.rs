//! Stages that copy nothing: they look up where data is stored. The defragmenter calls this.
//!
//! Invariant: a step ends when it has used its device budget or has examined a fixed number of
//! ranges, at least one. Deleted objects are skipped.

use super::{Defragmenter, Stage};
use crate::defrag::DefragStage;
use crate::defrag::examining::{around, examine};
use crate::defrag::load::Item;
use crate::defrag::report::add;
use crate::defrag::small;
use crate::defrag::step_budget::StepBudget;
use crate::defrag::toll_estimator::TollEstimator;
use fragpicker::HotRange;
use std::sync::Arc;
use store::{Move, Places, Result};

/// Maximum number of ranges that one step examines, and their bytes.
const STEP_RANGES: usize = 64;
const STEP_BYTES: u64 = 8 << 20;
/// Bytes of an object that are counted between two checks of the budget.
const SIZE_BYTES: u64 = 8 << 20;
/// Maximum number of such pieces in a step.
const STEP_SIZES: usize = 64;
/// Bytes of the moves that are judged and made together: memory is a few percent of it.
const ROUND_BYTES: u64 = 4 << 30;
/// Maximum number of their parts: a record has space for twice as many.
const ROUND_PARTS: usize = format::defrag::ENTRIES_MAX / 2;

impl Defragmenter {
    fn places(&self) -> Places<'_> {
        let container_bytes = self.options.lane.container_bytes;
        // A window does not lie in pieces because its hot chunks are in small regions.
        Places::new(self.source.pool(), &self.roots, container_bytes).without(self.load.small())
    }

    /// Cuts a range of the load to the present size of its object, which may have changed or been
    /// deleted since the run began.
    fn cut(&self, mut item: Item) -> Option<Item> {
        let root = self.roots.get(&item.object)?;
        item.range.end = item.range.end.min(root.len);
        (item.range.start < item.range.end).then_some(item)
    }

    /// Calls `look` with the ranges from `cursor` on, until the step is used up. Chunks of the
    /// first range were looked up to `prepared`. Returns true after the last range.
    fn look(
        &self,
        (cursor, prepared): (&mut usize, &mut u64),
        budget_bytes: u64,
        look: &mut dyn FnMut(&Places<'_>, Item) -> Result<bool>,
    ) -> Result<bool> {
        let budget = StepBudget::begin(self.source.pool(), budget_bytes);
        let places = self.places();
        let mut looked = 0;
        for _ in 0..STEP_RANGES {
            let Some(item) = self.load.get(*cursor) else {
                return Ok(true);
            };
            let item = self.cut(item);
            if let Some(item) = &item {
                let around = around(item);
                let len = self.roots.get(&item.object).map_or(0, |root| root.len);
                let ahead = around.start.max(*prepared)..around.end;
                let is_enough = &mut || budget.is_spent();
                match places.prepare(item.object, ahead, is_enough) {
                    Ok(reached) if reached < around.end.min(len) => {
                        *prepared = reached;
                        return Ok(false);
                    }
                    // Damage is reported by `look`.
                    Ok(_) => {}
                    Err(e) if e.is_corruption() => {}
                    Err(e) => return Err(e),
                }
            }
            (*cursor, *prepared) = (*cursor + 1, 0);
            let is_enough = match item {
                Some(item) => {
                    looked += item.range.end.saturating_sub(item.range.start);
                    look(&places, item)?
                }
                None => false,
            };
            let is_border = self.load.is_first_small(*cursor);
            if is_enough || is_border || looked >= STEP_BYTES || budget.is_spent() {
                break;
            }
        }
        Ok(self.load.get(*cursor).is_none())
    }

    pub(super) fn size(&mut self, object: usize, mut at: u64, budget_bytes: u64) -> Result<()> {
        let Some(subject) = self.load.objects().get(object) else {
            self.stage = self.after_round();
            return Ok(());
        };
        let budget = StepBudget::begin(self.source.pool(), budget_bytes);
        let places = self.places();
        let len = self.roots.get(&subject.key).map_or(0, |root| root.len);
        let (begin, mut mapped) = (at, 0);
        for _ in 0..STEP_SIZES {
            if at >= len || budget.is_spent() {
                break;
            }
            let end = at.saturating_add(SIZE_BYTES).min(len);
            match places.mapped_bytes(subject.key, at..end) {
                Ok(bytes) => mapped += bytes,
                // Readers of the damaged range get an error, and check names it.
                Err(e) if e.is_corruption() => {}
                Err(e) => return Err(e),
            }
            at = end;
        }
        drop(places);
        self.report.counts.mapped_bytes += mapped;
        self.outlook
            .did(DefragStage::Sizing, at.saturating_sub(begin) as f64);
        self.stage = match at >= len {
            true => Stage::Sizing {
                object: object + 1,
                at: 0,
            },
            false => Stage::Sizing { object, at },
        };
        Ok(())
    }

    pub(super) fn examine(
        &mut self,
        mut moves: Vec<Move>,
        mut bytes: u64,
        budget_bytes: u64,
    ) -> Result<()> {
        let (mut report, mut cursor) = (self.report, self.examined);
        let mut prepared = self.prepared;
        let mut parts: usize = moves.iter().map(|one| one.parts.len()).sum();
        let mut is_full = false;
        let from = (&mut cursor, &mut prepared);
        let is_over = self.look(from, budget_bytes, &mut |places, item| {
            match examine(places, &item, &self.options, &mut report) {
                Ok(Some(one)) => {
                    bytes += one.bytes();
                    parts += one.parts.len();
                    moves.push(one);
                }
                Ok(None) => {}
                // Readers of the damaged range get an error, and check names it.
                Err(e) if e.is_corruption() => report.counts.failed += 1,
                Err(e) => return Err(e),
            }
            is_full = bytes >= ROUND_BYTES || parts >= ROUND_PARTS;
            Ok(is_full)
        })?;
        // Moves into small regions are a round of their own.
        is_full |= self.load.is_first_small(cursor);
        let ranges = cursor.saturating_sub(self.examined);
        self.outlook.did(DefragStage::Examining, ranges as f64);
        (self.report, self.examined, self.prepared) = (report, cursor, prepared);
        self.stage = match is_over || is_full {
            false => Stage::Examining { moves, bytes },
            true if moves.is_empty() => self.after_round(),
            true => self.begin_judging(moves, (0, 0)),
        };
        Ok(())
    }

    pub(super) fn judge(
        &mut self,
        mut toll_estimator: Box<TollEstimator>,
        budget_bytes: u64,
    ) -> Result<()> {
        let is_small = toll_estimator.moves().any(|one| one.is_small);
        if self.options.moves_shared || self.options.rewrites_all || is_small {
            let moves = toll_estimator.moves().cloned().collect();
            return self.begin_moving(moves);
        }
        let pool = Arc::clone(self.source.pool());
        let budget = StepBudget::begin(&pool, budget_bytes);
        let before = toll_estimator.owner();
        let failed = &mut self.report.counts.failed;
        let is_over =
            toll_estimator.step(&self.owners, &self.roots, &self.load, &budget, failed)?;
        let owners = toll_estimator.owner().saturating_sub(before);
        self.outlook.did(DefragStage::Estimating, owners as f64);
        if is_over {
            return self.begin_moving(toll_estimator.into_moves());
        }
        self.stage = Stage::Estimating(toll_estimator);
        Ok(())
    }

    pub(super) fn measure(&mut self, mut cursor: usize, budget_bytes: u64) -> Result<()> {
        if self.options.dry_run {
            return Ok(());
        }
        let (mut report, before) = (self.report, cursor);
        let mut prepared = self.prepared;
        let from = (&mut cursor, &mut prepared);
        let is_over = self.look(from, budget_bytes, &mut |places, item| {
            let HotRange { start, end, weight } = item.range;
            let measured = match item.is_small {
                true => small::measure(places, &item, &mut report),
                false => places
                    .cost(item.object, start..end)
                    .map(|cost| add(&mut report.after, weight, &cost)),
            };
            match measured {
                Err(e) if !e.is_corruption() => Err(e),
                _ => Ok(false),
            }
        })?;
        (self.report, self.prepared) = (report, prepared);
        let ranges = cursor.saturating_sub(before);
        self.outlook.did(DefragStage::Measuring, ranges as f64);
        if !is_over {
            self.stage = Stage::Measuring { cursor };
        }
        Ok(())
    }
}
