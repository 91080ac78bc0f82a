//! The page of DDFS: the published ladders beside our runs.
//!
//! The program `evaluation` calls this.
//! Invariant: published figures are constants here; all others come from runs. A bar is the
//! published figure less 20 %, or the published limit.

use super::load::Outcome;
use super::pool::Base;
use super::rows::{Caches, Row, SWITCHES, Software, run};
use super::settings::Settings;
use crate::disk::SECOND;
use crate::figures::{Line, Panel, Table, verdict};
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
/// The part of a published figure that counts as reached.
const NEAR: f64 = 0.8;
const SHARES: [u64; 4] = [25, 50, 75, 100];
const STREAMS: u64 = 96;
/// Copies of images beside random reads.
const COPIES: u64 = 8;

/// A change of a free parameter, and its name.
type Change = (&'static str, fn(&mut Settings));

/// A bar: what it is about, ours, the published figure, the bar, and whether ours must be above.
struct Bar {
    name: &'static str,
    ours: f64,
    published: String,
    bar: f64,
    is_least: bool,
}

/// Rows to run, and what came out.
struct Rows {
    rows: Vec<Row>,
    outcomes: Vec<Outcome>,
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
    };
    let plan = plan(&mut rows, settings, is_full);
    let base = Base::new(settings)?;
    rows.outcomes = run(&base, &rows.rows, threads)?;
    Ok(Results { plan, rows })
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
    use DeviceName::{Fast, Pool};
    let outcome = rows.get(at);
    let images = rows.rows.get(at).map_or(0, |row| row.images);
    let is_data = rows
        .rows
        .get(at)
        .is_some_and(|row| row.caches == Caches::Data);
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

    fn bars(&self) -> Vec<Bar> {
        let Self { plan, rows, .. } = self;
        let [off, metadata, data] = plan.with.map(|at| rows.rate(at));
        let [bare, bare_metadata, bare_data] = plan.without.map(|at| rows.rate(at));
        let least = |name, ours, published: f64| Bar {
            name,
            ours,
            published: format!("{published}"),
            bar: published * NEAR,
            is_least: true,
        };
        let most = |name, ours, published: &str, bar| Bar {
            name,
            ours,
            published: published.to_owned(),
            bar,
            is_least: false,
        };
        let beside = rows.rate(plan.beside);
        let [mixed, _] = plan.mixed;
        let [slow, fast] = plan.restores.map(|at| self.restored(at));
        let denied = plan
            .with
            .iter()
            .chain(&plan.without)
            .map(|at| rows.get(*at).counts);
        let (denied, direct) = denied.fold((0, 0), |a, c| (a.0 + c.denied, a.1 + c.direct));
        let mut bars = vec![
            least(
                "metadata on flash: requests a second",
                metadata,
                PUBLISHED[1].0,
            ),
            least("data on flash: requests a second", data, PUBLISHED[2].0),
            least("with software: metadata, times", metadata / off, 8.75),
            least("with software: data, times", data / metadata, 2.04),
            least("with software: both, times", data / off, 17.8),
            least(
                "without software: metadata, times",
                bare_metadata / bare,
                5.7,
            ),
            least(
                "without software: data, times",
                bare_data / bare_metadata,
                1.7,
            ),
            least("software with all on flash, times", data / bare_data, 2.7),
            least(
                "70/30 reads and writes: requests a second",
                rows.rate(mixed),
                44_000.0,
            ),
            most(
                "copy beside: lost, percent",
                (1.0 - beside / data) * 100.0,
                "20",
                20.0,
            ),
            least(
                "restores with the index on flash: gained, percent",
                (fast / slow - 1.0) * 100.0,
                25.0,
            ),
            most(
                "false positives of the index, percent",
                denied as f64 * 100.0 / direct.max(1) as f64,
                "0.01",
                0.01,
            ),
        ];
        let shares: Vec<f64> = plan.shares.iter().map(|at| rows.rate(*at)).collect();
        for (pair, (name, published)) in shares.windows(2).zip([
            ("flash of 50 % after 25 %: gained, percent", 32.0),
            ("flash of 75 % after 50 %: gained, percent", 18.0),
            ("flash of 100 % after 75 %: gained, percent", 125.0),
        ]) {
            if let [before, after] = pair {
                bars.push(least(name, (after / before - 1.0) * 100.0, published));
            }
        }
        bars
    }

    fn bars_text(&self) -> String {
        let mut table = Table::new(["bar", "ours", "published", "", ""]);
        for bar in self.bars() {
            let sign = if bar.is_least { ">=" } else { "<=" };
            let passed = match bar.is_least {
                true => bar.ours >= bar.bar,
                false => bar.ours <= bar.bar,
            };
            table.row([
                bar.name.to_owned(),
                format!("{:.3}", bar.ours),
                bar.published,
                format!("{sign} {:.3}", bar.bar),
                verdict(passed).to_owned(),
            ]);
        }
        format!("### Bars\n\n{}", table.into_text())
    }

    /// Returns the text of the full run.
    pub fn text(&self) -> String {
        format!(
            "Command: `cargo run --release -p evaluation -- ddfs`.\n\n![Requests a second by images](ddfs.svg)\n\n{}\n{}\n{}\n{}\n{}",
            self.ladders(true),
            self.singles(),
            self.others(),
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
