//! Resolves the user's names and filters to snapshots. Commands call this.
//!
//! Invariant: a name that fits several snapshots is refused. `latest` means the same in every
//! command: [`terminal::latest`] of the snapshots that pass the filters.

use anyhow::{Context, bail};
use command_line::FilterArgs;
use format::snapshot::{Snapshot, SnapshotKind};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use store::{Pool, StoreError};
use terminal::latest::latest;
use terminal::paths::absolute;
use units::{Generation, SnapshotId};

/// The name of the newest snapshot of files.
pub const LATEST: &str = "latest";

/// Checked filters.
#[derive(Clone, Debug, Default)]
pub struct SnapshotFilter {
    hosts: Vec<String>,
    /// The snapshot must have all tags of one of these lists.
    tags: Vec<Vec<String>>,
    /// The snapshot must have all of these paths, each as given or made absolute.
    paths: Vec<[Vec<u8>; 2]>,
}

impl SnapshotFilter {
    /// Makes filters from flags.
    pub fn new(args: &FilterArgs) -> anyhow::Result<Self> {
        let mut paths = Vec::new();
        for path in &args.path {
            let given = path.as_os_str().as_bytes().to_vec();
            let absolute = absolute(path)?.into_os_string();
            paths.push([given, absolute.as_bytes().to_vec()]);
        }
        Ok(Self {
            hosts: args.host.clone(),
            tags: tag_lists(&args.tag),
            paths,
        })
    }

    /// Returns true if no filter was given.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty() && self.tags.is_empty() && self.paths.is_empty()
    }

    /// Returns true if the snapshot passes the filters.
    pub fn matches(&self, snapshot: &Snapshot) -> bool {
        let host = self.hosts.is_empty() || self.hosts.contains(&snapshot.host);
        let has_all = |tags: &Vec<String>| tags.iter().all(|t| snapshot.tags.contains(t));
        let tags = self.tags.is_empty() || self.tags.iter().any(has_all);
        let has = |[given, absolute]: &[Vec<u8>; 2]| {
            snapshot.paths.contains(absolute)
                || snapshot.kind != SnapshotKind::Tree && snapshot.name.as_bytes() == given
        };
        host && tags && self.paths.iter().all(has)
    }
}

/// Returns the newest lost commit, if it is newer than the present one. A later commit ends the
/// doubt.
pub fn lost_commit(pool: &Pool) -> Option<Generation> {
    let newest = pool.generation();
    pool.health()
        .lost_commits()
        .iter()
        .copied()
        .find(|g| *g > newest)
}

/// Refuses `latest`, and the plain name of an image, if a newer snapshot may be lost. For commands
/// that change something and must not change an older snapshot instead.
pub fn expect_latest_known<'t>(
    pool: &Pool,
    called: impl IntoIterator<Item = &'t String>,
) -> anyhow::Result<()> {
    let Some(lost) = lost_commit(pool) else {
        return Ok(());
    };
    for text in called {
        let is_id = !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
        if text.ends_with("@latest") || !text.contains('@') && !is_id {
            let found = format!("is lost, and {text:?} may mean a lost snapshot; use an id");
            return Err(StoreError::corruption("commit", lost, found).into());
        }
    }
    Ok(())
}

/// Parses `a,b` and `c` as lists of tags.
pub fn tag_lists(texts: &[String]) -> Vec<Vec<String>> {
    let list = |text: &String| {
        let tags = text.split(',').map(str::trim).filter(|t| !t.is_empty());
        tags.map(str::to_owned).collect()
    };
    texts.iter().map(list).collect()
}

