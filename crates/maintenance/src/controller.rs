//! Runs maintenance tasks: one loop for all of them, in a server, in a command without a server,
//! in the simulator and in tests. They call [`run_task`].
//!
//! ```text
//! steps with Access::Memory --> I/O grant --> steps with Access::Device, while the grant lasts
//!   ^    ^                        |                                               |
//!   |    +--- while it waits <----+                                               |
//!   +------ `watch`: the caller records, reports, and may end the run <-----------+
//! ```
//!
//! Steps in memory need no I/O grant; a task that waits for one does what comes into memory. A
//! grant is for [`StepSizes::grant_bytes`]; in idle time it lasts until a client's request comes.
//! Then the caller records progress and reports news.
//!
//! Invariant: this loop waits only for a grant and for the task's rate limit, and a request to stop
//! ends both.

use crate::task::{Access, MaintenanceTask, TaskStep};
use device::StepGrant;
use qos::Flow;
use std::ops::ControlFlow;
use std::time::Duration;

/// Time that a task works before the caller regains control.
const AT_A_TIME: Duration = Duration::from_millis(100);
/// Maximum duration of a grant for each [`GRANT_BYTES`] of it: slower steps read scattered data.
const GRANT: Duration = Duration::from_millis(10);
const GRANT_BYTES: u64 = 256 << 10;
/// A task that waits for a grant fetches events this often: few are lost when pages come and leave
/// memory faster than the task reads, and their pages are still there.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Time that a task works while it waits for a grant before the caller regains control.
const WAITING_AT_A_TIME: Duration = Duration::from_secs(1);

/// The environment of a task.
pub trait Host {
    /// Nanoseconds since any fixed moment.
    fn now_ns(&self) -> u64;

    /// Returns true if the task should stop.
    fn is_to_stop(&self) -> bool;

    /// Asks for an I/O grant for a step of this many bytes; `None` if the device is not shared.
    fn ask(&self, flow: Flow, bytes: u64) -> Option<Box<dyn IoGrant + '_>>;

    /// Waits until this time, when the task's rate limit allows more, or for a shorter time. A
    /// request to stop ends the wait. Default: a host without a clock of its own does not wait.
    fn wait_until(&self, _until_ns: u64) {}
}

/// The environment of a task that has the device for itself and is not asked to stop: for the
/// simulator and for tests, which have no clock.
pub struct Alone;

impl Host for Alone {
    fn now_ns(&self) -> u64 {
        0
    }

    fn is_to_stop(&self) -> bool {
        false
    }

    fn ask(&self, _: Flow, _: u64) -> Option<Box<dyn IoGrant + '_>> {
        None
    }
}

/// An I/O grant, or the request for one; dropping it ends it.
pub trait IoGrant {
    /// Waits for the grant, at most this long. Returns true if it is there.
    fn wait(&mut self, at_most: Duration) -> bool;

    /// Returns true while the task may exceed the bytes of the grant.
    fn goes_on(&self) -> bool;
}

impl IoGrant for StepGrant<'_> {
    fn wait(&mut self, at_most: Duration) -> bool {
        StepGrant::wait(self, at_most)
    }

    fn goes_on(&self) -> bool {
        StepGrant::goes_on(self)
    }
}

/// Bytes of a step with scattered reads: a few index lookups, or a region.
const SCATTERED_BYTES: u64 = 64 << 10;

/// Sizes of a task's steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepSizes {
    /// Bytes between two checks for a stop, if the device is not shared.
    pub alone_bytes: u64,
    /// Bytes of an I/O grant, if the device is shared.
    pub grant_bytes: u64,
    /// Bytes of a step within a grant.
    pub step_bytes: u64,
}

impl StepSizes {
    /// For a task that needs a grant for each step.
    pub const fn new(alone_bytes: u64) -> Self {
        Self {
            alone_bytes,
            grant_bytes: GRANT_BYTES,
            step_bytes: GRANT_BYTES,
        }
    }

