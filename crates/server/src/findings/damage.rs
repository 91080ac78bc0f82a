//! Finds known damage: damaged places whose chunks have no other copy, and damaged containers that
//! parity can restore without loss. [`super::SOURCES`] lists it.
//!
//! Invariant: it reads records of damage and directories of damaged containers, never data.

use super::{Finding, FindingsInput, Severity};
use store::KnownDamage;
use units::count;

const ACTION_LOST: &str = "run quintet check to see the files. Then back up their sources again, or run quintet repair \
                           --replica POOL. Then run quintet repair to see whether data is still missing";
const ACTION_RESTORABLE: &str =
    "run quintet scrub, which restores them; check the disk, which may be failing";

pub(super) fn find(look: &FindingsInput<'_>) -> Vec<Finding> {
    match look.pool.known_damage() {
        Ok(known) => findings(known),
        Err(e) => vec![lost(format!("cannot read the records of damage: {e}"))],
    }
}

fn findings(known: KnownDamage) -> Vec<Finding> {
    let KnownDamage {
        places,
        lost: lost_places,
        restorable,
    } = known;
    let mut found = Vec::new();
    if lost_places > 0 {
        found.push(lost(format!(
            "damaged places: {places}; {lost_places} of them had the only copy of some data, and \
             files that need it are lost"
        )));
    }
    if restorable > 0 {
        found.push(Finding {
            severity: Severity::Attention,
            kind: "data_restorable",
            object: String::new(),
            text: format!(
                "{}; parity can restore all data",
                count(restorable, "damaged container")
            ),
            action: ACTION_RESTORABLE.to_owned(),
        });
    }
    found
}

fn lost(text: String) -> Finding {
    Finding {
        severity: Severity::Damage,
        kind: "data_damaged",
        object: String::new(),
        text,
        action: ACTION_LOST.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_parity_restores_is_another_finding_than_what_is_lost() {
        let kinds = |lost, restorable| -> Vec<_> {
            let known = KnownDamage {
                places: lost,
                lost,
                restorable,
            };
            let found = findings(known);
            found.into_iter().map(|f| (f.kind, f.severity)).collect()
        };
        assert_eq!(kinds(0, 0), []);
        assert_eq!(kinds(0, 2), [("data_restorable", Severity::Attention)]);
        assert_eq!(kinds(1, 0), [("data_damaged", Severity::Damage)]);
        assert_eq!(kinds(1, 1).len(), 2);
    }
}
