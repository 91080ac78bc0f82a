//! Metrics of the device by I/O origin, and of the maintenance tasks. [`super::render`] calls this.
//!
//! Invariant: see [`crate::metrics`].

use super::text::Text;
use super::{
    COLLECT_DELETED, COLLECT_ENDED, COLLECT_RUNS, DEFRAG_COLD, DEFRAG_ENDED, DEFRAG_FAILED,
    DEFRAG_SMALL, DEVICE_BUSY, DEVICE_BYTES, DEVICE_GRANTS, DEVICE_HELD, DEVICE_LEASED,
    DEVICE_REQUESTS, DEVICE_WAIT, DEVICE_WAITING, FREE, HELD_BACK, HOT_COPIED, HOT_RUNS,
    SCRUB_DAMAGED, SCRUB_VERIFIED, TASK_BYTES, TASK_PROGRESS, TASK_UNDER_WAY,
};
use crate::settings::flow_name;
use crate::state::Live;
use maintenance::{DefragStage, FetchCost};
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
        text.sample(DEVICE_GRANTS, &label, counts.grants);
        text.sample(DEVICE_WAIT, &label, seconds(counts.wait_ns));
        text.sample(DEVICE_HELD, &label, seconds(counts.held_back_ns));
        text.sample(DEVICE_BUSY, &label, seconds(counts.busy_ns));
        text.sample(DEVICE_WAITING, &label, counts.waiting);
    }
    tasks(text, live);
    scrub(text, live);
    collect(text, live);
    defrag(text, live);
}

fn collect(text: &mut Text, live: &Live) {
    let status = &live.collecting;
    text.sample(FREE, &[], live.room.map_or(0, |room| room.free_bytes));
    text.sample(HELD_BACK, &[], live.waits.waited_ns as f64 / 1e9);
    let totals = &status.totals;
    text.sample(COLLECT_RUNS, &[("by", "command")], totals.runs_by_commands);
    text.sample(COLLECT_RUNS, &[("by", "server")], totals.runs_by_server);
    text.sample(COLLECT_DELETED, &[], totals.deleted_bytes);
    let ended = status.last.as_ref().map_or(0, |last| last.at.0);
    text.sample(COLLECT_ENDED, &[], ended as f64 / 1e9);
}

fn scrub(text: &mut Text, live: &Live) {
    let verified = live.scrub.verified().map_or(0, |at| at.0);
    text.sample(SCRUB_VERIFIED, &[], verified as f64 / 1e9);
    text.sample(SCRUB_DAMAGED, &[], live.scrub_totals.damaged);
}

/// Metrics that all tasks have.
fn tasks(text: &mut Text, live: &Live) {
    for task in &live.tasks {
        for (source, bytes) in [("disk", task.bytes.disk), ("cache", task.bytes.cache)] {
            text.sample(
                TASK_BYTES,
                &[("task", task.name), ("source", source)],
                bytes,
            );
        }
        let label = [("task", task.name)];
        if let Some(progress) = task.progress {
            text.sample(TASK_PROGRESS, &label, progress);
        }
        text.sample(TASK_UNDER_WAY, &label, u64::from(task.is_under_way));
    }
}

fn defrag(text: &mut Text, live: &Live) {
    let run = live.defrag.as_ref().map(|status| &status.run);
    let done = run.filter(|run| run.report.stage == DefragStage::Done);
    let ended = done.map_or(0, |run| run.report.ended.0);
    text.sample(DEFRAG_ENDED, &[], ended as f64 / 1e9);
    let failed = run.map_or(0, |run| run.report.counts.failed);
    text.sample(DEFRAG_FAILED, &[], failed);
    let small = run.map_or_else(Default::default, |run| run.report.counts.small);
    text.sample(DEFRAG_SMALL, &[], small.bytes);
    text.sample(HOT_RUNS, &[], live.hot_chunks.runs);
    text.sample(HOT_COPIED, &[], live.hot_chunks.copied_bytes);
    for (when, toll) in [("before", small.before), ("after", small.after)] {
        text.sample(DEFRAG_COLD, &[("when", when)], toll.bytes_each().round());
    }
}
