//! `copy`: replicates snapshots to another pool, which receives only the chunks that it lacks.
//! [`super::run`] calls this.
//!
//! Invariant: a dry run is the same run on a dry-run copy of the receiving pool. In a server of the
//! source pool, the command takes no writer lock, because it only reads there. In a server of the
//! receiving pool it takes the writer lock. A snapshot that cannot be read is reported, and the
//! others are copied. After an interruption, the next run finds the chunks that were sent.

use super::backup::REGION_BYTES;
use super::full;
use super::invocation::Invocation;
use super::known_snapshots::KnownSnapshots;
use crate::progress::ArchiveProgress;
use crate::settings::receiving_pool;
use anyhow::{Context, bail};
use browsing::choice::{SnapshotFilter, choose, choose_several};
use command_line::CopyArgs;
use format::snapshot::{Snapshot, SnapshotKind};
use maintenance::{RunEnd, StepSizes, run_task};
use replication::{
    CopiedSnapshot, CopyCounts, CopyError, CopyLimits, CopyNews, CopyOptions, Replication,
};
use server::state::{CopyEntry, CopyState, OpenPool, TaskHost};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{OpenMode, Pool, WriteCounts};
use terminal::exit::Exit;
use terminal::json::Object;
use terminal::names::short_id;
use terminal::sizes;
use units::count;

/// Step sizes. The user who interrupts waits for one step at most.
const SIZES: StepSizes = StepSizes::new(4 << 20);

pub(super) fn run(invocation: &Invocation, args: &CopyArgs) -> anyhow::Result<Exit> {
    if args.pause || args.resume {
        return switch(invocation, args.pause);
    }
    let filter = SnapshotFilter::new(&args.filter)?;
    if args.snapshots.is_empty() && !args.all && filter.is_empty() {
        bail!("no snapshots chosen: name them, or use --all, --host, --tag or --path");
    }
    let to = receiving_pool(&args.to, &invocation.context.environment)?;
    let to_path = to.path.clone();
    if to.is_at(invocation.settings.pool()?) {
        bail!(
            "{} is the source pool; name another pool with --to",
            to_path.display()
        );
    }
    let lane = invocation.lane(args.compression.as_deref(), REGION_BYTES)?;
    let memory = invocation.settings.memory_bytes;
    let is_receiver = invocation
        .server_state()
        .is_some_and(|server| to.is_at(&server.path));
    let from = match is_receiver {
        // Opens the source directly. If it has a server too, reads ask that server for I/O grants.
        true => invocation.open_within(OpenMode::Read, memory)?.into(),
        false => invocation.open(OpenMode::Read)?,
    };
    // Other commands of a server may run gc meanwhile.
    let _hold = from.hold();
    let known = KnownSnapshots::of(invocation, &from)?;
    let chosen = known.found(chosen(&known, args, &filter))?;
    let mode = match args.dry_run {
        true => OpenMode::Read,
        false => OpenMode::Write,
    };
    let receiver: OpenPool = match is_receiver {
        true => invocation.open(mode)?,
        false => {
            let opened = invocation.open_other(&to, mode, memory);
            opened.context("cannot open the receiving pool")?.0.into()
        }
    };
    let to = match args.dry_run {
        true => Arc::new(receiver.dry_run(memory)?),
        false => Arc::clone(&receiver),
    };
    let volumes = invocation.server_state().filter(|_| !is_receiver);
    let options = CopyOptions {
        lane,
        // A dry run sends nothing.
        bytes_per_s: args.limit.filter(|limit| *limit > 0 && !args.dry_run),
        limits: CopyLimits::default(),
        volumes: volumes.map(|server| Arc::clone(&server.volumes)),
    };
    let from: &Arc<Pool> = &from;
    let replication = Replication::new(Arc::clone(from), known.to_vec(), Arc::clone(&to), options)?;
    let mut copying = Copying {
        invocation,
        replication,
        is_dry_run: args.dry_run,
        started: Instant::now(),
        entry: invocation.server_state().map(|server| {
            server.tasks.copies.begin(CopyState {
                to: to_path.display().to_string(),
                began: from.now(),
                total_bytes: chosen.iter().map(size_of).sum(),
                ..CopyState::default()
            })
        }),
        copied: 0,
        present: 0,
        damaged: 0,
    };
    copying.refuse_namesakes(&chosen)?;
    let copied = copying.all(&chosen);
    if args.dry_run {
        receiver.note_damage_of(&to);
    }
    copied.map_err(|e| full::explained(&to, e))?;
    copying.summary(&to_path)?;
    let exit = known.exit_of_several(&args.snapshots, Exit::Done);
    Ok(if copying.damaged > 0 {
        Exit::Damaged
    } else {
        exit
    })
}

