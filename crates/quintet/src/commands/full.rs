//! Messages about a full disk: how to free space, and how much that would free. Commands that store
//! data call this.
//!
//! Invariant: it reads only the catalog and does not change the exit code.

use super::failure;
use server::sizes;
use store::Pool;

/// Adds advice to the error if the disk was full.
pub(super) fn explained(pool: &Pool, error: anyhow::Error) -> anyhow::Error {
    match failure::is_full(&error) {
        true => {
            let full = format!("the pool's disk is full ({})", advice(pool));
            error.context(full)
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
            "quintet gc frees at once: {bytes} of {containers} containers in the trash"
        ));
    }
    if snapshots > 0 {
        ways.push(format!(
            "quintet gc --trash-period 0 frees at once: what only {snapshots} forgotten snapshots need, which \
             cannot be taken back then"
        ));
    }
    if ways.is_empty() {
        return "the trash is empty; quintet stats says what is not needed, quintet gc gives it back, quintet forget \
                makes more of it"
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
                said.contains("--trash-period 0 frees at once: what only 2 forgotten"),
                snapshots > 0,
                "{said}"
            );
            assert_eq!(
                said.contains("gc frees at once: 5.00 MiB of 3 containers"),
                containers > 0,
                "{said}"
            );
        }
    }
}
