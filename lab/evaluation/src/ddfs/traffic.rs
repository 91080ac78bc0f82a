//! Tables of what a load asked of the devices: by owner, and bytes written to flash in a day.
//!
//! The page calls this.
//! Invariant: a day is scaled as bytes are. The flash device is smaller than one percent of the
//! disks by a factor, requests come at full rate, so a day is shorter by that factor.

use super::load::Outcome;
use crate::disk::SECOND;
use crate::figures::Table;
use crate::rooms::recorder::{DeviceName, FileUse};
use crate::rooms::server::owner_name;

/// Seconds of a day.
const DAY: f64 = 86_400.0;

/// Returns how often a day the flash device is written whole by files of that use.
pub fn drive_writes(outcome: &Outcome, of: FileUse, flash_bytes: u64, scale: u64) -> f64 {
    let seconds = outcome.time.max(1) as f64 / SECOND as f64;
    let day = DAY / scale.max(1) as f64;
    outcome.flash_written(of) as f64 / flash_bytes.max(1) as f64 * day / seconds
}

/// Returns the table of requests by owner and file.
pub fn by_owner(outcomes: &[(&str, &Outcome)]) -> String {
    let mut table = Table::new([
        "",
        "owner",
        "device",
        "file",
        "reads a thousand requests",
        "KiB each",
        "writes a thousand requests",
        "KiB each",
    ]);
    for (name, outcome) in outcomes {
        let keys = outcome.by_owner.keys();
        let mut places: Vec<_> = keys.map(|(owner, key)| (*owner, key.0, key.1)).collect();
        places.dedup();
        places.sort_unstable();
        places.dedup();
        for (owner, device, of) in places {
            let cells = |is_write| {
                let traffic = outcome.by_owner.get(&(owner, (device, of, is_write)));
                let traffic = traffic.copied().unwrap_or_default();
                let each = traffic.bytes as f64 / traffic.requests.max(1) as f64 / 1024.0;
                let rate = traffic.requests as f64 * 1000.0 / outcome.requests.max(1) as f64;
                match rate >= 0.005 {
                    true => (format!("{rate:.2}"), format!("{each:.0}")),
                    false => (String::new(), String::new()),
                }
            };
            let (reads, writes) = (cells(false), cells(true));
            if reads.0.is_empty() && writes.0.is_empty() {
                continue;
            }
            table.row([
                (*name).to_owned(),
                owner_name(owner).to_owned(),
                match device {
                    DeviceName::Pool => "disks",
                    DeviceName::Fast => "flash",
                }
                .to_owned(),
                format!("{of:?}").to_lowercase(),
                reads.0,
                reads.1,
                writes.0,
                writes.1,
            ]);
        }
    }
    table.into_text()
}
