//! The rows of the page: which caches, which switches, which load. They run on all processors, each
//! on one thread.
//!
//! The page calls this.
//! Invariant: the flash device is warmed with random reads of the same images, without a limit of
//! writes; the measured copy has the limit that ships. A row depends on nothing but its settings.

use super::load::{Clients, Load, Outcome};
use super::pool::{Base, CopyOptions};
use super::settings::{FITTING, Settings};
use crate::maintenance::grid::map;
use crate::rooms::machine::FastSettings;
use classes::Share;
use ssd_tier::KindShares;
use std::collections::BTreeMap;
use store::Result;
use volumes::Switches;

/// Contents of the flash device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Caches {
    /// There is none.
    Off,
    /// The index's copy only.
    Index,
    /// Recipes only.
    Recipes,
    /// The index's copy and recipes.
    Metadata,
    /// These, and data.
    Data,
}

/// The software optimisations of the paper, as far as they can be switched off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Software {
    /// Switches that `--without` leaves on.
    pub switches: Switches,
    /// The server serves one request of an image at a time. No switch of the product.
    pub serial: bool,
}

/// Names of the switches of the product that are optimisations of the paper for reads.
pub const SWITCHES: [&str; 3] = ["direct-regions", "shared-reads", "fast-surroundings"];

impl Software {
    /// All of them.
    pub fn on() -> Self {
        Self::without(&[])
    }

    /// None of those that are switches.
    pub fn off() -> Self {
        Self::without(&SWITCHES)
    }

    /// The same, with one request of an image at a time.
    #[must_use]
    pub fn serially(self) -> Self {
        Self {
            serial: true,
            ..self
        }
    }

    /// All but these.
    pub fn without(names: &[&str]) -> Self {
        let mut switches = Switches::default();
        for name in names {
            switches.turn_off(name);
        }
        Self {
            switches,
            serial: false,
        }
    }
}

/// A row.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Devices and memory.
    pub settings: Settings,
    /// Contents of the flash device.
    pub caches: Caches,
    /// Percentage of the flash device that there is.
    pub flash_percent: u64,
    /// Optimisations.
    pub software: Software,
    /// Images with random requests.
    pub images: u64,
    /// Streams beside them.
    pub streams: u64,
    /// Percentage of writes.
    pub writes_percent: u64,
    /// Writes go to images that are not read.
    pub writes_beside: bool,
}

impl Row {
    /// Random reads with the whole flash device.
    pub fn of(settings: &Settings, caches: Caches, software: Software, images: u64) -> Self {
        Self {
            settings: *settings,
            caches,
            flash_percent: 100,
            software,
            images,
            streams: 0,
            writes_percent: 0,
            writes_beside: false,
        }
    }
}

const METADATA: KindShares = KindShares {
    data: Share::percent::<0>(),
    recipes: Share::percent::<20>(),
    directories: Share::percent::<10>(),
};
const NOTHING: KindShares = KindShares {
    data: Share::percent::<0>(),
    recipes: Share::percent::<0>(),
    directories: Share::percent::<0>(),
};
/// Hundredths of capacities a day while the flash warms up: no limit that matters.
const UNLIMITED: u32 = 100_000_000;
/// The same that ships.
const SHIPPED: u32 = 300;
/// Maximum number of rounds of warming.
const ROUNDS_MAX: u32 = 8;

/// Returns the size of the row's flash device, bytes.
pub fn flash_bytes(row: &Row, base: &Base) -> u64 {
    row.settings.flash_bytes(2 * base.index_bytes) * row.flash_percent / 100
}

pub(super) fn opening(row: &Row, base: &Base, daily_writes_hundredths: u32) -> CopyOptions {
    let (index, kinds) = match row.caches {
        Caches::Off | Caches::Index => (true, NOTHING),
        Caches::Recipes => (false, METADATA),
        Caches::Metadata => (true, METADATA),
        Caches::Data => (true, KindShares::ALONE),
    };
    let fast = FastSettings {
        bytes: flash_bytes(row, base),
        index: index.then_some(Share::percent::<50>()),
        kinds,
        daily_writes_hundredths,
        has_journal: row.writes_percent > 0,
    };
    CopyOptions {
        fast: (row.caches != Caches::Off).then_some(fast),
        switches: row.software.switches,
        pool_memory: row.settings.pool_memory,
        page_memory: row.settings.page_memory,
    }
}

