//! One run: a disk, a page cache, a web server, and maintenance at idle priority, as events in
//! virtual time.
//!
//! The grid calls this.
//! Invariant: a request at idle priority begins only if no request of the web server waits and none
//! has ended within the grace time (Linux's CFQ, idle class). A running request is not interrupted.
//! Work on files in memory needs no disk, so it is done at each fetch, even beside a busy web
//! server.

mod due;

use super::files::Files;
use super::product::{Due, Product};
use super::settings::{CHUNKS, FILE_BYTES, FRAME_BYTES, Kind, LOG_BYTES, Load, Order, Settings};
use super::task::{FileTask, Ground, Wish};
use super::web::{Asked, WebServer};
use crate::disk::{Disk, DiskRequest, Ns};
use duet::{
    Access, Driver, DriverOptions, DriverStep, Duet, DuetOptions, Mask, Scope, Space, TaskProgress,
};
use page_cache::{PageCache, Place, S3Fifo, Use};
use sim::Seed;
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

/// Size of the log, a ring, bytes.
const LOG_RING_BYTES: u64 = 1 << 30;
/// Maximum number of waiting requests of a task that writes (64 MiB). Beyond it, the task skips
/// cached files.
const WISHES_MAX: usize = 512;
/// Maximum size of a request of a write-back, bytes.
const WRITE_BYTES_MAX: u64 = 1 << 20;

pub use due::DueOutcome;

enum InFlight {
    Web(Asked),
    Maintenance(usize, Wish),
}

struct Run {
    driver: Driver,
    task: FileTask,
    /// The task waits until then.
    ready_at: Ns,
    finished_at: Option<Ns>,
    deadline: Option<Ns>,
}

impl Run {
    fn has_done_all(&self) -> bool {
        let counts = self.driver.status(0).counts;
        counts.pages_done >= self.task.files() * CHUNKS
    }
}

/// Result of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// True if every task finished in time.
    pub is_complete: bool,
    /// Share of all tasks' files that were done, permille.
    pub done_per_mille: u64,
    /// Disk bytes that maintenance used.
    pub maintenance_bytes: u64,
    /// Bytes that its finished work would have used with nothing in memory.
    pub work_bytes: u64,
    /// Bytes of all tasks.
    pub task_bytes: u64,
    /// Time until maintenance ended, or of the whole run.
    pub maintenance_time: Ns,
    /// Time for which the web server kept the disk busy during maintenance, and the time of
    /// maintenance.
    pub web_busy: (Ns, Ns),
    /// The web server's requests, and their total time.
    pub web: (u64, Ns),
    /// 99th percentile of the latencies of the web server's requests that needed the disk.
    pub web_p99: Ns,
    /// Maximum number of files in memory.
    pub cached_files: u64,
}

impl Outcome {
    /// Returns maintenance's disk bytes per second.
    pub fn maintenance_rate(&self) -> f64 {
        self.maintenance_bytes as f64 / (self.maintenance_time.max(1) as f64 / 1e9)
    }

    /// Returns the share of I/O that the finished work did not need.
    pub fn saved(&self) -> f64 {
        1.0 - self.maintenance_bytes as f64 / self.work_bytes.max(1) as f64
    }
}

/// The world. See the module's head.
pub struct World {
    settings: Settings,
    ground: Rc<Ground>,
    duet: Arc<Duet>,
    disk: Disk,
    web: WebServer,
    asked: VecDeque<Asked>,
    in_flight: Option<(Ns, InFlight)>,
    last_web_end: Ns,
    log: (u64, u64),
    next_write_back: Ns,
    next_fetch: Ns,
    runs: Vec<Run>,
    turn: usize,
    has_events: bool,
    now: Ns,
    outcome: Outcome,
    /// Latencies of the web server's reads.
    latencies: Vec<Ns>,
    product: Option<Product>,
}