/// Returns the snapshot that `text` names: `latest`, the beginning of its id, or VOLUME@NAME.
pub fn choose<'a>(
    snapshots: &'a [Snapshot],
    text: &str,
    filter: &SnapshotFilter,
) -> anyhow::Result<&'a Snapshot> {
    if text == "latest" {
        let newest = latest(snapshots.iter().filter(|s| filter.matches(s)));
        return newest.context("there is no matching snapshot for \"latest\"");
    }
    let of_volume = |s: &&Snapshot| s.kind == SnapshotKind::Volume && s.name == text;
    if let Some(found) = snapshots.iter().find(of_volume) {
        return Ok(found);
    }
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        bail!(
            "there is no snapshot {text:?} (write latest, the first digits of an id, or VOLUME@NAME)"
        );
    }
    let text = text.to_ascii_lowercase();
    let mut fitting = snapshots
        .iter()
        .filter(|s| s.id.to_string().starts_with(&text));
    match (fitting.next(), fitting.next()) {
        (Some(only), None) => Ok(only),
        (Some(_), Some(_)) => bail!("several snapshots begin with {text}; give more digits"),
        (None, _) => bail!("there is no snapshot {text}"),
    }
}

/// Returns the named snapshots, each once, or all that pass the filter, in the order of the pool's
/// list.
pub fn choose_several<'a>(
    snapshots: &'a [Snapshot],
    named: &[String],
    filter: &SnapshotFilter,
) -> anyhow::Result<Vec<&'a Snapshot>> {
    if named.is_empty() {
        return Ok(snapshots.iter().filter(|s| filter.matches(s)).collect());
    }
    let chosen = named.iter().map(|text| choose(snapshots, text, filter));
    let chosen = chosen.map(|chosen| chosen.map(|s| s.id));
    let chosen: BTreeSet<SnapshotId> = chosen.collect::<anyhow::Result<_>>()?;
    Ok(snapshots
        .iter()
        .filter(|s| chosen.contains(&s.id))
        .collect())
}

/// Returns the image or stream that `NAME` or `NAME@SNAPSHOT` names, by default its newest state.
pub fn choose_named<'a>(
    snapshots: &'a [Snapshot],
    text: &str,
    filter: &SnapshotFilter,
) -> anyhow::Result<&'a Snapshot> {
    let has_name = |s: &&Snapshot, name: &str| s.kind != SnapshotKind::Tree && s.name == name;
    // The name of a stream may contain an @.
    let whole = snapshots.iter().any(|s| has_name(&s, text));
    let (name, state) = match text.rsplit_once('@') {
        Some((name, state)) if !whole => (name, state),
        _ => (text, "latest"),
    };
    let named = snapshots.iter().filter(|s| has_name(s, name));
    let states: Vec<Snapshot> = named.cloned().collect();
    if states.is_empty() {
        return of_id(snapshots, text)?
            .with_context(|| format!("there is no image or stream {name:?}"));
    }
    let chosen = choose(&states, state, filter).with_context(|| name.to_owned())?;
    let found = snapshots.iter().find(|s| s.id == chosen.id);
    found.context("there is no such snapshot")
}

/// Returns the state of an image, stream or volume with this id, if `text` begins one.
fn of_id<'a>(snapshots: &'a [Snapshot], text: &str) -> anyhow::Result<Option<&'a Snapshot>> {
    if text == "latest" {
        return Ok(None);
    }
    match choose(snapshots, text, &SnapshotFilter::default()) {
        Ok(snapshot) if snapshot.kind == SnapshotKind::Tree => bail!(
            "{text} is a snapshot of files and no image or stream; use quintet restore {text}, or quintet dump {text}:PATH"
        ),
        found => Ok(found.ok()),
    }
}

/// Returns true if the snapshot is an image or stream of this name.
pub fn is_called(snapshot: &Snapshot, name: &str) -> bool {
    let is_disk = matches!(snapshot.kind, SnapshotKind::Image | SnapshotKind::Stream);
    is_disk && snapshot.name == name
}

/// Splits `SNAPSHOT` or `SNAPSHOT:PATH`. The path may contain any bytes.
pub fn split_path(argument: &OsStr) -> anyhow::Result<(String, Option<Vec<u8>>)> {
    let mut parts = argument.as_bytes().splitn(2, |b| *b == b':');
    let name = parts.next().unwrap_or_default();
    let name = std::str::from_utf8(name).context("the name of a snapshot must be text")?;
    Ok((name.to_owned(), parts.next().map(<[u8]>::to_vec)))
}

#[cfg(test)]
mod tests;
