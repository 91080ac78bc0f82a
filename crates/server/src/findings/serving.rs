//! Finds writes to volumes that fail, that the journal has lost, or that cannot be checkpointed.
//! [`super::SOURCES`] lists it.
//!
//! Invariant: without a server, only recorded losses are known.

use super::{Finding, FindingsInput, Severity};
use store::Pool;
use volumes::loss_messages::{recorded_losses, unacknowledged_losses};

const LOST_WRITES: &str = "check the file systems of the named volumes, or roll the volumes back to a \
                           snapshot (quintet volume rollback); then run quintet repair \
                           --acknowledge-lost-writes";
const KEPT_WRITES: &str = "run quintet repair (with --replica POOL if another pool has copies), write the named \
                           ranges again, or roll the volumes back to a snapshot (quintet volume rollback)";
const CANNOT_STORE: &str = "free space on the pool's disk, or check the disk for errors, then restart the server; flushed \
                            writes are safe";

pub(super) fn find(look: &FindingsInput<'_>) -> Vec<Finding> {
    let of = |severity, kind, text, action: &str| Finding {
        severity,
        kind,
        object: String::new(),
        text,
        action: action.to_owned(),
    };
    let lost = match &look.server {
        Some(server) => unacknowledged_losses(server.volumes),
        None => match volumes::recorded_losses(look.pool) {
            Ok(lost) => recorded_losses(&lost, &look.pool.volumes().unwrap_or_default()),
            Err(e) => vec![format!(
                "cannot read which writes the journal has lost: {e}"
            )],
        },
    };
    let lost = lost.into_iter();
    let mut found: Vec<_> = lost
        .map(|text| of(Severity::Damage, "writes_lost", text, LOST_WRITES))
        .collect();
    let Some(server) = &look.server else {
        found.extend(elsewhere(look.pool));
        return found;
    };
    for kept in server.volumes.kept_writes() {
        let text = kept.to_string();
        found.push(of(Severity::Damage, "writes_kept", text, KEPT_WRITES));
    }
    let failing = server.failing.iter().cloned();
    found.extend(failing.map(|text| of(Severity::Failure, "writes_fail", text, CANNOT_STORE)));
    found
}

/// Finds a journal that nobody looks at while no server has the pool.
fn elsewhere(pool: &Pool) -> Option<Finding> {
    let of = |severity, text: &str, action: &str| Finding {
        severity,
        kind: "journal_elsewhere",
        object: String::new(),
        text: text.to_owned(),
        action: action.to_owned(),
    };
    match volumes::journal_place(pool) {
        Ok(record) if record.is_elsewhere() => Some(of(
            Severity::Hint,
            "the journal of the volumes is on a fast device only and was not looked at: it may hold acknowledged \
             writes",
            "keep the device; quintet serve --fast and its directory brings the writes into the pool",
        )),
        Ok(_) => None,
        Err(e) => Some(of(
            Severity::Damage,
            &format!("cannot read where the journal of the volumes is: {e}"),
            "start quintet serve with --fast and the directory of the device that may have it",
        )),
    }
}