/// How a flash device was warmed: its contents and size, the images, the requests of a round, and
/// whether reads went directly to regions: others bring directories.
type Warmth = (Caches, u64, u64, u64, bool);

fn warmth(row: &Row) -> Option<Warmth> {
    let fitting = FITTING * row.settings.images / 32;
    let images = match row.images {
        0 => row.settings.images,
        few if few <= fitting => fitting,
        many => many,
    };
    (row.caches != Caches::Off).then_some((
        row.caches,
        row.flash_percent,
        images,
        row.settings.warm,
        row.software.switches.direct_regions,
    ))
}

/// Warms the flash device until a round changes its hits by less than a hundredth.
pub(super) fn warmed(row: &Row, base: &Base, images: u64) -> Result<Base> {
    let software = match row.software.switches.direct_regions {
        true => Software::on(),
        false => Software::without(&["direct-regions"]),
    };
    let row = Row {
        software,
        writes_percent: 0,
        writes_beside: false,
        ..*row
    };
    let has_data = row.caches == Caches::Data;
    let opened = base.open(&opening(&row, base, UNLIMITED), 3)?;
    let mut clients = Clients::new(opened, &row.settings)?;
    let each = row.settings.warm / if has_data { 1 } else { 8 };
    let load = Load {
        images,
        streams: 0,
        writes_percent: 0,
        writes_beside: false,
        serial: false,
        warm: 0,
        measured: each * images,
    };
    let mut before = 0.0;
    for _ in 0..ROUNDS_MAX {
        let percent = clients.run(&load)?.counts.tier_percent();
        if !has_data || percent - before < 1.0 {
            break;
        }
        before = percent;
    }
    clients.into_opened().saved()
}

/// Returns by how much the flash device is smaller than one percent of the disks. A day is shorter
/// by as much: rates are not scaled.
pub fn scale(row: &Row, base: &Base) -> u64 {
    row.settings.full_flash_bytes() / row.settings.flash_bytes(2 * base.index_bytes).max(1)
}

/// Returns the options of the server that is measured: the limit that ships counts for a scaled
/// day.
pub(super) fn measured(row: &Row, base: &Base) -> CopyOptions {
    let daily = u64::from(SHIPPED) * scale(row, base);
    opening(row, base, u32::try_from(daily).unwrap_or(u32::MAX))
}

pub(super) fn measure(row: &Row, base: &Base, warm: Option<&Base>) -> Result<Outcome> {
    let opened = warm.unwrap_or(base).open(&measured(row, base), 4)?;
    let mut clients = Clients::new(opened, &row.settings)?;
    let measured = match row.images {
        0 => row.settings.measured / 16,
        _ if row.streams + row.writes_percent > 0 => row.settings.measured * 8,
        few => row.settings.measured.min(few * row.settings.measured / 4),
    };
    clients.run(&Load {
        images: row.images,
        streams: row.streams,
        writes_percent: row.writes_percent,
        writes_beside: row.writes_beside,
        serial: row.software.serial,
        warm: measured / 4,
        measured,
    })
}

/// Does all jobs, on as many threads. The results are in their order.
pub(super) fn all<I: Sync, O: Send>(
    jobs: &[I],
    threads: usize,
    job: impl Fn(&I) -> Result<O> + Sync,
) -> Result<Vec<O>> {
    let numbers: Vec<usize> = (0..jobs.len()).collect();
    let results = map(&numbers, threads, |number| job(&jobs[*number]));
    results.into_iter().map(|(_, result)| result).collect()
}

/// Measures all rows.
pub fn run(base: &Base, rows: &[Row], threads: usize) -> Result<Vec<Outcome>> {
    let mut wanted: BTreeMap<Warmth, Row> = BTreeMap::new();
    for row in rows {
        if let Some(warmth) = warmth(row) {
            wanted.entry(warmth).or_insert(*row);
        }
    }
    let wanted: Vec<(Warmth, Row)> = wanted.into_iter().collect();
    let bases = all(&wanted, threads, |((_, _, images, ..), row)| {
        warmed(row, base, *images)
    })?;
    let warm: BTreeMap<Warmth, Base> = wanted.into_iter().map(|(of, _)| of).zip(bases).collect();
    all(rows, threads, |row| {
        measure(row, base, warmth(row).and_then(|of| warm.get(&of)))
    })
}
