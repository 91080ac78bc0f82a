//! Rows of the page of classes: the storages that are compared, and the sensitivities.
//!
//! The page calls this.
//! Invariant: what is derived from runs is deterministic: the same settings give the same rows.

use super::loads::Load;
use super::outcome::{Outcome, measure};
use super::settings::Settings;
use super::stored::{Serving, Stored};
use crate::maintenance::grid::map;
use classes::{Policy, shipped};
use std::sync::Arc;
use store::{Result, StoreError, StoreErrorKind};

/// The row that the bars divide by.
pub const CACHE: &str = "conventional LRU cache";
/// The row of the tier without a policy.
pub const LRU_TIER: &str = "Quintet, tier, no policy";
/// The row with what `quintet policy advise` says.
pub const ADVISED: &str = "advised";
/// The policy that the advice begins with.
const BASE: &str = "adaptive";
const POLICIES: [&str; 9] = [
    "t1",
    "t2",
    "t3",
    "t4",
    "t5",
    "ext3",
    "successor",
    "vm-images",
    BASE,
];
/// Capacities that may be written a day, hundredths: what ships, and no limit.
const SHIPPED: u32 = 300;
const UNLIMITED: u32 = u32::MAX;

/// A storage of the table.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// The storage.
    pub stored: Stored,
    /// The policy, if this row may be the best one by class.
    pub by_class: Option<&'static str>,
}

/// A row and what came out.
pub type Measured = (Row, Outcome);

fn policy(name: &str) -> Result<Arc<Policy>> {
    let invalid = |text: String| StoreError::new(StoreErrorKind::Invalid, text);
    let found = shipped::find(name).ok_or_else(|| invalid(format!("no policy {name}")))?;
    let policy = Policy::parse(found.csv).map_err(|e| invalid(e.to_string()))?;
    Ok(Arc::new(policy))
}

/// A server with the tier and the journal on flash, as it ships.
const WITH_TIER: Serving = Serving {
    has_tier: true,
    journal_on_fast: true,
    policy: None,
    takes_advice: false,
    daily_writes_hundredths: SHIPPED,
};

fn by_class(name: &'static str) -> Result<Row> {
    let takes_advice = name == ADVISED;
    let policy = policy(if takes_advice { BASE } else { name })?;
    Ok(Row {
        name: format!("Quintet, {name}"),
        stored: Stored::Quintet(Serving {
            policy: Some(policy),
            takes_advice,
            ..WITH_TIER
        }),
        by_class: Some(name),
    })
}

/// Returns the rows of each load, or those that the short run has.
pub fn rows(has_few: bool) -> Result<Vec<Row>> {
    let row = |name: &str, stored| Row {
        name: name.to_owned(),
        stored,
        by_class: None,
    };
    let without = Serving {
        has_tier: false,
        journal_on_fast: false,
        ..WITH_TIER
    };
    let mut rows = vec![
        row("disks alone", Stored::Disks),
        row(CACHE, Stored::Cache),
        row("Quintet, no tier", Stored::Quintet(without)),
        row(LRU_TIER, Stored::Quintet(WITH_TIER)),
    ];
    if has_few {
        rows.push(by_class("vm-images")?);
        rows.push(by_class(BASE)?);
        return Ok(rows);
    }
    for name in POLICIES {
        rows.push(by_class(name)?);
    }
    rows.push(by_class(ADVISED)?);
    let policy = Some(policy(BASE)?);
    let in_pool = Serving {
        journal_on_fast: false,
        policy: policy.clone(),
        ..WITH_TIER
    };
    let unlimited = Serving {
        policy,
        daily_writes_hundredths: UNLIMITED,
        ..WITH_TIER
    };
    rows.push(row(
        "Quintet, adaptive, journal in the pool",
        Stored::Quintet(in_pool),
    ));
    rows.push(row(
        "Quintet, adaptive, flash writes without a limit",
        Stored::Quintet(unlimited),
    ));
    Ok(rows)
}

/// Runs the loads over all rows, on as many threads.
pub fn run(settings: &Settings, loads: &[Load], threads: usize) -> Result<Vec<Vec<Measured>>> {
    let rows = rows(settings.has_few_rows)?;
    let cells: Vec<(usize, usize)> = (0..loads.len())
        .flat_map(|load| (0..rows.len()).map(move |row| (load, row)))
        .collect();
    let outcomes = map(&cells, threads, |(load, row)| {
        measure(loads[*load], settings, &rows[*row].stored)
    });
    let mut all: Vec<Vec<Measured>> = vec![Vec::new(); loads.len()];
    for ((load, row), outcome) in outcomes {
        all[load].push((rows[row].clone(), outcome?));
    }
    Ok(all)
}

