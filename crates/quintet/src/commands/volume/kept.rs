//! The contents that `volume delete`, `rollback` and `resize --shrink` take away: asked about at a
//! terminal, kept in the trash, and taken back by `undelete`. [`super::run`] and `undelete` call
//! this.
//!
//! Invariant: contents are in the trash before they are taken away, unless the user gave `--purge`.

use super::super::confirm::{can_ask, is_wanted};
use super::super::invocation::Invocation;
use anyhow::{Context, bail};
use command_line::VolumeLossArgs;
use format::snapshot::{Snapshot, SnapshotKind};
use server::state::OpenVolumes;
use terminal::calendar;
use terminal::json::Object;

/// Beginning of the label of a deleted volume's contents.
const DELETED: &str = "deleted-";

/// Asks at a terminal whether to do it.
pub(super) fn ask(
    invocation: &Invocation,
    args: &VolumeLossArgs,
    question: &str,
) -> anyhow::Result<()> {
    if args.yes || args.force || !can_ask(&invocation.context) {
        return Ok(());
    }
    let after = match args.purge {
        true => "It cannot be undone.",
        false => "Until the trash period is over, quintet undelete restores it.",
    };
    match is_wanted(&invocation.context, &format!("{question}? {after}"))? {
        true => Ok(()),
        false => bail!("nothing was changed"),
    }
}

/// Puts the contents of a volume into the trash; `why` is `deleted`, `before-rollback` or
/// `before-shrink`.
pub(super) fn keep(
    invocation: &Invocation,
    volumes: &OpenVolumes,
    name: &str,
    (why, args): (&str, &VolumeLossArgs),
) -> anyhow::Result<()> {
    if args.purge {
        return Ok(());
    }
    let label = format!("{why}-{}", calendar::rfc3339(volumes.pool().now()));
    let kept = volumes.keep_in_trash(name, &label).with_context(|| {
        format!(
            "cannot keep the contents of {name} in the trash; to remove them for ever, give --purge"
        )
    })?;
    let id = terminal::names::short_id(&kept);
    invocation.console.note(format_args!(
        "the contents so far are in the trash: quintet undelete {id}"
    ));
    Ok(())
}

/// Makes volumes again of contents that came back from the trash, where no volume has the name.
pub(in super::super) fn return_volumes(
    invocation: &Invocation,
    back: &[Snapshot],
) -> anyhow::Result<()> {
    let of_volumes: Vec<_> = back
        .iter()
        .filter_map(|s| Some((s, volume_of(s)?)))
        .collect();
    if of_volumes.is_empty() {
        return Ok(());
    }
    let volumes = invocation.open_volumes()?;
    for (snapshot, (name, is_deleted)) in of_volumes {
        let console = &invocation.console;
        if is_deleted && volumes.volume(name).is_none() {
            volumes.clone_snapshot(name, snapshot)?;
            console.message(Object::message("undeleted_volume").text("name", name))?;
            console.line(format!("volume {name} is back"))?;
        } else if volumes.volume(name).is_some() {
            console.note(format_args!(
                "{name} stays as it is; to reset it: quintet volume rollback {}",
                snapshot.name
            ));
        }
    }
    Ok(())
}

/// Returns the volume that a snapshot from [`keep`] is of, and whether it was deleted. `None` for
/// other snapshots.
fn volume_of(snapshot: &Snapshot) -> Option<(&str, bool)> {
    let (name, label) = snapshot.name.rsplit_once('@')?;
    (snapshot.kind == SnapshotKind::Volume).then_some((name, label.starts_with(DELETED)))
}
