//! Prints the findings of a scrub. `scrub` and the server's scrub thread call this.
//!
//! Invariant: each damaged place is printed once, when it is found.

use maintenance::ScrubFindings;
use store::Damaged;
use terminal::console::Console;
use terminal::json::Object;
use units::count;

/// Prints the findings of a step.
pub(in crate::commands) fn tell(console: &Console, found: &ScrubFindings) -> std::io::Result<()> {
    for damaged in &found.damaged {
        let text = words(damaged);
        if damaged.is_known && !damaged.is_restored() {
            console.note(format_args!("{text} (known)"));
            continue;
        }
        console.warn(format_args!("damage: {text}"));
        console.message(
            Object::message("damage")
                .text("message", &damaged.why)
                .text("place", &damaged.place.to_string())
                .integer("chunks", damaged.chunks)
                .integer("chunks_elsewhere", damaged.chunks_elsewhere)
                .integer("restored_sectors", damaged.restored_sectors),
        )?;
    }
    for place in &found.taken_back {
        console.note(format_args!("{place} is sound and leaves quarantine"));
    }
    Ok(())
}

fn words(damaged: &Damaged) -> String {
    let Damaged {
        why,
        chunks,
        chunks_elsewhere,
        ..
    } = damaged;
    if damaged.is_restored() {
        let sectors = damaged.restored_sectors;
        return format!(
            "{why}; nothing is lost: parity restored {}",
            count(sectors.into(), "sector")
        );
    }
    match (*chunks, damaged.is_repaired()) {
        (0, _) => format!("{why}; its readable data is stored again"),
        (_, true) => format!(
            "{why}; nothing is lost: other copies exist of all {}",
            count(*chunks, "chunk")
        ),
        _ => format!(
            "{why}; other copies exist of {chunks_elsewhere} of its {}",
            count(*chunks, "chunk")
        ),
    }
}
