//! Hot chunks that a server copies into small regions by itself: why it does not at the moment, and
//! what it has copied. The defragmentation's thread, `status` and the metrics call this.
//!
//! Invariant: the run itself is in the [`TaskSlot`](super::TaskSlot) of defragmentation. Totals are
//! since the server began and never decrease.

use super::{TaskError, Tasks};
use format::phase::TaskPhase;
use maintenance::{DefragReport, HotState, HotWait};
use parking_lot::Mutex;

/// State for `status` and the metrics.
#[derive(Clone, Copy, Debug, Default)]
pub struct HotChunksStatus {
    /// Why no run begins; of no use while one is in progress.
    pub wait: HotWait,
    /// Number of runs that the server has begun or resumed.
    pub runs: u64,
    /// Bytes that they copied.
    pub copied_bytes: u64,
}

/// See the module's head.
#[derive(Default)]
pub struct HotChunksState(Mutex<HotChunksStatus>);

impl HotChunksState {
    /// Returns the state.
    pub fn status(&self) -> HotChunksStatus {
        *self.0.lock()
    }

    /// Changes the state.
    pub fn update(&self, change: impl FnOnce(&mut HotChunksStatus)) {
        change(&mut self.0.lock());
    }
}

impl Tasks {
    /// Returns the run in progress, if the server began it by itself.
    pub fn own_defrag(&self) -> Option<DefragReport> {
        let report = self.defrag.status()?.run.report;
        let is_own = report.wish.is_by_server() && report.phase == TaskPhase::UnderWay;
        is_own.then_some(report)
    }

    /// Ends the run in progress, if the server began it by itself: its copies stay. Returns false
    /// if there is none.
    pub fn end_own_defrag(&self) -> Result<bool, TaskError> {
        match self.own_defrag() {
            Some(_) => self.defrag.stop_running(TaskPhase::AtRest),
            None => Ok(false),
        }
    }

    /// Returns what decides whether the server copies hot chunks now. `last` is the last run.
    pub fn hot_state<'a>(&self, last: Option<&'a DefragReport>) -> HotState<'a> {
        let schedule = self.shares().schedule;
        let journal_bytes = self.volumes.journal_usage().bytes_max;
        let room = self.pool.room();
        let low = |room| schedule.limits.low_bytes(room, journal_bytes);
        let copies = self.copies.states();
        HotState {
            now: self.pool.now(),
            weekly_percent: schedule.hot_chunks_percent,
            last,
            room,
            low_bytes: room.map_or(0, low),
            is_other_under_way: self.collecting.status().running.is_some()
                || self.scrub.status().phase == TaskPhase::UnderWay
                || copies.iter().any(|copy| !copy.is_paused),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maintenance::{DefragSource, Heat, HotChunks};
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use units::UnixNanos;

    #[test]
    fn a_run_of_the_server_makes_room_and_one_of_a_user_does_not() {
        let top = tempfile::tempdir().unwrap();
        let server = crate::metrics::tests::server_state(top.path());
        let lane = store::LaneOptions {
            compression: chunking::Compression::Lz4,
            region_bytes: 16 << 10,
            container_bytes: 4 << 20,
        };
        let run = |percent| {
            let source = DefragSource::Volumes(Arc::clone(&server.volumes));
            let known = BTreeMap::new();
            let hot = HotChunks::find(source, &Heat::new(), &known, percent, lane).unwrap();
            hot.run
        };
        let wait = || {
            let last = server.tasks.defrag.status().map(|status| status.run.report);
            server.tasks.hot_state(last.as_ref()).wait()
        };
        assert!(!server.tasks.end_own_defrag().unwrap(), "there is none");
        assert_eq!(wait(), None);
        server.tasks.defrag.begin(run(3)).unwrap();
        assert!(server.tasks.own_defrag().is_some());
        assert_eq!(wait(), Some(HotWait::Unfinished));
        assert!(server.tasks.defrag.begin(run(3)).is_err(), "one at a time");
        assert!(server.tasks.end_own_defrag().unwrap());
        assert!(server.tasks.own_defrag().is_none());
        // It gained nothing: the next is in a day.
        let ended = server.tasks.defrag.status().unwrap().run.report.ended;
        let day = UnixNanos(ended.0 + 86_400 * 1_000_000_000);
        assert_eq!(wait(), Some(HotWait::Until(day)));
        server.tasks.defrag.begin(run(0)).unwrap();
        assert!(!server.tasks.end_own_defrag().unwrap());
        assert!(server.tasks.defrag.stop(TaskPhase::AtRest).unwrap());
        let shares = server.tasks.shares().with(&["hot-chunks=off"]).unwrap();
        server.tasks.set_shares(shares).unwrap();
        assert_eq!(wait(), Some(HotWait::Off));
    }

    #[test]
    fn other_tasks_go_first() {
        let top = tempfile::tempdir().unwrap();
        let server = crate::metrics::tests::server_state(top.path());
        server.tasks.scrub.start(None).unwrap();
        assert_eq!(
            server.tasks.hot_state(None).wait(),
            Some(HotWait::OtherTask)
        );
        server.tasks.scrub.pause().unwrap();
        assert_eq!(server.tasks.hot_state(None).wait(), None);
        let interrupt = terminal::interrupt::Interrupt::of_command().unwrap();
        let gc = server.tasks.collecting.begin(&interrupt).unwrap();
        assert_eq!(
            server.tasks.hot_state(None).wait(),
            Some(HotWait::OtherTask)
        );
        drop(gc);
        assert_eq!(server.tasks.hot_state(None).wait(), None);
    }
}
