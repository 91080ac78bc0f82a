//! The snapshots that a command can read, and the consequences of a damaged catalog. Commands that
//! read or add snapshots call this.
//!
//! Invariant: damage to the catalog does not block access to readable snapshots, and is always
//! reported. A command whose answer depends on unreadable snapshots (a list, the latest one) ends
//! with exit code 21. Commands that remove or replace snapshots do not use this: they must see all
//! of them.

use super::invocation::Invocation;
use anyhow::bail;
use browsing::choice::{LATEST, SnapshotFilter, choose, choose_named, is_called, lost_commit};
use browsing::listing;
use browsing::tree::{lookup, normal};
use format::snapshot::{Snapshot, SnapshotKind};
use std::ops::Deref;
use store::{Pool, Reader, StoreError};
use terminal::calendar;
use terminal::console::printable;
use terminal::exit::Exit;
use terminal::latest::latest;
use terminal::names::short_id;
use units::count;

/// The readable snapshots, oldest first.
pub(super) struct KnownSnapshots {
    readable: Vec<Snapshot>,
    /// Reason why others cannot be read.
    damage: Option<String>,
    /// Reason why newer snapshots may be missing: a lost commit.
    lost: Option<String>,
    /// Names of volumes, which take precedence over images of the same name.
    volumes: Vec<String>,
}

impl Deref for KnownSnapshots {
    type Target = [Snapshot];

    fn deref(&self) -> &[Snapshot] {
        &self.readable
    }
}

impl KnownSnapshots {
    /// Returns the readable snapshots. Warns if there are others.
    pub fn of(invocation: &Invocation, pool: &Pool) -> anyhow::Result<Self> {
        let (readable, damage) = pool.snapshots_readable()?;
        let damage = damage.map(|e| e.to_string());
        if let Some(damage) = &damage {
            invocation.console.warn(format_args!(
                "pool: some snapshots cannot be listed; the others are not affected: {damage}"
            ));
        }
        let lost = lost_commit(pool);
        if let Some(lost) = lost {
            // Opening the pool has reported the lost commit itself.
            if let Some(newest) = latest(readable.iter()) {
                let (id, what) = (short_id(newest), listing::subject(newest));
                let time = calendar::local(newest.taken, &invocation.zone);
                invocation.console.warn(format_args!(
                    "pool: newer snapshots may be lost with commit {lost}; the latest readable one is {id} of {time}, {what}"
                ));
            }
        }
        let volumes = match pool.volumes() {
            Err(e) if e.is_corruption() => Vec::new(),
            volumes => volumes?.into_iter().map(|v| v.name).collect(),
        };
        Ok(Self {
            readable,
            damage,
            lost: lost
                .map(|lost| format!("commit {lost} is lost, with the snapshots that it added")),
            volumes,
        })
    }

    /// Returns the image or stream that `NAME` or `NAME@SNAPSHOT` names. A name that is also a
    /// volume's means the volume, in every command. States of the image are then `NAME@latest` or
    /// `NAME@SNAPSHOT`.
    pub fn named(&self, text: &str, filter: &SnapshotFilter) -> anyhow::Result<&Snapshot> {
        let found = choose_named(&self.readable, text, filter);
        if !self.is_volume(text) {
            return found;
        }
        let why = format!(
            "{text} is a volume; this command needs a snapshot of it (take one with \
             `quintet volume snapshot {text}@NAME`)"
        );
        match found {
            Err(_) => bail!(why),
            Ok(_) => bail!("{why}. The image with the same name is {text}@latest"),
        }
    }

    /// Returns true if a volume has this name.
    pub fn is_volume(&self, name: &str) -> bool {
        self.volumes.iter().any(|volume| volume == name)
    }