/// Returns the row of a name.
pub fn find<'a>(rows: &'a [Measured], name: &str) -> Option<&'a Measured> {
    rows.iter().find(|(row, _)| row.name == name)
}

/// Returns the fastest row by class.
pub fn best(rows: &[Measured]) -> Option<&Measured> {
    let by_class = rows.iter().filter(|(row, _)| row.by_class.is_some());
    by_class.min_by_key(|(_, outcome)| outcome.time)
}

/// A change of a free parameter.
struct Change {
    name: &'static str,
    make: fn(&mut Settings),
    /// False if only the conventional cache notices.
    is_for_server: bool,
}

const CHANGES: [Change; 14] = [
    Change {
        name: "nothing",
        make: |_| {},
        is_for_server: true,
    },
    Change {
        name: "the cache is cleaned in pieces of 4 KiB, not up to 512",
        make: |s| s.granule = 1,
        is_for_server: false,
    },
    Change {
        name: "it cleans with one request in flight, not eight",
        make: |s| s.destages = 1,
        is_for_server: false,
    },
    Change {
        name: "block groups lie together at the edge of the disks",
        make: |s| s.spreads_groups = false,
        is_for_server: false,
    },
    Change {
        name: "the file system is 40 % of the disks, not 20",
        make: |s| s.spans_percent = 40,
        is_for_server: true,
    },
    Change {
        name: "eight processes read, not one",
        make: |s| s.pool_clients = 8,
        is_for_server: true,
    },
    Change {
        name: "a client works for 1 ms an operation, not 0.1",
        make: |s| s.work *= 10,
        is_for_server: true,
    },
    Change {
        name: "the server has half of the memory, not 63 %",
        make: |s| s.server_memory = 128,
        is_for_server: true,
    },
    Change {
        name: "commits every second, not every five",
        make: |s| s.commit /= 5,
        is_for_server: true,
    },
    Change {
        name: "commits every 30 s",
        make: |s| s.commit *= 6,
        is_for_server: true,
    },
    Change {
        name: "reads update no access times",
        make: |s| s.updates_atime = false,
        is_for_server: true,
    },
    Change {
        name: "two capacities before, not five",
        make: |s| s.before = 2,
        is_for_server: true,
    },
    Change {
        name: "flash with twice the latency",
        make: |s| {
            s.ssd.read *= 2;
            s.ssd.write *= 2;
        },
        is_for_server: true,
    },
    Change {
        name: "disks as fast as the data sheet's",
        make: |s| s.slowness = 100,
        is_for_server: true,
    },
];

/// Times of the file pool with a changed parameter.
pub struct Sensitivity {
    /// The change.
    pub name: &'static str,
    /// Outcomes of the conventional cache, the tier without a policy, and the policy.
    pub outcomes: [Outcome; 3],
}

/// Runs the file pool with each free parameter changed: the conventional cache, the tier without a
/// policy, and the server of `best`.
pub fn sensitivities(
    settings: &Settings,
    best: &Stored,
    threads: usize,
) -> Result<Vec<Sensitivity>> {
    let stored = [
        Stored::Cache,
        Stored::Quintet(WITH_TIER),
        Stored::clone(best),
    ];
    let cells: Vec<(usize, usize)> = (0..CHANGES.len())
        .flat_map(|change| (0..stored.len()).map(move |row| (change, row)))
        .filter(|(change, row)| CHANGES[*change].is_for_server || *row == 0)
        .collect();
    let outcomes = map(&cells, threads, |(change, row)| {
        let mut changed = *settings;
        (CHANGES[*change].make)(&mut changed);
        measure(Load::FilePool, &changed, &stored[*row])
    });
    let mut all: Vec<Sensitivity> = Vec::new();
    for ((change, row), outcome) in outcomes {
        let outcome = outcome?;
        if row == 0 {
            let like = all.first().map_or([outcome; 3], |first| first.outcomes);
            all.push(Sensitivity {
                name: CHANGES[change].name,
                outcomes: like,
            });
        }
        if let Some(last) = all.last_mut() {
            last.outcomes[row] = outcome;
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_changes_something() {
        for change in &CHANGES[1..] {
            let mut changed = Settings::FULL;
            (change.make)(&mut changed);
            let (changed, own) = (format!("{changed:?}"), format!("{:?}", Settings::FULL));
            assert_ne!(changed, own, "{}", change.name);
        }
    }

    #[test]
    fn the_best_row_has_a_policy() {
        let rows = rows(false).expect("policies that ship");
        let by_class: Vec<_> = rows.iter().filter_map(|row| row.by_class).collect();
        assert_eq!(by_class.len(), POLICIES.len() + 1);
        assert_eq!(by_class.last(), Some(&ADVISED));
    }
}
