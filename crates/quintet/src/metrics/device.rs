//! The device by who asks, and the maintenance tasks.
//!
//! Invariant: as all of `metrics`. Called by it.

use super::text::Text;
use super::{
    COLLECT_DELETED, COLLECT_ENDED, COLLECT_RUNS, DEVICE_BUSY, DEVICE_BYTES, DEVICE_HELD,
    DEVICE_LEASED, DEVICE_REQUESTS, DEVICE_TURNS, DEVICE_WAIT, DEVICE_WAITING, FREE, HELD_BACK,
    SCRUB_DAMAGED, SCRUB_VERIFIED, TASK_BYTES, TASK_PROGRESS, TASK_UNDER_WAY,
};
use crate::held::Live;
use crate::settings::flow_name;
use format::phase::TaskPhase;
use qos::Flow;

pub(super) fn tell(text: &mut Text, live: &Live) {
    for (flow, counts) in Flow::ALL.iter().zip(&live.device) {
        let name = flow_name(*flow);
        let directions = [
            ("read", counts.reads, counts.read_bytes),
            ("write", counts.writes, counts.written_bytes),
        ];
        for (direction, requests, bytes) in directions {
            let labels = [("flow", name), ("direction", direction)];
            text.sample(DEVICE_REQUESTS, &labels, requests);
            text.sample(DEVICE_BYTES, &labels, bytes);
        }
        let label = [("flow", name)];
        let seconds = |ns: u64| ns as f64 / 1e9;
        text.sample(DEVICE_LEASED, &label, counts.leased_bytes);
        text.sample(DEVICE_TURNS, &label, counts.turns);
        text.sample(DEVICE_WAIT, &label, seconds(counts.wait_ns));
        text.sample(DEVICE_HELD, &label, seconds(counts.held_back_ns));
        text.sample(DEVICE_BUSY, &label, seconds(counts.busy_ns));
        text.sample(DEVICE_WAITING, &label, counts.waiting);
    }
    scrub(text, live);
    collect(text, live);
}

fn collect(text: &mut Text, live: &Live) {
    let status = &live.collecting;
    let label = [("task", "collect")];
    text.sample(TASK_UNDER_WAY, &label, u64::from(status.running.is_some()));
    text.sample(FREE, &[], live.room.map_or(0, |room| room.free_bytes));
    text.sample(HELD_BACK, &[], live.restraint.waited_ns as f64 / 1e9);
    let totals = &status.totals;
    text.sample(COLLECT_RUNS, &[("by", "command")], totals.runs_by_commands);
    text.sample(COLLECT_RUNS, &[("by", "server")], totals.runs_by_server);
    text.sample(COLLECT_DELETED, &[], totals.deleted_bytes);
    let ended = status.last.as_ref().map_or(0, |last| last.ended.0);
    text.sample(COLLECT_ENDED, &[], ended as f64 / 1e9);
}

fn scrub(text: &mut Text, live: &Live) {
    let (status, totals) = (&live.scrub, &live.scrub_totals);
    let sources = [("disk", totals.read_bytes), ("cache", totals.cached_bytes)];
    for (source, bytes) in sources {
        let labels = [("task", "scrub"), ("source", source)];
        text.sample(TASK_BYTES, &labels, bytes);
    }
    let label = [("task", "scrub")];
    let progress = match status.phase {
        TaskPhase::AtRest => 0.0,
        TaskPhase::UnderWay | TaskPhase::Paused => {
            status.pass.containers as f64 / status.containers.max(1) as f64
        }
    };
    text.sample(TASK_PROGRESS, &label, progress.min(1.0));
    let is_under_way = status.phase == TaskPhase::UnderWay;
    text.sample(TASK_UNDER_WAY, &label, u64::from(is_under_way));
    let verified = status.verified().map_or(0, |at| at.0);
    text.sample(SCRUB_VERIFIED, &[], verified as f64 / 1e9);
    text.sample(SCRUB_DAMAGED, &[], totals.damaged);
}