impl World {
    /// `busy` is the mean disk time of a web server's request.
    pub fn new(settings: Settings, load: Load, busy: Ns) -> Self {
        let files = Files::new(&settings);
        let frames_bytes = settings.cache_bytes / super::settings::CHUNK_BYTES * FRAME_BYTES as u64;
        let duet = Duet::new(DuetOptions {
            items_max: 1 << 20,
            seed: settings.seed,
        });
        // The real cache also uses memory for tables. Here files get all of the configured size.
        let options =
            page_cache::PageCacheOptions::new(frames_bytes + frames_bytes / 8, settings.seed);
        let policy = Box::new(S3Fifo::new(options.bytes_max));
        let events = Arc::clone(&duet);
        let web = WebServer::new(load, &files, busy, Seed::new(settings.seed).part(4));
        let fresh = files.log_address() + LOG_RING_BYTES;
        Self {
            settings,
            ground: Rc::new(Ground {
                cache: PageCache::new(options, policy, events),
                files,
                fresh_address: Cell::new(fresh),
            }),
            duet,
            disk: Disk::new(settings.disk),
            web,
            asked: VecDeque::new(),
            in_flight: None,
            last_web_end: 0,
            log: (0, 0),
            next_write_back: settings.write_back,
            next_fetch: settings.fetch,
            runs: Vec::new(),
            turn: 0,
            has_events: false,
            now: 0,
            outcome: Outcome::default(),
            latencies: Vec::new(),
            product: (settings.order == Order::Product).then(Product::new),
        }
    }

    /// Runs a whole experiment: warm-up, then maintenance.
    pub fn experiment(mut self, tasks: &[Kind], has_events: bool) -> Outcome {
        let settings = self.settings;
        self.advance(settings.warm_up);
        self.outcome = Outcome::default();
        self.latencies.clear();
        self.begin(tasks, has_events);
        let end = settings.warm_up + settings.run;
        self.advance(end);
        let mut outcome = std::mem::take(&mut self.outcome);
        self.latencies.sort_unstable();
        let at = self.latencies.len() * 99 / 100;
        outcome.web_p99 = self.latencies.get(at).copied().unwrap_or(0);
        outcome.is_complete = self.runs.iter().all(|run| run.finished_at.is_some());
        outcome.web_busy.1 = settings.run;
        outcome.maintenance_time = self
            .runs
            .iter()
            .map(|run| run.finished_at.unwrap_or(end))
            .max()
            .unwrap_or(end)
            - settings.warm_up;
        let (mut files, mut done) = (0, 0);
        for run in &self.runs {
            let counts = run.driver.status(0).counts;
            let waiting: u64 = run.task.wishes.iter().map(|wish| wish.request.bytes).sum();
            let done_files = counts.pages_done / CHUNKS;
            files += run.task.files();
            done += done_files;
            outcome.maintenance_bytes += run.task.device_bytes - waiting;
            outcome.task_bytes += run.task.bytes();
            outcome.work_bytes += run.task.bytes() / run.task.files().max(1) * done_files - waiting;
        }
        outcome.done_per_mille = done * 1000 / files.max(1);
        outcome
    }

    /// Returns the disk time of a web server's request when requests follow each other without a
    /// pause.
    pub fn web_cost(mut self) -> Ns {
        let settings = self.settings;
        self.advance(settings.warm_up);
        self.outcome = Outcome::default();
        let served = self.web.served();
        self.advance(settings.warm_up + settings.run / 6);
        self.outcome.web_busy.0 / (self.web.served() - served).max(1)
    }

    fn begin(&mut self, tasks: &[Kind], has_events: bool) {
        self.has_events = has_events;
        for kind in tasks {
            let mask = match (has_events, kind) {
                // This event never occurs here: no page is ever written.
                (false, _) => Mask::FLUSHED,
                (true, Kind::Scrub) => Mask::ADDED,
                (true, _) => Mask::EXISTS,
            };
            let Ok(session) = self
                .duet
                .register(Space::Chunks, Scope::Everything, mask, 0)
            else {
                continue;
            };
            let options = match kind {
                Kind::HostBackup => DriverOptions::nearly_in_order(),
                _ => DriverOptions::default(),
            };
            self.runs.push(Run {
                driver: Driver::new(session, options, TaskProgress::new(0)),
                task: FileTask::new(Rc::clone(&self.ground), *kind, has_events),
                ready_at: self.now,
                finished_at: None,
                deadline: None,
            });
        }
    }

