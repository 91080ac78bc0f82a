//! FragPicker's page: the published tables beside ours.
//!
//! The program `evaluation` calls this.
//! Invariant: published figures are constants here; all others come from runs.

use super::file::File;
use super::load::Load;
use super::runs::{Device, Outcome, Way, run};
use crate::disk::DiskModel;
use crate::figures::{Line, Panel, Table, verdict};
use crate::flash::{CURVE, CURVE_READ_BYTES, Flash, Loss};

const SEED: u64 = 2021;
/// Percentage of the read ranges that are moved for the skewed load.
const HOT_PERCENT: [u8; 3] = [15, 30, 100];
/// Published for sequential reads on ext4, MB/s.
const PUBLISHED: [&str; 4] = ["990", "1759", "1809", "1857"];
const WAYS: [Way; 4] = [
    Way::Before,
    Way::Bypass,
    Way::FragPicker(100),
    Way::WholeFile,
];

/// Returns the devices and their names.
pub fn devices() -> [(&'static str, Device); 4] {
    let flash = |loss| Device::Flash(Flash::published(loss));
    [
        ("SSD, commands", flash(Loss::Commands)),
        ("SSD, die collisions", flash(Loss::DieCollisions)),
        ("SSD, pieces placed", flash(Loss::PlacedPieces)),
        ("disk", Device::Disk(DiskModel::SERVER)),
    ]
}

/// Returns the speed of reads of 128 KiB in pieces of this many KiB, MB/s.
fn curve(loss: Loss, kib: u64) -> f64 {
    let file = File::new(64 << 20, &[kib << 10], SEED);
    let device = Device::Flash(Flash::published(loss));
    run(device, &file, Way::Before, Load::Sequential, SEED).speed()
}

fn curve_table() -> String {
    let mut table = Table::new([
        "pieces of",
        "published",
        "commands",
        "die collisions",
        "pieces placed",
    ]);
    for (kib, published) in CURVE {
        let ours = [Loss::Commands, Loss::DieCollisions, Loss::PlacedPieces];
        let ours = ours.map(|loss| format!("{:.0}", curve(loss, kib)));
        table.row(
            [
                vec![format!("{kib} KiB"), published.to_string()],
                ours.to_vec(),
            ]
            .concat(),
        );
    }
    table.into_text()
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.2}", bytes as f64 / 1e9)
}

fn speeds(file: &File, load: Load, published: bool) -> String {
    let columns = [
        "device",
        "before",
        "bypass",
        "FragPicker",
        "whole file, MB/s",
        "written: bypass",
        "FragPicker",
        "whole file, GB",
        "FragPicker's speed, % of whole file's",
        "its writes, %",
        "",
    ];
    let mut table = Table::new(columns);
    if published {
        let row = [
            &["published, ext4"],
            &PUBLISHED[..],
            &["", "0.53", "1.06", "97", "50", ""],
        ];
        table.row(row.concat());
    }
    let writes_max = if load == Load::Stride { 30.0 } else { 50.0 };
    for (name, device) in devices() {
        let [before, bypass, picked, whole] = WAYS.map(|way| run(device, file, way, load, SEED));
        let speed = picked.speed() / whole.speed() * 100.0;
        let writes = picked.written as f64 / whole.written.max(1) as f64 * 100.0;
        let mb = |outcome: &Outcome| match outcome.speed() {
            speed if speed < 20.0 => format!("{speed:.1}"),
            speed => format!("{speed:.0}"),
        };
        table.row([
            name.to_owned(),
            mb(&before),
            mb(&bypass),
            mb(&picked),
            mb(&whole),
            gigabytes(bypass.written),
            gigabytes(picked.written),
            gigabytes(whole.written),
            format!("{speed:.1}"),
            format!("{writes:.1}"),
            verdict(speed >= 97.0 && writes <= writes_max).to_owned(),
        ]);
    }
    table.into_text()
}

