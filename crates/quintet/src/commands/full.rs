//! Messages about a full disk: how to free space, and how much that would free. Commands that store
//! data call this.
//!
//! Invariant: it reads only the catalog and does not change the exit code.

use super::failure;
use store::Pool;
use terminal::sizes;
use units::count;

/// Adds advice to the error if the disk was full.
pub(super) fn explained(pool: &Pool, error: anyhow::Error) -> anyhow::Error {
    match failure::is_full(&error) {
        true => {
            // The cause comes before the remedy.
            let (cause, remedy) = (failure::text(&error), advice(pool));
            error.context(format!(
                "the pool's disk is full: {cause}. To free space: {remedy}"
            ))
        }
        false => error,
    }
}

/// Returns advice on how to free space on the pool's disk.
pub(super) fn advice(pool: &Pool) -> String {
    let (snapshots, containers) = pool.trash().unwrap_or_default();
    let bytes = containers.iter().map(|c| c.entry.blob_bytes).sum();
    words(snapshots.len(), containers.len(), bytes)
}

fn words(snapshots: usize, containers: usize, bytes: u64) -> String {
    let mut ways = Vec::new();
    if containers > 0 {
        let bytes = sizes::display(bytes);
        ways.push(format!(
            "quintet gc frees {bytes} at once ({} in the trash)",
            count(containers as u64, "container")
        ));
    }
    if snapshots > 0 {
        ways.push(format!(
            "quintet gc --trash-period 0 frees the data of {} at once, and undelete cannot restore them then",
            count(snapshots as u64, "forgotten snapshot")
        ));
    }
    if ways.is_empty() {
        return "the trash is empty; run quintet gc to free unneeded data (quintet stats shows how much), or forget snapshots \
                first"
            .to_owned();
    }
    ways.join("; ")
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
            // Forgotten snapshots can be restored until the user gives them up explicitly.
            assert_eq!(
                said.contains("--trash-period 0 frees the data of 2 forgotten snapshots"),
                snapshots > 0,
                "{said}"
            );
            assert_eq!(
                said.contains("gc frees 5.00 MiB at once (3 containers in the trash)"),
                containers > 0,
                "{said}"
            );
        }
    }
}
