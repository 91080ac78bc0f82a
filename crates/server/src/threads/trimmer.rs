//! The thread that returns free memory to the system. `serve` starts it.
//!
//! The allocator keeps what was freed between blocks that are in use. After a rush of clients the
//! process would have several times its plan for ever.
//!
//! Invariant: nothing happens while the process has no more than its plan.

use super::background::Background;
use std::fs;
use std::io;
use std::sync::OnceLock;
use std::time::Duration;

/// Time between two looks.
const LOOK_PERIOD: Duration = Duration::from_secs(10);

static TRIM: OnceLock<fn()> = OnceLock::new();

/// Sets what makes the allocator return free memory. Without it the thread does nothing.
pub fn trim_with(trim: fn()) {
    let _ = TRIM.set(trim);
}

/// Looks after the memory of a process that plans to have `plan_bytes`.
pub fn start(plan_bytes: u64) -> io::Result<Background> {
    let mut kept_bytes = plan_bytes;
    Background::periodic("trimmer", LOOK_PERIOD, move || {
        kept_bytes = step(kept_bytes.max(plan_bytes), own_bytes, || {
            if let Some(trim) = TRIM.get() {
                trim();
            }
        });
    })
}

/// Trims if the process has more than `kept_bytes` and a tenth. Returns what it has after that,
/// which is in use.
fn step(kept_bytes: u64, own_bytes: impl Fn() -> Option<u64>, trim: impl FnOnce()) -> u64 {
    match own_bytes() {
        Some(bytes) if bytes > kept_bytes.saturating_add(kept_bytes / 10) => {
            trim();
            own_bytes().unwrap_or(kept_bytes)
        }
        Some(bytes) => bytes.min(kept_bytes),
        None => kept_bytes,
    }
}

/// Returns the memory of this process that is no part of a file, bytes; `None` if the system does
/// not say it.
fn own_bytes() -> Option<u64> {
    let pages = fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = pages.split_whitespace().skip(1).map(str::parse::<u64>);
    let (resident, of_files) = (pages.next()?.ok()?, pages.next()?.ok()?);
    let pages = resident.checked_sub(of_files)?;
    pages.checked_mul(rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn it_trims_when_there_is_more_than_planned_and_then_when_there_is_more_again() {
        let (has, in_use) = (Cell::new(100), Cell::new(100));
        let trimmed = Cell::new(0);
        let mut kept = 100;
        let mut look = |bytes| {
            has.set(bytes);
            let trim = || {
                trimmed.set(trimmed.get() + 1);
                has.set(in_use.get());
            };
            kept = step(kept.max(100), || Some(has.get()), trim);
            trimmed.get()
        };
        assert_eq!((look(50), look(110)), (0, 0), "within the plan");
        in_use.set(300);
        assert_eq!((look(500), look(300), look(310)), (1, 1, 1), "it is in use");
        in_use.set(100);
        assert_eq!((look(350), look(90), look(200)), (2, 2, 3));
        assert!(own_bytes().unwrap() > 0);
    }
}