    fn advance(&mut self, until: Ns) {
        while self.now < until {
            self.complete();
            self.arrive();
            if self.has_events && self.next_fetch <= self.now {
                self.next_fetch = self.now + self.settings.fetch;
                (0..self.runs.len()).for_each(|nth| self.work_in_memory(nth));
            }
            if self.in_flight.is_none() {
                match self.product.take() {
                    Some(product) => self.start_by(product),
                    None => self.start(),
                }
            }
            self.now = self.next_event().min(until);
        }
    }

    fn next_event(&self) -> Ns {
        let mut next = self.next_write_back;
        let mut at = |time: Ns| {
            if time > self.now {
                next = next.min(time);
            }
        };
        if self.has_events {
            at(self.next_fetch);
        }
        match &self.in_flight {
            Some((end, _)) => at(*end),
            None => {
                at(self.last_web_end + self.settings.grace);
                self.runs.iter().for_each(|run| at(run.ready_at));
            }
        }
        if let Some(time) = self.web.next {
            at(time);
        }
        if let Some(time) = self.product.as_ref().and_then(|p| p.wakes_at(self.now)) {
            at(time);
        }
        next
    }

    fn complete(&mut self) {
        let Some((_, done)) = self.in_flight.take_if(|(end, _)| *end <= self.now) else {
            return;
        };
        match done {
            InFlight::Web(asked) => {
                self.last_web_end = self.now;
                if let Some(product) = &mut self.product {
                    product.web_done(asked.since, self.now);
                }
                if let Some(file) = asked.file {
                    (0..CHUNKS).for_each(|chunk| {
                        self.ground.keep(
                            Place {
                                object: file,
                                chunk,
                            },
                            Use::Demand,
                        )
                    });
                    self.outcome.web.0 += 1;
                    self.outcome.web.1 += self.now - asked.since;
                    self.latencies.push(self.now - asked.since);
                }
            }
            InFlight::Maintenance(nth, wish) => {
                if let Some(place) = wish.chunk {
                    self.ground.keep(place, Use::Scan);
                }
                let Some(run) = self.runs.get_mut(nth) else {
                    return;
                };
                if let Some(product) = &mut self.product {
                    let next = run.task.wishes.front().map(|wish| wish.request);
                    product.piece_done(nth, wish.request, next, self.now);
                }
                if run.task.wishes.is_empty() {
                    run.ready_at = self.now + self.settings.between_files;
                    self.turn = nth + 1;
                    self.note_finished(nth);
                }
            }
        }
    }

    fn note_finished(&mut self, nth: usize) {
        if let Some(run) = self.runs.get_mut(nth)
            && run.finished_at.is_none()
            && run.task.wishes.is_empty()
            && run.has_done_all()
        {
            run.finished_at = Some(self.now);
        }
    }

    fn arrive(&mut self) {
        if self.next_write_back <= self.now {
            self.next_write_back += self.settings.write_back;
            let (at, mut pending) = self.log;
            let mut at = at;
            while pending > 0 {
                let bytes = pending.min(WRITE_BYTES_MAX).min(LOG_RING_BYTES - at);
                let address = self.ground.files.log_address() + at;
                let request = DiskRequest {
                    address,
                    bytes,
                    is_write: true,
                };
                self.asked.push_back(Asked {
                    since: self.now,
                    request,
                    file: None,
                });
                (at, pending) = ((at + bytes) % LOG_RING_BYTES, pending - bytes);
            }
            self.log = (at, 0);
        }
        while let Some(since) = self.web.next.filter(|next| *next <= self.now) {
            if self.web.is_saturating() && self.has_asked() {
                break;
            }
            let file = self.web.pick(&self.ground.files);
            self.log.1 += LOG_BYTES;
            self.web.plan(since.max(self.now));
            if self.ground.read_cached(file, Use::Demand).is_empty() {
                self.outcome.web.0 += 1;
                self.web.hit(self.now);
                continue;
            }
            let request = DiskRequest {
                address: self.ground.files.address(file),
                bytes: FILE_BYTES,
                is_write: false,
            };
            self.asked.push_back(Asked {
                since,
                request,
                file: Some(file),
            });
        }
    }

