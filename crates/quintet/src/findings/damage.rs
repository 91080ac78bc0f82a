//! Damage that is known: places that were found damaged and whose chunks are nowhere else.

use super::{Finding, Look, Severity};

const ACTION: &str = "run quintet check, which names the files; back up again what they come from, or run quintet \
                      repair --replica POOL; then quintet repair finds whether anything is still missing";

pub(super) fn find(look: &Look<'_>) -> Vec<Finding> {
    let finding = |text: String| Finding {
        severity: Severity::Damage,
        kind: "data_damaged",
        object: String::new(),
        text,
        action: ACTION.to_owned(),
    };
    match look.pool.known_damage() {
        Ok(known) if known.lost > 0 => {
            let (lost, places) = (known.lost, known.places);
            let text = format!(
                "{lost} of {places} damaged places hold what is nowhere else: files of snapshots that need \
                 it are lost"
            );
            vec![finding(text)]
        }
        Ok(_) => Vec::new(),
        Err(e) => vec![finding(format!("notes of damage cannot be read: {e}"))],
    }
}
