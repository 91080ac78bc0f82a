//! What only a server knows: writes that fail, writes that the journal has lost.

use super::{Finding, Look, Severity};
use crate::held::lost_writes;

const LOST_WRITES: &str = "check the file systems of the volumes that are named, or roll them back to a \
                           snapshot (quintet volume rollback)";
const CANNOT_STORE: &str = "make room on the pool's disk, or look at its errors, then restart the server; what \
                            was flushed is safe";

pub(super) fn find(look: &Look<'_>) -> Vec<Finding> {
    let Some(held) = look.held else {
        return Vec::new();
    };
    let of = |severity, kind, text, action: &str| Finding {
        severity,
        kind,
        object: String::new(),
        text,
        action: action.to_owned(),
    };
    let lost = lost_writes(&held.volumes).into_iter();
    let lost = lost.map(|text| of(Severity::Damage, "writes_lost", text, LOST_WRITES));
    let failing = held.failing().into_iter();
    let failing = failing.map(|text| of(Severity::Failure, "writes_fail", text, CANNOT_STORE));
    lost.chain(failing).collect()
}