    /// For a task that does several steps in one grant.
    pub const fn scattered(alone_bytes: u64, grant_bytes: u64) -> Self {
        Self {
            alone_bytes,
            grant_bytes,
            step_bytes: SCATTERED_BYTES,
        }
    }
}

/// Why [`run_task`] has returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunEnd {
    /// The task is complete.
    Finished,
    /// Nothing is in progress: the task is paused, or was not started.
    Idle,
    /// The host asked for a stop, or `watch` did.
    Stopped,
}

/// Runs a task until it is complete or idle, or is to stop. Calls `watch` with the task and its
/// news whenever it has worked for a while, before this checks for a stop. [`ControlFlow::Break`]
/// ends the run.
pub fn run_task<T: MaintenanceTask, E: From<T::Error>>(
    task: &mut T,
    host: &dyn Host,
    sizes: StepSizes,
    mut watch: impl FnMut(&mut T, Option<T::News>) -> Result<ControlFlow<()>, E>,
) -> Result<RunEnd, E> {
    loop {
        let step = match advance(task, host, sizes)? {
            Advance::Stopped => return Ok(RunEnd::Stopped),
            Advance::Step(step) => step,
        };
        let (news, end) = match step {
            TaskStep::Worked { .. } | TaskStep::NeedsDevice => (None, None),
            TaskStep::News(news) => (Some(news), None),
            TaskStep::Waiting { until_ns } => {
                host.wait_until(until_ns);
                (None, None)
            }
            TaskStep::Idle => (None, Some(RunEnd::Idle)),
            TaskStep::Finished => (None, Some(RunEnd::Finished)),
        };
        let goes_on = watch(task, news)?.is_continue() && !host.is_to_stop();
        if let Some(end) = end {
            return Ok(end);
        }
        if !goes_on {
            return Ok(RunEnd::Stopped);
        }
    }
}

/// Result of [`advance`].
#[derive(Debug)]
enum Advance<N> {
    /// The task should stop.
    Stopped,
    /// The last step.
    Step(TaskStep<N>),
}

/// Runs a task for a while, until it has news or nothing to do.
fn advance<T: MaintenanceTask>(
    task: &mut T,
    host: &dyn Host,
    sizes: StepSizes,
) -> Result<Advance<T::News>, T::Error> {
    let began_ns = host.now_ns();
    let has_time = |host: &dyn Host| {
        let passed_ns = host.now_ns().saturating_sub(began_ns);
        Duration::from_nanos(passed_ns) < AT_A_TIME
    };
    loop {
        match task.step_with(host.now_ns(), sizes.step_bytes, Access::Memory)? {
            TaskStep::NeedsDevice => break,
            TaskStep::Worked { .. } if has_time(host) && !host.is_to_stop() => {}
            step => return Ok(Advance::Step(step)),
        }
    }
    if host.is_to_stop() {
        return Ok(Advance::Stopped);
    }
    let Some(mut grant) = host.ask(task.flow(), sizes.grant_bytes) else {
        return task
            .step(host.now_ns(), sizes.alone_bytes)
            .map(Advance::Step);
    };
    if let Some(ended) = work_until(grant.as_mut(), task, host, sizes)? {
        return Ok(ended);
    }
    let given_ns = host.now_ns();
    let grants = u32::try_from(sizes.grant_bytes / GRANT_BYTES).unwrap_or(u32::MAX);
    let grant_ns = GRANT.saturating_mul(grants.max(1)).as_nanos();
    let mut worked = 0u64;
    loop {
        let step = task.step(host.now_ns(), sizes.step_bytes)?;
        let TaskStep::Worked { bytes } = step else {
            return Ok(Advance::Step(step));
        };
        worked = worked.saturating_add(bytes);
        let held_ns = u128::from(host.now_ns().saturating_sub(given_ns));
        let is_paid = worked < sizes.grant_bytes && held_ns < grant_ns;
        if host.is_to_stop() || !(is_paid || has_time(host) && grant.goes_on()) {
            return Ok(Advance::Step(TaskStep::Worked { bytes: worked }));
        }
    }
}

