//! `host events`: page events of a tree, as they happen. [`super::run`] calls this.
//!
//! Invariant: it says how it sees them, and when events were lost. Each look covers the time since
//! the one before.

use crate::arguments::HostEventsArgs;
use crate::refusals::warn;
use anyhow::Context;
use duet::{Duet, DuetOptions};
use linux_host::{Drained, FileId, Moved, Watch};
use machine::PAGE_BYTES;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;
use terminal::exit::Exit;
use terminal::json::Object;
use terminal::shell::Shell;
use terminal::sizes;
use terminal::table::Table;
use units::count;

/// Files that a look shows at most, as text.
const SHOWN_MAX: usize = 15;

pub(super) fn run(shell: &Shell, args: &HostEventsArgs) -> anyhow::Result<Exit> {
    let path = &args.path;
    let duet = Duet::new(DuetOptions {
        items_max: 1 << 16,
        seed: 0,
    });
    let begin = match args.poll {
        true => Watch::start_polling(path, duet),
        false => Watch::start(path, duet),
    };
    let mut watch = begin.with_context(|| path.display().to_string())?;
    let interval = Duration::from_secs_f64(args.interval);
    let first = watch.scan().with_context(|| path.display().to_string())?;
    let mut unseen = first.failed.len();
    warn(shell, first.failed);
    say_how(shell, &watch)?;
    let mut had_events = watch.polls_because().is_none();
    let mut looks = 0;
    while args.count.is_none_or(|count| looks < count) && !shell.interrupt.wait(interval) {
        let drained = watch.drain().with_context(|| path.display().to_string())?;
        if had_events && let Some(why) = watch.polls_because() {
            had_events = false;
            shell.console.warn(format!("events have stopped: {why}"));
        }
        unseen = unseen.max(drained.failed.len());
        show(shell, &mut watch, &drained)?;
        looks += 1;
    }
    Ok(match unseen {
        0 => Exit::Done,
        _ => Exit::Partly,
    })
}

fn say_how(shell: &Shell, watch: &Watch) -> anyhow::Result<()> {
    let (mount, console) = (watch.mount(), &shell.console);
    let source = match watch.polls_because() {
        None => "ebpf",
        Some(_) => "cachestat",
    };
    let object = Object::message("host_events_begin")
        .text("source", source)
        .text_if("fallback_reason", watch.polls_because())
        .text("file_system", &mount.kind)
        .path("mount", mount.point.as_os_str().as_bytes());
    console.message(object)?;
    console.note(match watch.polls_because() {
        None => format!("events of {} by eBPF", mount.point.display()),
        Some(why) => format!("comparing states by cachestat, without events: {why}"),
    });
    Ok(())
}

fn show(shell: &Shell, watch: &mut Watch, drained: &Drained) -> anyhow::Result<()> {
    let ids: Vec<FileId> = drained.files.keys().copied().collect();
    let paths = watch.paths(&ids)?;
    let mut files: Vec<(&Path, FileId, Moved)> = Vec::new();
    let (mut total, mut nameless) = (Moved::default(), Moved::default());
    for (id, moved) in &drained.files {
        match paths.get(id) {
            Some(path) => {
                total.add(*moved);
                files.push((path, *id, *moved));
            }
            None => nameless.add(*moved),
        }
    }
    let pages = |moved: &Moved| moved.added + moved.removed + moved.dirtied + moved.flushed;
    files.sort_by_key(|(path, _, moved)| (std::cmp::Reverse(pages(moved)), *path));
    let console = &shell.console;
    for (path, id, moved) in &files {
        let object = Object::message("host_events")
            .path("path", path.as_os_str().as_bytes())
            .integer("inode", id.inode)
            .integer("btrfs_root", id.root);
        let cached = watch.mirror().cached_pages(*id);
        console.message(counts(object, *moved).integer("cached_pages", cached))?;
    }
    let reported = watch.reported_pages().unwrap_or_default();
    let object = counts(Object::message("status"), total)
        .integer("reported_pages_total", reported)
        .integer("files", files.len() as u64)
        .object("elsewhere_or_deleted", counts(Object::new(), nameless))
        .integer("dropped_chunks", drained.dropped);
    console.message(object)?;
    for line in lines(watch, &files, drained.dropped, nameless) {
        console.line(line)?;
    }
    Ok(console.flush()?)
}

fn counts(object: Object, moved: Moved) -> Object {
    object
        .integer("added_pages", moved.added)
        .integer("removed_pages", moved.removed)
        .integer("dirtied_pages", moved.dirtied)
        .integer("flushed_pages", moved.flushed)
}

fn lines(
    watch: &Watch,
    files: &[(&Path, FileId, Moved)],
    dropped: u64,
    nameless: Moved,
) -> Vec<String> {
    let size = |pages: u64| match pages {
        0 => "-".to_owned(),
        _ => sizes::display(pages * PAGE_BYTES),
    };
    let heading = [
        "Added",
        "Removed",
        "Dirtied",
        "Flushed",
        "In memory",
        "Path",
    ];
    let mut table = Table::new(heading, &[0, 1, 2, 3, 4]);
    for (path, id, moved) in files.iter().take(SHOWN_MAX) {
        table.row([
            size(moved.added),
            size(moved.removed),
            size(moved.dirtied),
            size(moved.flushed),
            size(watch.mirror().cached_pages(*id)),
            path.display().to_string(),
        ]);
    }
    let mut lines = table.lines();
    if files.len() > SHOWN_MAX {
        lines.push(format!("and {} more files", files.len() - SHOWN_MAX));
    }
    if nameless != Moved::default() {
        lines.push(format!(
            "elsewhere on this file system, or deleted: {} added, {} removed, {} dirtied, {} flushed",
            size(nameless.added),
            size(nameless.removed),
            size(nameless.dirtied),
            size(nameless.flushed),
        ));
    }
    if dropped > 0 {
        lines.push(format!(
            "{} lost; all states were compared again",
            count(dropped, "chunk of events")
        ));
    }
    lines.push(String::new());
    lines
}