    /// Refuses a name for a new state of an image or stream, unless it names nothing or the same
    /// kind of source. A source that already has such a name can still get new states.
    pub fn expect_free(&self, kind: SnapshotKind, name: &str) -> anyhow::Result<()> {
        let mut called = self.readable.iter().filter(|s| is_called(s, name));
        let other = called.clone().find(|s| s.kind != kind);
        if called.any(|s| s.kind == kind) {
            return Ok(());
        }
        let what = match kind {
            SnapshotKind::Stream => "a stream",
            _ => "an image",
        };
        if name.is_empty() || name.contains('@') || name.contains(char::is_control) {
            bail!(
                "{name:?} cannot be the name of {what}: it is empty, or has an @ or a control character; choose another name"
            );
        }
        match other.map(|other| other.kind) {
            _ if self.is_volume(name) => {
                bail!("{name:?} is the name of a volume; choose another name")
            }
            Some(SnapshotKind::Stream) => {
                bail!("{name:?} is the name of a stream; choose another name for {what}")
            }
            Some(_) => bail!("{name:?} is the name of an image; choose another name for {what}"),
            None => Ok(()),
        }
    }

    /// Makes a complete list without volumes: for tests.
    #[cfg(test)]
    pub fn whole(readable: Vec<Snapshot>) -> Self {
        Self {
            readable,
            damage: None,
            lost: None,
            volumes: Vec::new(),
        }
    }

    /// Makes a complete list with one volume: for tests.
    #[cfg(test)]
    pub fn with_volume(readable: Vec<Snapshot>, volume: &str) -> Self {
        Self {
            volumes: vec![volume.to_owned()],
            ..Self::whole(readable)
        }
    }

