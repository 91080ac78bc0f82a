//! The page of DDFS: the published ladders beside our runs.
//!
//! The program `evaluation` calls this.
//! Invariant: published figures are constants here; all others come from runs. A bar is the
//! published figure less 20 %, or the published limit.

mod bars;

use super::beside::{self, StreamRows};
use super::load::Outcome;
use super::pool::Base;
use super::rows::{Caches, Row, SWITCHES, Software, flash_bytes, run, scale};
use super::settings::Settings;
use super::traffic::{by_owner, drive_writes};
use crate::disk::SECOND;
use crate::figures::{Line, Panel, Table};
use crate::rooms::recorder::{DeviceName, FileUse};

/// Numbers of images on the plot, of 32.
const SWEEP: [u64; 7] = [1, 2, 4, 8, 16, 24, 32];
const STEPS: [(Caches, &str, &str); 3] = [
    (Caches::Off, "nothing on flash", "#64748b"),
    (Caches::Metadata, "index and recipes on flash", "#0d9488"),
    (Caches::Data, "data on flash too", "#c2410c"),
];
/// Requests a second and device reads a request, published, with all software.
const PUBLISHED: [(f64, &str); 3] = [
    (3_200.0, "3,200 at 35 ms, 6 reads"),
    (28_000.0, "28,000 at 10 ms"),
    (57_000.0, "57,000 below 5 ms"),
];
const SHARES: [u64; 4] = [25, 50, 75, 100];
const STREAMS: u64 = 96;
/// Copies of images beside random reads.
const COPIES: u64 = 8;