fn skewed(file: &File) -> String {
    let columns = [
        "device",
        "ranges moved",
        "before",
        "FragPicker",
        "whole file, MB/s",
        "I/O, % of whole file's",
        "time, %",
        "of the gain, %",
        "",
    ];
    let mut table = Table::new(columns);
    for (name, device) in devices() {
        let [before, whole] =
            [Way::Before, Way::WholeFile].map(|way| run(device, file, way, Load::Zipfian, SEED));
        for percent in HOT_PERCENT {
            let picked = run(device, file, Way::FragPicker(percent), Load::Zipfian, SEED);
            let io = picked.written as f64 / whole.written.max(1) as f64 * 100.0;
            let time = picked.migration as f64 / whole.migration.max(1) as f64 * 100.0;
            let won = |outcome: &Outcome| before.read.1.saturating_sub(outcome.read.1) as f64;
            let gain = won(&picked) / won(&whole).max(1.0) * 100.0;
            table.row([
                name.to_owned(),
                format!("{percent} %"),
                format!("{:.1}", before.speed()),
                format!("{:.1}", picked.speed()),
                format!("{:.1}", whole.speed()),
                format!("{io:.1}"),
                format!("{time:.1}"),
                format!("{gain:.0}"),
                verdict(io <= 34.0 && time <= 16.0).to_owned(),
            ]);
        }
    }
    table.into_text()
}

/// Returns the page's text, for a file of this size.
pub fn text(bytes: u64) -> String {
    let file = File::published(bytes, SEED);
    let flash = Flash::published(Loss::Commands);
    format!(
        "## On models of devices\n\n\
         Command: `cargo run --release -p evaluation -- fragpicker`. Trace, hot ranges and plans are those of `crates/fragpicker`; the devices are models, one\n\
         read at a time. File: {} MiB, every 256 KiB 32 pieces of 4 KiB and one of 128 KiB, each piece anywhere among 100 GiB.\n\n\
         - SSD, commands: what a read costs by the number of its pieces is the published curve; {} us before the first byte (assumed).\n\
         - SSD, die collisions: pieces lie on any of {} dies (pages of {} KiB) and wait for each other; {} us a page, calibrated on the curve's 4 KiB; a command\n\
         costs {} us (assumed).\n\
         - SSD, pieces placed: the same drive, when pieces lie on the dies where a whole piece would (what FAST'24 proposes): there is little to win.\n\
         - disk: the disk of [Duet's page](duet.md).\n\n\
         ### Speed by size of pieces, MB/s (reads of {} KiB)\n\n{}\n\
         ![Speed by size of pieces](fragpicker.svg)\n\n\
         The first column is calibrated and comes out as it went in; of the second all but 4 KiB is a prediction.\n\n\
         ### Sequential reads of 128 KiB (bar: >= 97 % of the whole file's speed, <= 50 % of its writes)\n\n{}\n\
         ### Reads of 128 KiB, 288 KiB apart (bar: >= 97 %, <= 30 %)\n\n{}\n\
         On the disk FragPicker leaves pieces of 128 KiB in two areas and more, and sequential reads go to and fro between them: there whole files are worth their writes. There is no\n\
         model of btrfs: its published row is not here.\n\n\
         ### Skewed reads of 16 KiB (YCSB-C; bar: <= 34 % of the I/O, <= 16 % of the time)\n\n{}\n\
         The same file. The published run had other files, so only the bars can be compared: with few ranges moved the time is within its bar, and with it goes some\n\
         of the gain. Half of the ranges lie in one piece and are left alone; each of the others is read and written by itself, the whole file a mebibyte at a time.\n",
        bytes >> 20,
        flash.latency / 1000,
        flash.dies,
        flash.page_bytes >> 10,
        flash.page_read / 1000,
        flash.command as f64 / 1000.0,
        CURVE_READ_BYTES >> 10,
        curve_table(),
        speeds(&file, Load::Sequential, true),
        speeds(&file, Load::Stride, false),
        skewed(&file),
    )
}

/// Returns plots of the speed by size of pieces.
pub fn panels() -> Vec<Panel> {
    let line = |name: &str, colour, is_dashed, points: Vec<(f64, f64)>| Line {
        name: name.to_owned(),
        colour,
        is_dashed,
        points,
    };
    let ours = |loss| {
        CURVE
            .map(|(kib, _)| (kib as f64, curve(loss, kib)))
            .to_vec()
    };
    let published = CURVE
        .map(|(kib, speed)| (kib as f64, speed as f64))
        .to_vec();
    vec![Panel {
        title: "Reads of 128 KiB, MB/s".to_owned(),
        x_name: "size of the pieces, KiB".to_owned(),
        x_max: 128.0,
        y_max: 2000.0,
        lines: vec![
            line("pieces placed", "#0d9488", false, ours(Loss::PlacedPieces)),
            line("published", "#64748b", true, published),
            line(
                "die collisions",
                "#c2410c",
                false,
                ours(Loss::DieCollisions),
            ),
        ],
    }]
}