    /// Returns why some snapshots cannot be read, if there are such.
    pub fn hidden(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// Returns why a snapshot may be missing from the list, if that is possible.
    fn doubt(&self) -> Option<&str> {
        self.damage.as_deref().or(self.lost.as_deref())
    }

    /// Passes the result of a choice on. If the choice failed and snapshots may be missing, the
    /// error becomes one of corruption: the snapshot may be among them.
    pub fn found<T>(&self, choice: anyhow::Result<T>) -> anyhow::Result<T> {
        choice.map_err(|why| self.not_found(why))
    }

    /// Returns the error of a choice that failed. See [`KnownSnapshots::found`].
    pub fn not_found(&self, why: anyhow::Error) -> anyhow::Error {
        let Some(damage) = self.doubt() else {
            return why;
        };
        let damaged = StoreError::corruption("catalog", "its snapshots", damage);
        anyhow::Error::new(damaged).context(why.to_string())
    }

    /// Returns the snapshot of `SNAPSHOT[:PATH]`. `latest` with a path means the newest snapshot of
    /// files that has this path; if newer ones lack it, a note says which one that is. A newer one
    /// that cannot be searched is an error, because it may have the path.
    pub fn at_path(
        &self,
        invocation: &Invocation,
        reader: &Reader,
        (called, path): (&str, Option<&[u8]>),
        filter: &SnapshotFilter,
    ) -> anyhow::Result<&Snapshot> {
        let newest = self.found(choose(&self.readable, called, filter))?;
        let path = normal(path.unwrap_or_default());
        if called != LATEST || path == b"/" || newest.kind != SnapshotKind::Tree {
            return Ok(newest);
        }
        let mut why = None;
        let trees = self.readable.iter().rev();
        let trees = trees.filter(|s| s.kind == SnapshotKind::Tree && filter.matches(s));
        for (newer, snapshot) in (0..).zip(trees) {
            invocation.interrupt.check()?;
            match lookup(reader, snapshot.root, &path) {
                Ok(_) if newer == 0 => return Ok(snapshot),
                Ok(_) => {
                    let time = calendar::local(snapshot.taken, &invocation.zone);
                    invocation.console.note(format_args!(
                        "latest with {}: {} of {time} ({} without it)",
                        printable(&path),
                        short_id(snapshot),
                        count(newer, "newer snapshot"),
                    ));
                    return Ok(snapshot);
                }
                Err(e) if e.downcast_ref::<StoreError>().is_some() => {
                    let id = short_id(snapshot);
                    let why = format!(
                        "cannot look for {} in snapshot {id}; name an older snapshot instead of latest",
                        printable(&path)
                    );
                    return Err(e.context(why));
                }
                // The newest is what the user knows: its names are suggested.
                Err(e) => {
                    why.get_or_insert((e, newer)).1 = newer;
                }
            }
        }
        let Some((why, older)) = why else {
            return Ok(newest);
        };
        let none = || format!("none of {} has it", count(older + 1, "snapshot"));
        Err(self.not_found(match older {
            0 => why,
            _ => why.context(none()),
        }))
    }

    /// Returns the exit code of a command whose answer depends on all snapshots.
    pub fn exit_of_all(&self, exit: Exit) -> Exit {
        match exit {
            Exit::Done | Exit::Partly if self.doubt().is_some() => Exit::Damaged,
            exit => exit,
        }
    }

    /// Returns the exit code of a command about one snapshot, which the user named `called`. Only
    /// an id surely names the same snapshot with and without the missing ones.
    pub fn exit_of(&self, called: &str, exit: Exit) -> Exit {
        let state = called.rsplit_once('@').map_or(called, |(_, state)| state);
        match !state.is_empty() && state.bytes().all(|b| b.is_ascii_hexdigit()) {
            true => exit,
            false => self.exit_of_all(exit),
        }
    }

    /// The same for several snapshots. None named means all.
    pub fn exit_of_several(&self, called: &[String], exit: Exit) -> Exit {
        match called {
            [] => self.exit_of_all(exit),
            called => called
                .iter()
                .fold(exit, |exit, one| self.exit_of(one, exit)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::StoreErrorKind;

    fn known(damage: Option<&str>) -> KnownSnapshots {
        KnownSnapshots {
            readable: Vec::new(),
            damage: damage.map(str::to_owned),
            lost: None,
            volumes: Vec::new(),
        }
    }

    #[test]
    fn damage_shows_where_it_may_matter() {
        let (whole, hurt) = (known(None), known(Some("a leaf")));
        assert_eq!(whole.exit_of_all(Exit::Done), Exit::Done);
        assert_eq!(hurt.exit_of_all(Exit::Done), Exit::Damaged);
        assert_eq!(hurt.exit_of_all(Exit::Failed), Exit::Failed);
        for called in ["latest", "disk", "disk@latest", ""] {
            assert_eq!(hurt.exit_of(called, Exit::Done), Exit::Damaged, "{called}");
            assert_eq!(whole.exit_of(called, Exit::Done), Exit::Done);
        }
        let several = |called: &[&str]| {
            let called: Vec<String> = called.iter().map(|c| (*c).to_owned()).collect();
            hurt.exit_of_several(&called, Exit::Done)
        };
        assert_eq!(several(&[]), Exit::Damaged);
        assert_eq!(several(&["12", "34"]), Exit::Done);
        assert_eq!(several(&["latest", "34"]), Exit::Damaged);
        for called in ["3f2a", "disk@3F2A"] {
            assert_eq!(hurt.exit_of(called, Exit::Partly), Exit::Partly, "{called}");
        }
    }

    #[test]
    fn what_is_not_found_may_be_damaged() {
        let missing = || Err::<(), _>(anyhow::anyhow!("there is no snapshot 12"));
        let error = known(Some("a leaf")).found(missing()).unwrap_err();
        let kind = error.downcast_ref::<StoreError>().map(|e| e.kind);
        assert_eq!(kind, Some(StoreErrorKind::Corruption));
        assert!(format!("{error:#}").starts_with("there is no snapshot 12: "));
        let error = known(None).found(missing()).unwrap_err();
        assert!(error.downcast_ref::<StoreError>().is_none());
    }
}
