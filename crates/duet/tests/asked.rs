//! A driver whose task knows by itself what is in memory, and whose units share pages. Events only
//! say when to ask.

use crate::world;

use duet::{Access, Driver, DriverOptions, DriverStep, Mask, Page, Processed, Scope, TaskProgress};
use duet::{Task, Work};
use std::convert::Infallible;
use world::{World, page};

const UNITS: u64 = 12;
const PAGES: u64 = 4;

/// Units 2n and 2n + 1 share the page (n, 0).
#[derive(Default)]
struct Asked {
    resident: [u64; UNITS as usize],
    /// Resident pages that leave memory once the unit was chosen.
    leaves: Option<u64>,
    access: Option<Access>,
    /// A unit that takes two steps, and whether it is begun.
    is_long: Option<(u64, bool)>,
    filled: u64,
    order: Vec<u64>,
}

fn unit(object: u64) -> Work {
    Work { object, part: 0 }
}

impl Task for Asked {
    type Error = Infallible;

    fn work_of(&self, _: &Page) -> Option<Work> {
        None
    }

    fn visit_works(&self, page: &Page, visit: &mut dyn FnMut(Work)) {
        let first = page.object * 2;
        [first, first + 1].into_iter().map(unit).for_each(visit);
    }

    fn resident_pages(&self, work: Work) -> Option<u64> {
        Some(self.resident[work.object as usize])
    }

    fn pages(&self, _: Work) -> u64 {
        PAGES
    }

    fn next(&mut self, after: Option<Work>) -> Result<Option<Work>, Infallible> {
        let next = after.map_or(0, |work| work.object + 1);
        self.filled = self.filled.max(next + 1);
        Ok((next < UNITS).then_some(unit(next)))
    }

    fn process(&mut self, work: Work, _: u64) -> Result<Processed, Infallible> {
        if self.access == Some(Access::Memory) && self.leaves == Some(work.object) {
            return Ok(Processed {
                needs_device: true,
                ..Processed::default()
            });
        }
        if self.is_long == Some((work.object, false)) {
            self.is_long = Some((work.object, true));
            return Ok(Processed::default());
        }
        self.order.push(work.object);
        Ok(Processed {
            is_done: true,
            ..Processed::default()
        })
    }
}

struct Run {
    world: World,
    driver: Driver,
    task: Asked,
}

impl Run {
    fn new(lookahead: usize) -> Self {
        let world = World::new(1 << 10);
        let (space, scope) = (duet::Space::Pages, Scope::Everything);
        let session = world.duet.register(space, scope, Mask::EXISTS, 0);
        let options = DriverOptions {
            lookahead: Some(lookahead),
            asks_max: 1,
            interleaves: true,
            ..DriverOptions::default()
        };
        let session = session.expect("few sessions");
        let driver = Driver::new(session, options, TaskProgress::new(0));
        Self {
            world,
            driver,
            task: Asked::default(),
        }
    }

    fn step(&mut self, access: Access) -> DriverStep<Infallible> {
        self.task.access = Some(access);
        let Ok(step) = self
            .driver
            .step(&mut self.task, &self.world, 0, (1, access));
        step
    }

    /// Steps in memory until the device is needed.
    fn in_memory(&mut self) {
        while self.step(Access::Memory) != DriverStep::NeedsDevice {}
    }

    /// Fills the look-ahead of six.
    fn filled() -> Self {
        let mut run = Self::new(6);
        for looked in 1..6 {
            assert_eq!(run.step(Access::Device), DriverStep::Looked);
            assert_eq!(run.task.filled, looked, "one unit a step");
        }
        run.in_memory();
        assert_eq!(run.task.order, []);
        run
    }
}

#[test]
fn an_event_of_a_shared_page_asks_for_each_unit() {
    let mut run = Run::filled();
    run.task.resident[2] = PAGES;
    run.task.resident[3] = PAGES;
    // Known to the task, and no event says so.
    run.task.resident[4] = PAGES;
    run.world.add(page(1, 0));
    run.in_memory();
    assert_eq!(run.task.order, [2, 3]);
    // A unit that enters the look-ahead is asked for.
    run.task.resident[6] = PAGES;
    run.task.resident[11] = PAGES;
    while run.step(Access::Device) != DriverStep::Finished {}
    assert_eq!(run.task.order, [2, 3, 0, 6, 1, 4, 5, 11, 7, 8, 9, 10]);
}

#[test]
fn pages_that_left_memory_unreported_are_noticed() {
    let mut run = Run::filled();
    for n in [1, 2] {
        run.task.resident[n] = PAGES;
        run.task.resident[n + 2] = PAGES;
    }
    (0..3).for_each(|n| run.world.add(page(n, 0)));
    // One is evicted before it is chosen, another one afterwards.
    run.task.resident[1] = PAGES - 1;
    run.task.leaves = Some(3);
    run.in_memory();
    assert_eq!(run.task.order, [2]);
    // The unit that was chosen goes on with the device; then there are those in memory.
    assert!(matches!(
        run.step(Access::Device),
        DriverStep::Worked { .. }
    ));
    assert_eq!(run.task.order, [2, 3]);
    run.in_memory();
    assert_eq!(run.task.order, [2, 3, 4]);
    while run.step(Access::Device) != DriverStep::Finished {}
    let mut order = run.task.order;
    order.sort();
    assert_eq!(order, (0..UNITS).collect::<Vec<_>>());
}

#[test]
fn a_unit_that_needs_the_device_delays_none_in_memory() {
    let mut run = Run::filled();
    run.task.is_long = Some((0, false));
    assert!(matches!(
        run.step(Access::Device),
        DriverStep::Worked { .. }
    ));
    assert_eq!(run.task.order, []);
    run.task.resident[2] = PAGES;
    run.world.add(page(1, 0));
    run.in_memory();
    assert_eq!(run.task.order, [2]);
    assert!(run.driver.progress().again.contains(unit(0)), "it is begun");
    assert!(matches!(
        run.step(Access::Device),
        DriverStep::Worked { .. }
    ));
    assert_eq!(run.task.order, [2, 0]);
    while run.step(Access::Device) != DriverStep::Finished {}
    let mut order = run.task.order;
    order.sort();
    assert_eq!(order, (0..UNITS).collect::<Vec<_>>());
}