/// A change of a free parameter, and its name.
type Change = (&'static str, fn(&mut Settings));

/// Rows to run, and what came out.
struct Rows {
    rows: Vec<Row>,
    outcomes: Vec<Outcome>,
    /// Size of each row's flash device, bytes, and by how much it is smaller than at full scale.
    flash: Vec<(u64, u64)>,
}

impl Rows {
    fn add(&mut self, row: Row) -> usize {
        self.rows.push(row);
        self.rows.len() - 1
    }

    fn get(&self, at: usize) -> Outcome {
        self.outcomes.get(at).cloned().unwrap_or_default()
    }

    fn rate(&self, at: usize) -> f64 {
        self.get(at).rate()
    }
}

/// The rows of the page, by number. A short run has the ladders only.
#[derive(Default)]
struct Plan {
    with: [usize; 3],
    without: [usize; 3],
    sweep: Vec<[usize; 3]>,
    single: Vec<(String, usize)>,
    mixed: [usize; 2],
    beside: usize,
    restores: [usize; 2],
    shares: Vec<usize>,
    free: Vec<(String, [usize; 3])>,
}

/// Results of the page.
pub struct Results {
    plan: Plan,
    rows: Rows,
    streams: Option<StreamRows>,
}

fn count(value: f64) -> String {
    let digits = format!("{value:.0}");
    let at = digits.len().saturating_sub(3);
    match digits.split_at_checked(at) {
        Some((thousands, rest)) if at > 0 => format!("{thousands},{rest}"),
        _ => digits,
    }
}

/// Returns the images of a step: the last one is measured where its data fit.
fn images_of(settings: &Settings, caches: Caches) -> u64 {
    match caches {
        Caches::Data => settings.images * 3 / 4,
        _ => settings.images,
    }
}

fn ladder(rows: &mut Rows, settings: &Settings, software: Software) -> [usize; 3] {
    STEPS.map(|(caches, ..)| {
        rows.add(Row::of(
            settings,
            caches,
            software,
            images_of(settings, caches),
        ))
    })
}

fn single(rows: &mut Rows, settings: &Settings) -> Vec<(String, usize)> {
    let mut single = Vec::new();
    let mut add = |name: String, row: Row| single.push((name, rows.add(row)));
    for (caches, on) in [(Caches::Metadata, "metadata"), (Caches::Data, "data")] {
        let images = images_of(settings, caches);
        let row = |software| Row::of(settings, caches, software, images);
        add(format!("all on, {on} on flash"), row(Software::on()));
        for name in SWITCHES {
            let software = Software::without(&[name]);
            add(format!("`--without {name}`, {on} on flash"), row(software));
        }
        add(
            format!("one request of an image at a time, {on} on flash"),
            row(Software::on().serially()),
        );
        add(
            format!("that and none of the switches, {on} on flash"),
            row(Software::off().serially()),
        );
    }
    for (caches, name) in [
        (Caches::Recipes, "recipes on flash, the index not"),
        (Caches::Index, "the index on flash, recipes not"),
    ] {
        add(
            name.to_owned(),
            Row::of(settings, caches, Software::on(), settings.images),
        );
    }
    single
}

fn free(rows: &mut Rows, settings: &Settings) -> Vec<(String, [usize; 3])> {
    let changes: [Change; 7] = [
        ("flash with twice the latency", |s| s.flash.read *= 2),
        ("a quarter of the flash channels", |s| s.flash.channels /= 4),
        ("4 processors instead of 16", |s| s.processors = 4),
        ("four times the memory of the pool", |s| s.pool_memory *= 4),
        ("16 times the page cache", |s| s.page_memory *= 16),
        ("half of the warming", |s| s.warm /= 2),
        ("stripes of 64 KiB", |s| s.stripe_bytes = 64 << 10),
    ];
    let row = |(name, change): Change| {
        let mut changed = *settings;
        change(&mut changed);
        (name.to_owned(), ladder(rows, &changed, Software::on()))
    };
    changes.into_iter().map(row).collect()
}

fn plan(rows: &mut Rows, settings: &Settings, is_full: bool) -> Plan {
    let on = Software::on();
    let ladders = Plan {
        with: ladder(rows, settings, on),
        without: ladder(rows, settings, Software::off()),
        ..Plan::default()
    };
    if !is_full {
        return ladders;
    }
    let data = Row::of(
        settings,
        Caches::Data,
        on,
        images_of(settings, Caches::Data),
    );
    let at = |rows: &mut Rows, images| {
        STEPS.map(|(caches, ..)| rows.add(Row::of(settings, caches, on, images)))
    };
    let share = |flash_percent| Row {
        flash_percent,
        ..Row::of(settings, Caches::Data, on, settings.images)
    };
    let writing = |software| Row {
        writes_percent: 30,
        software,
        ..data
    };
    let restore = |caches| Row {
        streams: STREAMS,
        ..Row::of(settings, caches, on, 0)
    };
    Plan {
        sweep: SWEEP.map(|images| at(rows, images)).to_vec(),
        single: single(rows, settings),
        mixed: [on, Software::without(&["unprobed-writes"])].map(|of| rows.add(writing(of))),
        beside: rows.add(Row {
            streams: COPIES,
            ..data
        }),
        restores: [Caches::Off, Caches::Index].map(|caches| rows.add(restore(caches))),
        shares: SHARES.map(|percent| rows.add(share(percent))).to_vec(),
        free: free(rows, settings),
        ..ladders
    }
}

/// Runs all rows.
pub fn results(settings: &Settings, is_full: bool, threads: usize) -> store::Result<Results> {
    let mut rows = Rows {
        rows: Vec::new(),
        outcomes: Vec::new(),
        flash: Vec::new(),
    };
    let plan = plan(&mut rows, settings, is_full);
    let base = Base::new(settings)?;
    let flash = |row| (flash_bytes(row, &base), scale(row, &base));
    rows.flash = rows.rows.iter().map(flash).collect();
    rows.outcomes = run(&base, &rows.rows, threads)?;
    drop(base);
    let streams = match is_full {
        true => Some(beside::results(settings, threads)?),
        false => None,
    };
    Ok(Results {
        plan,
        rows,
        streams,
    })
}

const COLUMNS: [&str; 12] = [
    "",
    "images",
    "requests a second",
    "mean, ms",
    "p95, ms",
    "disk reads a request",
    "of the index",
    "of recipes and data",
    "flash reads a request",
    "data chunks found on flash, %",
    "disks at work",
    "published",
];

fn cells(rows: &Rows, name: &str, at: usize, published: &str) -> [String; 12] {
    let row = rows.rows.get(at);
    let images = row.map_or(0, |row| row.images);
    let is_data = row.is_some_and(|row| row.caches == Caches::Data);
    cells_of(&rows.get(at), name, images, is_data, published)
}

fn cells_of(
    outcome: &Outcome,
    name: &str,
    images: u64,
    is_data: bool,
    published: &str,
) -> [String; 12] {
    use DeviceName::{Fast, Pool};
    [
        name.to_owned(),
        images.to_string(),
        count(outcome.rate()),
        format!("{:.1}", outcome.mean_ms()),
        format!("{:.1}", outcome.p95_ms()),
        format!("{:.2}", outcome.all_reads(Pool)),
        format!("{:.2}", outcome.reads(Pool, FileUse::Index)),
        format!("{:.2}", outcome.reads(Pool, FileUse::Container)),
        format!("{:.2}", outcome.all_reads(Fast)),
        match is_data {
            true => format!("{:.1}", outcome.counts.tier_percent()),
            false => String::new(),
        },
        format!(
            "{:.0}",
            outcome.counts.disks_busy as f64 / outcome.time.max(1) as f64
        ),
        published.to_owned(),
    ]
}

impl Results {
    fn ladders(&self, is_full: bool) -> String {
        let Self { plan, rows, .. } = self;
        let mut with = Table::new(COLUMNS);
        let mut without = Table::new(COLUMNS);
        // Published figures belong to as many images.
        let beside = |text: &'static str| if is_full { text } else { "" };
        let derived = ["about 2,060", "about 11,800", "about 20,000"];
        for (nth, (_, name, _)) in STEPS.iter().enumerate() {
            with.row(cells(rows, name, plan.with[nth], beside(PUBLISHED[nth].1)));
            without.row(cells(rows, name, plan.without[nth], beside(derived[nth])));
        }
        let all = beside("about 55,000");
        without.row(cells(rows, "and all software", plan.with[2], all));
        format!(
            "### With the software\n\n{}\n### Without the software first\n\n{}",
            with.into_text(),
            without.into_text()
        )
    }

    fn restored(&self, at: usize) -> f64 {
        let outcome = self.rows.get(at);
        outcome.stream_bytes as f64 * SECOND as f64 / outcome.time.max(1) as f64
    }

    fn others(&self) -> String {
        let Self { plan, rows, .. } = self;
        let mut table = Table::new(COLUMNS);
        let [mixed, probed] = plan.mixed;
        table.row(cells(
            rows,
            "70 % reads, 30 % writes, the journal on flash",
            mixed,
            "44,000",
        ));
        table.row(cells(
            rows,
            "the same, `--without unprobed-writes`",
            probed,
            "",
        ));
        if let Some(streams) = &self.streams {
            let name = "the same, writes to other images than reads";
            let images = rows.rows.get(mixed).map_or(0, |row| row.images);
            table.row(cells_of(&streams.spread, name, images, true, ""));
        }
        let beside = "beside copies of eight images";
        table.row(cells(rows, beside, plan.beside, "20 % less"));
        for (percent, at) in SHARES.iter().zip(&plan.shares) {
            let name = format!("{percent} % of the flash device");
            table.row(cells(rows, &name, *at, ""));
        }
        let [off, on] = plan.restores.map(|at| self.restored(at) / 1e6);
        format!(
            "### Other loads\n\n{}\nThe copies read {:.0} MB/s. {STREAMS} streams that restore: {off:.0} MB/s with nothing on flash, {on:.0} MB/s with the index there.\n",
            table.into_text(),
            self.restored(plan.beside) / 1e6,
        )
    }

    /// Returns the drive writes a day of a row: by the tier, by the journal, by the index's copy.
    fn written(&self, at: usize, outcome: &Outcome) -> [f64; 3] {
        let flash = self.rows.flash.get(at).copied();
        let (bytes, scale) = flash.unwrap_or_default();
        [FileUse::Tier, FileUse::Journal, FileUse::Index]
            .map(|of| drive_writes(outcome, of, bytes, scale))
    }

    fn loads_with_writes(&self) -> Vec<(String, [f64; 3])> {
        let Self { plan, rows, .. } = self;
        let [mixed, _] = plan.mixed;
        let named = [
            ("data on flash".to_owned(), plan.with[2]),
            ("70 % reads, 30 % writes".to_owned(), mixed),
            ("beside copies of eight images".to_owned(), plan.beside),
        ];
        let shares = SHARES.iter().zip(&plan.shares);
        let shares = shares.map(|(percent, at)| (format!("{percent} % of the flash device"), *at));
        let all = named.into_iter().chain(shares);
        let mut all: Vec<(String, [f64; 3])> = all
            .map(|(name, at)| (name, self.written(at, &rows.get(at))))
            .collect();
        if let Some(streams) = &self.streams {
            let name = "70 % reads, 30 % writes, to other images than reads";
            all.push((name.to_owned(), self.written(mixed, &streams.spread)));
        }
        all
    }

    fn traffic(&self) -> String {
        let [mixed, _] = self.plan.mixed;
        let mixed = self.rows.get(mixed);
        let mut outcomes = vec![("the same images", &mixed)];
        if let Some(streams) = &self.streams {
            outcomes.push(("other images", &streams.spread));
        }
        let waited = |(name, of): &(&str, &Outcome)| {
            let percent = of.waited as f64 * 100.0 / of.time.max(1) as f64;
            format!("{percent:.0} % ({name})")
        };
        let waited: Vec<String> = outcomes.iter().map(waited).collect();
        let mut table = Table::new(["", "the tier", "the journal", "the index's copy"]);
        for (name, written) in self.loads_with_writes() {
            let [tier, journal, index] = written.map(|times| format!("{times:.2}"));
            table.row([name, tier, journal, index]);
        }
        let scale = self.rows.flash.first().map_or(0, |(_, scale)| *scale);
        format!(
            "### 70 % reads, 30 % writes, by owner\n\n{}\nPart of the time in which a write waited for the journal: {}.\n\n### Drive writes a day\n\nBytes are scaled by {scale}, so a day has {:.0} seconds.\n\n{}",
            by_owner(&outcomes),
            waited.join(", "),
            86_400.0 / scale.max(1) as f64,
            table.into_text(),
        )
    }

    fn singles(&self) -> String {
        let mut table = Table::new(COLUMNS);
        for (name, at) in &self.plan.single {
            table.row(cells(&self.rows, name, *at, ""));
        }
        format!("### Each optimisation\n\n{}", table.into_text())
    }

    fn free_parameters(&self) -> String {
        let mut table = Table::new([
            "changed",
            "nothing on flash, requests a second",
            "index and recipes",
            "data",
            "factors",
        ]);
        let own = ("nothing".to_owned(), self.plan.with);
        for (name, at) in std::iter::once(&own).chain(&self.plan.free) {
            let [off, metadata, data] = at.map(|at| self.rows.rate(at));
            table.row([
                name.clone(),
                count(off),
                count(metadata),
                count(data),
                format!("{:.1}, {:.1}", metadata / off, data / metadata),
            ]);
        }
        format!(
            "### What the free parameters matter\n\n{}",
            table.into_text()
        )
    }

    /// Returns the text of the full run.
    pub fn text(&self) -> String {
        format!(
            "Command: `cargo run --release -p evaluation -- ddfs`.\n\n![Requests a second by images](ddfs.svg)\n\n{}\n{}\n{}\n{}\n{}\n{}\n{}",
            self.ladders(true),
            self.singles(),
            self.others(),
            self.streams
                .as_ref()
                .map_or_else(String::new, StreamRows::text),
            self.traffic(),
            self.free_parameters(),
            self.bars_text(),
        )
    }

    /// Returns the plots.
    pub fn panels(&self) -> Vec<Panel> {
        let line = |nth: usize, of: &dyn Fn(&Outcome) -> f64| {
            let (_, name, colour) = STEPS[nth];
            let points = SWEEP.iter().zip(&self.plan.sweep);
            Line {
                name: name.to_owned(),
                colour,
                is_dashed: false,
                points: points
                    .map(|(x, at)| (*x as f64, of(&self.rows.get(at[nth]))))
                    .collect(),
            }
        };
        let panel = |title: &str, y_max, of: &dyn Fn(&Outcome) -> f64| Panel {
            title: title.to_owned(),
            x_name: "images, eight requests each".to_owned(),
            x_max: 32.0,
            y_max,
            lines: (0..3).map(|nth| line(nth, of)).collect(),
        };
        vec![
            panel("Requests a second, thousands", 180.0, &|o| o.rate() / 1e3),
            panel("Mean latency, ms", 80.0, &Outcome::mean_ms),
        ]
    }
}

/// Returns the text of a short run. A test compares it with the committed page.
pub fn short_text() -> store::Result<String> {
    let results = results(&Settings::SHORT, false, 1)?;
    Ok(format!(
        "## {} images of {} MiB\n\nCommand: `cargo run --release -p evaluation -- short`. A test repeats this run.\n\n{}",
        Settings::SHORT.images,
        Settings::SHORT.image_bytes >> 20,
        results.ladders(false),
    ))
}
