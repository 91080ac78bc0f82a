//! Decides when copies are ordered by owner (GCCDF, EuroSys'25; decision 34). The collector calls
//! this.
//!
//! Invariant: only the order of copies depends on it. Damage ends no run here.

use super::choose::Candidate;
use super::{Collector, GcStage};
use format::container::ContainerClass;
use std::sync::Arc;
use store::{GcStep, Owners, Pool};

impl Collector {
    /// Begins to find the owners of the plan's chunks. `None` if the planned order stays: little is
    /// copied, space is scarce, or there is no memory for it.
    pub(super) fn owners_of(&self, pool: &Pool, plan: &[Candidate]) -> Option<Arc<Owners>> {
        let percent_min = self.policy.by_owner_percent_min?;
        let is_data = |candidate: &&Candidate| candidate.class == Some(ContainerClass::Data);
        let data = || plan.iter().filter(is_data);
        let bytes: u64 = data().map(|candidate| candidate.live_bytes).sum();
        let full_bytes = self.lane.container_bytes as u64;
        if self.is_scarce || bytes < full_bytes.saturating_mul(percent_min) / 100 {
            return None;
        }
        let mark = self.mark.as_ref()?;
        Owners::begin(pool, mark, data().map(|candidate| candidate.id)).map(Arc::new)
    }

    /// Continues. Without two owners the planned order stays.
    pub(super) fn order(&mut self, pool: &Pool, budget_bytes: u64) {
        let mark = self.mark.as_ref();
        let owners = self.owners.as_mut().and_then(Arc::get_mut);
        if let (Some(mark), Some(owners)) = (mark, owners) {
            let step = owners.step(pool, mark, budget_bytes);
            self.counts.owner_bytes = self.counts.owner_bytes.max(owners.memory_bytes() as u64);
            if step == GcStep::Working {
                return;
            }
        }
        if self.owners.as_ref().is_some_and(|o| !o.is_useful()) {
            self.owners = None;
            self.counts.owner_bytes = 0;
        }
        self.stage = GcStage::Copying;
    }
}
