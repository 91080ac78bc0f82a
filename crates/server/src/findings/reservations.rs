//! Finds persistent reservations that were kept for a volume and cannot be read.
//! [`super::SOURCES`] lists it.
//!
//! Invariant: while an initiator gets conflicts because of that, there is a finding.

use super::{Finding, FindingsInput, Severity};
use volumes::kept_reservations;

pub(super) fn find(look: &FindingsInput<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    // Other sources report volumes that cannot be read.
    for volume in look.pool.volumes().unwrap_or_default() {
        if let Err(e) = kept_reservations(look.pool, volume.id) {
            found.push(Finding {
                severity: Severity::Damage,
                kind: "reservations_unknown",
                text: format!(
                    "cannot read the iSCSI reservations of volume {} ({e}): initiators can neither \
                     read nor write it",
                    volume.name
                ),
                object: volume.name,
                action: "make sure that no machine uses the volume that another one has fenced \
                         off; then register over iSCSI without APTPL and clear (sg_persist --out \
                         --register-ignore --param-sark=1, then --out --clear --param-rk=1)"
                    .to_owned(),
            });
        }
    }
    found
}