/// Pauses or resumes the copies of a server.
fn switch(invocation: &Invocation, pause: bool) -> anyhow::Result<Exit> {
    let server = invocation.server("interrupt the copy; the next copy continues it")?;
    let copies = server.tasks.copies.pause(pause) as u64;
    let console = &invocation.console;
    console.message(
        Object::message("summary")
            .boolean("paused", pause)
            .integer("copies", copies),
    )?;
    let done = if pause { "paused" } else { "resumed" };
    console.line(format!("{} {done}", count(copies, "copy")))?;
    Ok(Exit::Done)
}

/// Returns the snapshots that the user named or filtered, oldest first. Images, volumes and streams
/// can also be named by their names.
fn chosen(
    known: &KnownSnapshots,
    args: &CopyArgs,
    filter: &SnapshotFilter,
) -> anyhow::Result<Vec<Snapshot>> {
    if args.snapshots.is_empty() {
        let all = choose_several(known, &[], filter)?;
        return Ok(all.into_iter().cloned().collect());
    }
    let mut chosen = Vec::new();
    for text in &args.snapshots {
        let found = choose(known, text, filter);
        chosen.push(match found {
            Ok(snapshot) => snapshot.clone(),
            Err(why) => known.named(text, filter).map_err(|_| why)?.clone(),
        });
    }
    chosen.sort_by_key(|s| (s.taken, s.id));
    chosen.dedup_by_key(|s| s.id);
    Ok(chosen)
}

struct Copying<'a> {
    invocation: &'a Invocation,
    replication: Replication,
    is_dry_run: bool,
    /// Entry in the server state, for `status`. `None` without a server.
    entry: Option<CopyEntry>,
    started: Instant,
    copied: u64,
    present: u64,
    damaged: u64,
}

