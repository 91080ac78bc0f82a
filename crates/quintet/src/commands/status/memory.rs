//! The memory plan in the JSON of `status`, which calls this.
//!
//! Invariant: no I/O.

use server::memory_plan::MemoryPlan;
use terminal::json::Object;

/// Formats a plan. `used` lists the present use of some consumers.
pub fn object(plan: &MemoryPlan, used: &[(&str, u64)]) -> Object {
    let shares = plan.shares().into_iter().map(|(name, bytes)| {
        let share = Object::new()
            .text("owner", name)
            .integer("planned_bytes", bytes);
        match used.iter().find(|(owner, _)| *owner == name) {
            Some((_, used)) => share.integer("used_bytes", *used),
            None => share,
        }
    });
    Object::new()
        .integer("memory_bytes", plan.all as u64)
        .objects("shares", shares.collect::<Vec<_>>())
}