/// Works in memory until the grant is there. Returns what ended the wait before, if anything did;
/// the request for the grant is then withdrawn.
fn work_until<T: MaintenanceTask>(
    grant: &mut dyn IoGrant,
    task: &mut T,
    host: &dyn Host,
    sizes: StepSizes,
) -> Result<Option<Advance<T::News>>, T::Error> {
    let began_ns = host.now_ns();
    let mut worked = 0u64;
    let mut at_most = LOOK_EVERY;
    while !grant.wait(at_most) {
        if host.is_to_stop() {
            return Ok(Some(Advance::Stopped));
        }
        at_most = LOOK_EVERY;
        match task.step_with(host.now_ns(), sizes.step_bytes, Access::Memory)? {
            TaskStep::NeedsDevice => {}
            TaskStep::Worked { bytes } => {
                worked = worked.saturating_add(bytes);
                at_most = Duration::ZERO;
            }
            step => return Ok(Some(Advance::Step(step))),
        }
        let passed_ns = host.now_ns().saturating_sub(began_ns);
        if worked > 0 && Duration::from_nanos(passed_ns) >= WAITING_AT_A_TIME {
            return Ok(Some(Advance::Step(TaskStep::Worked { bytes: worked })));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};
    use std::convert::Infallible;

    /// Units of a MiB, some of them in memory.
    struct Works {
        resident: u64,
        /// Units that come into memory at a time.
        arriving: (u64, u64),
        others: u64,
        log: RefCell<Vec<&'static str>>,
    }

    struct Machine {
        now_ns: Cell<u64>,
        stops_at_ns: u64,
        /// Number of steps by which a grant is extended.
        goes_on: Cell<u64>,
        grants: Cell<u64>,
        /// Number of waits that end before the grant comes.
        waits: Cell<u64>,
        is_shared: bool,
    }

    struct Given<'a>(&'a Machine);

    impl IoGrant for Given<'_> {
        fn wait(&mut self, at_most: Duration) -> bool {
            let left = self.0.waits.get();
            if left == 0 {
                self.0.grants.set(self.0.grants.get() + 1);
                return true;
            }
            self.0.waits.set(left - 1);
            let waited_ns = u64::try_from(at_most.as_nanos()).unwrap();
            self.0.now_ns.set(self.0.now_ns.get() + waited_ns);
            false
        }

        fn goes_on(&self) -> bool {
            let left = self.0.goes_on.get();
            self.0.goes_on.set(left.saturating_sub(1));
            left > 0
        }
    }

    impl Host for Machine {
        fn now_ns(&self) -> u64 {
            self.now_ns.set(self.now_ns.get() + 1_000_000);
            self.now_ns.get()
        }

        fn is_to_stop(&self) -> bool {
            self.now_ns.get() >= self.stops_at_ns
        }

        fn ask(&self, _: Flow, _: u64) -> Option<Box<dyn IoGrant + '_>> {
            self.is_shared.then(|| Box::new(Given(self)) as _)
        }

        fn wait_until(&self, until_ns: u64) {
            self.now_ns.set(until_ns);
        }
    }

    impl MaintenanceTask for Works {
        type News = ();
        type Error = Infallible;

        fn flow(&self) -> Flow {
            Flow::Scrub
        }

        fn step_with(
            &mut self,
            now_ns: u64,
            bytes: u64,
            access: Access,
        ) -> Result<TaskStep<()>, Infallible> {
            if now_ns >= self.arriving.0 {
                self.resident += std::mem::take(&mut self.arriving.1);
            }
            let (left, word) = match access {
                Access::Memory => (&mut self.resident, "memory"),
                Access::Device => (&mut self.others, "device"),
            };
            Ok(match (*left, access) {
                (0, Access::Memory) => TaskStep::NeedsDevice,
                (0, Access::Device) => TaskStep::Finished,
                _ => {
                    *left -= 1;
                    self.log.borrow_mut().push(word);
                    TaskStep::Worked { bytes }
                }
            })
        }
    }

    fn works(resident: u64, others: u64) -> Works {
        Works {
            resident,
            arriving: (0, 0),
            others,
            log: RefCell::default(),
        }
    }

    fn machine(goes_on: u64) -> Machine {
        Machine {
            now_ns: Cell::new(0),
            stops_at_ns: u64::MAX,
            goes_on: Cell::new(goes_on),
            grants: Cell::new(0),
            waits: Cell::new(0),
            is_shared: true,
        }
    }

    const SIZES: StepSizes = StepSizes::new(4 << 20);

    fn one(task: &mut Works, machine: &Machine) -> Advance<()> {
        let Ok(advance) = advance(task, machine, SIZES);
        advance
    }

    #[test]
    fn what_is_in_memory_goes_first_and_needs_no_turn() {
        let (mut task, machine) = (works(3, 2), machine(0));
        assert!(matches!(
            one(&mut task, &machine),
            Advance::Step(TaskStep::Worked { .. })
        ));
        assert_eq!(*task.log.borrow(), ["memory", "memory", "memory", "device"]);
        assert_eq!(machine.grants.get(), 1);
        one(&mut task, &machine);
        assert!(matches!(
            one(&mut task, &machine),
            Advance::Step(TaskStep::Finished)
        ));
    }

    #[test]
    fn a_turn_goes_on_until_a_user_comes_and_not_for_ever() {
        let (mut task, machine) = (works(0, 1000), machine(5));
        one(&mut task, &machine);
        assert_eq!(task.others, 994, "one that was paid for, and five");
        machine.goes_on.set(u64::MAX);
        one(&mut task, &machine);
        assert!((900..980).contains(&task.others), "{}", task.others);
        assert_eq!(machine.grants.get(), 2);
    }

    #[test]
    fn it_stops_when_it_should_and_does_a_lot_where_it_is_alone() {
        let (mut task, mut machine) = (works(0, 1000), machine(u64::MAX));
        machine.stops_at_ns = 20_000_000;
        one(&mut task, &machine);
        assert!(task.others > 980);
        assert!(matches!(one(&mut task, &machine), Advance::Stopped));
        machine.stops_at_ns = u64::MAX;
        machine.is_shared = false;
        let worked = one(&mut task, &machine);
        assert!(
            matches!(worked, Advance::Step(TaskStep::Worked { bytes }) if bytes == 4 << 20),
            "{worked:?}"
        );
    }

    #[test]
    fn what_comes_into_memory_while_it_waits_is_done_then() {
        let (mut task, machine) = (works(0, 1), machine(0));
        machine.waits.set(10);
        task.arriving = (50_000_000, 2);
        one(&mut task, &machine);
        assert_eq!(*task.log.borrow(), ["memory", "memory", "device"]);
        assert_eq!(machine.grants.get(), 1);
    }

    #[test]
    fn a_wait_ends_with_work_for_its_caller_and_by_a_stop() {
        let (mut task, mut machine) = (works(0, 1), machine(0));
        machine.waits.set(u64::MAX);
        task.arriving = (50_000_000, u64::MAX);
        let worked = one(&mut task, &machine);
        assert!(matches!(worked, Advance::Step(TaskStep::Worked { .. })));
        let took_ns = machine.now_ns.get();
        assert!(
            (1_000_000_000..1_200_000_000).contains(&took_ns),
            "{took_ns}"
        );
        task.resident = 0;
        machine.stops_at_ns = took_ns + 500_000_000;
        assert!(matches!(one(&mut task, &machine), Advance::Stopped));
        assert!(machine.now_ns.get() < took_ns + 600_000_000);
        assert_eq!(machine.grants.get(), 0);
    }
}