impl Copying<'_> {
    /// Two snapshots VOLUME@NAME in one pool could not be distinguished.
    fn refuse_namesakes(&self, chosen: &[Snapshot]) -> anyhow::Result<()> {
        for snapshot in chosen {
            if let Some(other) = self.replication.namesake(snapshot) {
                bail!(
                    "{}: the receiving pool has another snapshot with this name ({}); nothing was copied",
                    snapshot.name,
                    short_id(other)
                );
            }
        }
        Ok(())
    }

    fn all(&mut self, chosen: &[Snapshot]) -> anyhow::Result<()> {
        let progress = self.invocation.progress("copying").counting("snapshot");
        for snapshot in chosen {
            progress.add_total(1, size_of(snapshot));
        }
        progress.totals_known();
        for snapshot in chosen {
            let until = progress.bytes_done() + size_of(snapshot);
            progress.set_current(words(snapshot).as_bytes());
            self.one(snapshot, &progress)?;
            progress.add_bytes(until.saturating_sub(progress.bytes_done()));
            progress.add_files(1);
        }
        Ok(())
    }

    fn one(&mut self, snapshot: &Snapshot, progress: &ArchiveProgress) -> anyhow::Result<()> {
        let console = &self.invocation.console;
        if self.replication.is_there(snapshot) {
            self.present += 1;
            console.message(
                Object::message("present").text("snapshot_id", &snapshot.id.to_string()),
            )?;
            console.detail(format_args!(
                "{}: exists in the receiving pool",
                words(snapshot)
            ));
            return Ok(());
        }
        let copied = self.copy(snapshot, progress);
        self.is_paused(snapshot, progress);
        match copied {
            Ok(copied) => {
                self.copied += 1;
                self.tell(&copied)
            }
            Err(e) => {
                let stored = self.replication.give_up();
                match e.downcast_ref() {
                    // Other snapshots may still be intact.
                    Some(CopyError::Source(why)) if why.is_corruption() => {
                        console.warn(format_args!("{}: not copied: {why}", words(snapshot)));
                        self.damaged += 1;
                        Ok(stored?)
                    }
                    _ => Err(e),
                }
            }
        }
    }

    fn copy(
        &mut self,
        snapshot: &Snapshot,
        progress: &ArchiveProgress,
    ) -> anyhow::Result<Box<CopiedSnapshot>> {
        let interrupt = &self.invocation.interrupt;
        let limit = progress.bytes_done() + size_of(snapshot);
        self.replication.begin(snapshot)?;
        let host = TaskHost::new(
            self.invocation.server_state().map(|server| &*server.tasks),
            interrupt,
        );
        loop {
            interrupt.check()?;
            if self.is_paused(snapshot, progress) {
                interrupt.wait(Duration::from_millis(200));
                continue;
            }
            let mut before = passed(&self.replication.counts().0);
            let (entry, mut copied) = (&self.entry, None);
            let ended = run_task(&mut self.replication, &host, SIZES, |replication, news| {
                let now = passed(&replication.counts().0);
                let left = limit.saturating_sub(progress.bytes_done());
                progress.add_bytes((now - before).min(left));
                before = now;
                if let Some(CopyNews::Copied(news)) = news {
                    copied = Some(news);
                    return Ok(ControlFlow::Break(()));
                }
                Ok::<_, CopyError>(match is_paused(entry, replication, snapshot, progress) {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                })
            })?;
            if let Some(copied) = copied {
                return Ok(copied);
            }
            if ended == RunEnd::Idle {
                interrupt.wait(Duration::from_millis(100));
            }
        }
    }

    fn is_paused(&self, snapshot: &Snapshot, progress: &ArchiveProgress) -> bool {
        is_paused(&self.entry, &self.replication, snapshot, progress)
    }

    fn tell(&self, copied: &CopiedSnapshot) -> anyhow::Result<()> {
        let console = &self.invocation.console;
        let CopiedSnapshot {
            snapshot,
            counts,
            stored,
        } = copied;
        let message = Object::message(match self.is_dry_run {
            true => "would_copy",
            false => "copied",
        });
        let message = message
            .text("snapshot_id", &snapshot.id.to_string())
            .path("name", snapshot.name.as_bytes())
            .integer("total_bytes", size_of(snapshot));
        console.message(numbers(message, counts, stored))?;
        let size = sizes::display;
        console.line(match self.is_dry_run {
            true => format!(
                "{}: would be copied; {} of {} would be sent",
                words(snapshot),
                size(stored.new_bytes),
                size(size_of(snapshot)),
            ),
            false => format!(
                "{}: copied; {} of {} sent",
                words(snapshot),
                size(stored.new_bytes),
                size(size_of(snapshot)),
            ),
        })?;
        Ok(())
    }

    fn summary(&self, to: &Path) -> anyhow::Result<()> {
        let console = &self.invocation.console;
        let (counts, stored) = self.replication.counts();
        let seconds = self.started.elapsed().as_secs_f64();
        let message = Object::message("summary")
            .boolean("dry_run", self.is_dry_run)
            .integer("snapshots_copied", self.copied)
            .integer("snapshots_present", self.present)
            .integer("snapshots_damaged", self.damaged);
        let message = numbers(message, &counts, &stored).number("total_duration", seconds);
        console.message(message)?;
        let size = sizes::display;
        let (copied, there, sent, stored_words, read) = match self.is_dry_run {
            true => (
                "would be copied",
                "exist there",
                "would send",
                "would store",
                "would read",
            ),
            false => ("copied", "existed there", "sent", "stored", "read"),
        };
        console.line(format!(
            "{} {copied} to {}, {} {there}; {sent} {} in {}, {stored_words} {}",
            count(self.copied, "snapshot"),
            to.display(),
            self.present,
            size(stored.new_bytes),
            count(stored.chunks_new, "chunk"),
            size(stored.stored_bytes),
        ))?;
        console.line(format!(
            "{read} {}, {} of it from memory; {} existed there; {seconds:.2} s",
            size(counts.read_bytes),
            size(counts.cached_bytes),
            size(counts.known_bytes),
        ))?;
        Ok(())
    }
}

/// Reports the progress to the server. Returns true if the copy is paused.
fn is_paused(
    entry: &Option<CopyEntry>,
    replication: &Replication,
    snapshot: &Snapshot,
    progress: &ArchiveProgress,
) -> bool {
    let Some(entry) = entry else {
        return false;
    };
    let (counts, stored) = replication.counts();
    entry.update(|state| {
        state.snapshot = words(snapshot);
        state.done_bytes = progress.bytes_done();
        state.counts = counts;
        state.sent_bytes = stored.new_bytes;
    })
}

fn numbers(message: Object, counts: &CopyCounts, stored: &WriteCounts) -> Object {
    message
        .integers(counts.fields())
        .integer("data_added", stored.new_bytes)
        .integer("data_added_packed", stored.stored_bytes)
        .integer("chunks_new", stored.chunks_new)
}

fn passed(counts: &CopyCounts) -> u64 {
    counts.read_bytes + counts.cached_bytes + counts.known_bytes
}

/// Returns the size of the source, bytes.
fn size_of(snapshot: &Snapshot) -> u64 {
    match snapshot.kind {
        SnapshotKind::Tree => snapshot.logical_bytes,
        _ => snapshot.root.len,
    }
}

/// Returns the snapshot's name for messages.
fn words(snapshot: &Snapshot) -> String {
    match snapshot.name.is_empty() {
        true => format!("snapshot {}", short_id(snapshot)),
        false => format!("snapshot {} ({})", short_id(snapshot), snapshot.name),
    }
}
