//! What is said when the pool's disk is full: what would make room, and how much.
//!
//! Invariant: reads the catalog only, and changes no exit code. Called by the commands that store something new.

use super::failure;
use crate::sizes;
use store::Pool;

/// The same error, and what to do about it if the disk was full.
pub(super) fn explained(pool: &Pool, error: anyhow::Error) -> anyhow::Error {
    match failure::is_full(&error) {
        true => {
            let (snapshots, containers) = pool.trash().unwrap_or_default();
            let bytes = containers.iter().map(|c| c.entry.blob_bytes).sum();
            error.context(words(snapshots.len(), containers.len(), bytes))
        }
        false => error,
    }
}

fn words(snapshots: usize, containers: usize, bytes: u64) -> String {
    let forgotten = match snapshots {
        0 => String::new(),
        count => {
            format!("what only {count} forgotten snapshots need, which cannot be taken back then")
        }
    };
    let trash = match containers {
        0 => String::new(),
        count => format!(
            "{} of {count} containers in the trash",
            sizes::display(bytes)
        ),
    };
    let back = match (trash.is_empty(), forgotten.is_empty()) {
        (true, true) => {
            let what = "the trash is empty; quintet stats says what is not needed, quintet gc gives it back, quintet forget makes more of it";
            return format!("the pool's disk is full ({what})");
        }
        (false, false) => format!("{trash}, and {forgotten}"),
        _ => trash + &forgotten,
    };
    format!("the pool's disk is full (quintet gc --trash-period 0 gives back at once: {back})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_come_back_is_named() {
        let nothing = words(0, 0, 0);
        assert!(nothing.contains("trash is empty") && nothing.contains("quintet gc"));
        for (snapshots, containers) in [(2, 0), (0, 3), (2, 3)] {
            let said = words(snapshots, containers, 5 << 20);
            assert!(said.contains("gc --trash-period 0"), "{said}");
            assert_eq!(
                said.contains("2 forgotten snapshots"),
                snapshots > 0,
                "{said}"
            );
            assert_eq!(
                said.contains("5.00 MiB of 3 containers"),
                containers > 0,
                "{said}"
            );
        }
    }
}
