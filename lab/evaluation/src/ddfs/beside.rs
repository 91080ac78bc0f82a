//! The rows with streams of backup and restore beside random reads, and their table.
//!
//! The page calls this.
//! Invariant: rows with and without the scheduler differ in nothing else.

use super::load::{Clients, Outcome};
use super::pool::Base;
use super::rows::{Caches, Row, Software, all, measure, measured, warmed};
use super::settings::Settings;
use super::streams::{Beside, StreamOutcome};
use crate::disk::{Ns, SECOND};
use crate::figures::Table;
use crate::rooms::pacing::Pacing;
use qos::{DeviceKind, Plan};
use store::{Result, StoreError, StoreErrorKind};

/// Streams that restore, and streams that store: 96 in all.
const RESTORES: u64 = 64;
const BACKUPS: u64 = 32;
/// Random reads a second beside them.
const RANDOMS: u64 = 10_000;
/// Images in order.
const ORDERED: u64 = 12;
/// Time that is measured.
const TIME: Ns = SECOND;

/// Which scheduler stands in front of the pool.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Scheduling {
    /// None: requests are at their disks when they come.
    Without,
    /// The one that ships, with its defaults.
    Ships,
    /// The same for disks, `--qos device=disk in-flight=N`.
    ForArrays(u16),
}

const SCHEDULING: [(Scheduling, &str); 4] = [
    (Scheduling::Without, "no scheduler"),
    (Scheduling::Ships, "the scheduler with its defaults"),
    (
        Scheduling::ForArrays(330),
        "`--qos device=disk in-flight=330`",
    ),
    (
        Scheduling::ForArrays(165),
        "`--qos device=disk in-flight=165`",
    ),
];
const CACHES: [(Caches, &str); 2] = [
    (Caches::Data, "data on flash"),
    (Caches::Metadata, "index and recipes on flash"),
];

struct Job {
    caches: Caches,
    scheduling: Scheduling,
    beside: Beside,
}

/// Rows with streams, and what came out.
pub struct StreamRows {
    /// By contents of the flash device, by scheduler: streams alone, and beside random reads;
    /// random reads alone.
    outcomes: Vec<StreamOutcome>,
    /// 70 % reads, 30 % writes to the images in order, which are not read.
    pub spread: Outcome,
}

fn jobs(settings: &Settings) -> Vec<Job> {
    let both = Beside {
        restores: RESTORES,
        backups: BACKUPS,
        images: settings.images * 3 / 4,
        randoms: RANDOMS,
    };
    let alone = Beside { randoms: 0, ..both };
    let randoms = Beside {
        restores: 0,
        backups: 0,
        ..both
    };
    let mut jobs = Vec::new();
    for (caches, _) in CACHES {
        for (scheduling, _) in SCHEDULING {
            for beside in [alone, both, randoms] {
                jobs.push(Job {
                    caches,
                    scheduling,
                    beside,
                });
            }
        }
    }
    jobs
}

fn plan(scheduling: Scheduling) -> Option<Plan> {
    match scheduling {
        Scheduling::Without => None,
        Scheduling::Ships => Some(Plan::default()),
        Scheduling::ForArrays(in_flight) => Some(Plan {
            device: Some(DeviceKind::Disk),
            in_flight_max: Some(in_flight),
            ..Plan::default()
        }),
    }
}

/// Runs all rows.
pub fn results(settings: &Settings, threads: usize) -> Result<StreamRows> {
    let settings = Settings {
        ordered: ORDERED,
        ..*settings
    };
    let base = Base::new(&settings)?;
    let row = |caches| Row::of(&settings, caches, Software::on(), settings.images * 3 / 4);
    let warm = all(&CACHES, threads, |(caches, _)| {
        warmed(&row(*caches), &base, settings.images * 3 / 4)
    })?;
    let outcomes = all(&jobs(&settings), threads, |job| {
        let nth = usize::from(job.caches != Caches::Data);
        let missing = || StoreError::new(StoreErrorKind::Invalid, "no such flash device");
        let warm = warm.get(nth).ok_or_else(missing)?;
        let opened = warm.open(&measured(&row(job.caches), &base), 4)?;
        let mut clients = Clients::new(opened, &settings)?;
        if let Some(plan) = plan(job.scheduling) {
            let refused =
                |e: qos::InvalidShares| StoreError::new(StoreErrorKind::Invalid, e.to_string());
            clients
                .server
                .world
                .pace(Pacing::new(plan).map_err(refused)?);
        }
        clients.run_streams(&job.beside, TIME)
    })?;
    let writing = Row {
        writes_percent: 30,
        writes_beside: true,
        ..row(Caches::Data)
    };
    let spread = measure(&writing, &base, warm.first())?;
    Ok(StreamRows { outcomes, spread })
}

impl StreamRows {
    fn of(&self, caches: usize, scheduling: usize) -> [StreamOutcome; 3] {
        let first = (caches * SCHEDULING.len() + scheduling) * 3;
        [0, 1, 2].map(|nth| self.outcomes.get(first + nth).cloned().unwrap_or_default())
    }

    /// Returns what streams lose beside random reads, percent: with a request for each disk at
    /// once.
    pub fn lost_percent(&self) -> [f64; 2] {
        [0, 1].map(|caches| {
            let [alone, both, _] = self.of(caches, SCHEDULING.len() - 1);
            lost(&alone, &both)
        })
    }

    /// Returns the table.
    pub fn text(&self) -> String {
        let mut table = Table::new([
            "",
            "restores alone, MB/s",
            "beside random reads",
            "backups alone, MB/s",
            "beside random reads",
            "streams lose, %",
            "random reads a second alone",
            "mean, ms",
            "beside streams",
            "mean, ms",
        ]);
        for (caches, (_, on)) in CACHES.iter().enumerate() {
            for (scheduling, (_, name)) in SCHEDULING.iter().enumerate() {
                let [alone, both, randoms] = self.of(caches, scheduling);
                let rate = |of: &StreamOutcome, bytes| format!("{:.0}", of.rate(bytes) / 1e6);
                table.row([
                    format!("{on}, {name}"),
                    rate(&alone, alone.restored),
                    rate(&both, both.restored),
                    rate(&alone, alone.stored),
                    rate(&both, both.stored),
                    format!("{:.1}", lost(&alone, &both)),
                    format!("{:.0}", randoms.randoms()),
                    format!("{:.1}", randoms.mean_ms()),
                    format!("{:.0}", both.randoms()),
                    format!("{:.1}", both.mean_ms()),
                ]);
            }
        }
        format!(
            "### {} streams beside random reads\n\n{}",
            RESTORES + BACKUPS,
            table.into_text()
        )
    }
}

fn lost(alone: &StreamOutcome, both: &StreamOutcome) -> f64 {
    let rate = |of: &StreamOutcome| of.rate(of.restored + of.stored);
    (1.0 - rate(both) / rate(alone).max(1.0)) * 100.0
}
