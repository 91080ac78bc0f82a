//! The bars of the page.
//!
//! The page calls this.
//! Invariant: a bar is the published figure less 20 %, or the published limit.

use super::{PUBLISHED, Results};
use crate::ddfs::beside::StreamRows;
use crate::figures::{Table, verdict};

/// The part of a published figure that counts as reached.
const NEAR: f64 = 0.8;

/// A bar: what it is about, ours, the published figure, the bar, and whether ours must be above.
struct Bar {
    name: &'static str,
    ours: f64,
    published: String,
    bar: f64,
    is_least: bool,
}

impl Results {
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
        let most_written = self
            .loads_with_writes()
            .iter()
            .map(|(_, [tier, ..])| *tier)
            .fold(0.0, f64::max);
        bars.push(most(
            "drive writes a day of the tier",
            most_written,
            "3",
            3.0,
        ));
        if let Some([data, metadata]) = self.streams.as_ref().map(StreamRows::lost_percent) {
            let name = "96 streams beside random reads, data on flash: lost, percent";
            bars.push(most(name, data, "10", 10.0));
            let name = "96 streams beside random reads, data on disks: lost, percent";
            bars.push(most(name, metadata, "10", 10.0));
        }
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

    pub(super) fn bars_text(&self) -> String {
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
}