    fn has_asked(&self) -> bool {
        !self.asked.is_empty() || self.product.as_ref().is_some_and(Product::has_web)
    }

    /// Lets the product's scheduler choose what the disk serves.
    fn start_by(&mut self, mut product: Product) {
        self.asked.drain(..).for_each(|asked| product.ask(asked));
        for (nth, run) in self.runs.iter().enumerate() {
            let may = run.finished_at.is_none() && run.ready_at <= self.now;
            if may || !run.task.wishes.is_empty() {
                product.wish(nth, run.task.kind());
            }
        }
        while self.in_flight.is_none()
            && let Some(due) = product.next(self.now)
        {
            match due {
                Due::Web(asked) => {
                    let end = self.disk.serve(self.now, asked.request);
                    self.outcome.web_busy.0 += end - self.now;
                    self.in_flight = Some((end, InFlight::Web(asked)));
                }
                Due::Task(nth) => {
                    self.work_on_disk(nth);
                    let wishes = self.runs.get_mut(nth).map(|run| &mut run.task.wishes);
                    match wishes.and_then(VecDeque::pop_front) {
                        Some(wish) => {
                            product.begins(nth, wish.request, self.now);
                            let end = self.disk.serve(self.now, wish.request);
                            self.in_flight = Some((end, InFlight::Maintenance(nth, wish)));
                        }
                        None => product.leaves(nth, self.now),
                    }
                }
            }
        }
        self.product = Some(product);
    }

    fn start(&mut self) {
        if let Some(asked) = self.asked.pop_front() {
            let end = self.disk.serve(self.now, asked.request);
            self.outcome.web_busy.0 += end - self.now;
            self.in_flight = Some((end, InFlight::Web(asked)));
            return;
        }
        if self.now < self.last_web_end + self.settings.grace && self.last_web_end > 0 {
            return;
        }
        for turn in 0..self.runs.len() {
            let nth = (self.turn + turn) % self.runs.len();
            self.work_on_disk(nth);
            let Some(run) = self.runs.get_mut(nth) else {
                continue;
            };
            if let Some(wish) = run.task.wishes.pop_front() {
                // A task keeps the disk until its file is done.
                self.turn = nth;
                let end = self.disk.serve(self.now, wish.request);
                self.in_flight = Some((end, InFlight::Maintenance(nth, wish)));
                return;
            }
        }
    }

    /// The disk is free: does any work.
    fn work_on_disk(&mut self, nth: usize) {
        while let Some(run) = self.runs.get_mut(nth)
            && run.task.wishes.is_empty()
            && run.ready_at <= self.now
            && run.finished_at.is_none()
        {
            let step = run.driver.step(
                &mut run.task,
                &self.ground.cache,
                self.now,
                (FILE_BYTES, Access::Device),
            );
            self.note_finished(nth);
            if !matches!(step, Ok(DriverStep::Worked { .. } | DriverStep::Looked)) {
                break;
            }
        }
    }

    /// Works on cached files. A task that takes one file after another waits for the disk instead.
    fn work_in_memory(&mut self, nth: usize) {
        let Some(run) = self
            .runs
            .get_mut(nth)
            .filter(|run| run.finished_at.is_none())
        else {
            return;
        };
        if run.task.kind() == Kind::HostBackup {
            self.work_on_disk(nth);
            return;
        }
        while run.task.wishes.len() < WISHES_MAX
            && let Ok(DriverStep::Worked { processed, .. }) = run.driver.step(
                &mut run.task,
                &self.ground.cache,
                self.now,
                (FILE_BYTES, Access::Memory),
            )
        {
            if processed.bytes_read > 0 {
                break;
            }
        }
        self.note_finished(nth);
    }
}
