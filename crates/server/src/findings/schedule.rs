//! Finds sources whose newest snapshot is older than their history suggests. `status` and the
//! metrics also read the states of all sources here. [`super::SOURCES`] lists it.
//!
//! A source is a host and its paths, an image, a stream or a volume. Its usual interval is the
//! longest of the last [`GAPS`] times between snapshots. If there are [`GAPS_MANY`] or more, it is
//! the second longest, so that one outage does not become usual. A source is overdue when its
//! newest snapshot is older than one and a half intervals plus an hour. With fewer than three
//! snapshots there is no usual interval. An interval below a day counts as a day: some snapshots in
//! a row are no schedule. The tag `every=6h` (h, d or w) of the newest snapshot is one. A source
//! whose newest snapshot has the tag `final` is never overdue.
//!
//! Invariant: no I/O, and no clock but [`FindingsInput::now`].

use super::{Finding, FindingsInput, Severity};
use format::snapshot::{Missed, Snapshot, SnapshotKind};
use retention::{Group, GroupBy, group};
use terminal::names::short_id;
use units::UnixNanos;
use units::printable::printable;

/// Number of intervals that count: enough to contain weekends, too few to contain old outages.
const GAPS: usize = 14;
const GAPS_MANY: usize = 8;
/// Number of states that the newest one is compared with. More than one, so that a source whose
/// backups fail night after night is reported for more than one night.
const STATES_BEFORE: usize = 3;
/// Minimum number of snapshots for a usual interval.
const SNAPSHOTS_MIN: usize = 3;
const MARGIN_NS: i64 = 3600 * 1_000_000_000;
const HOUR_NS: i64 = 3600 * 1_000_000_000;
/// Smallest interval that is learned.
const USUAL_NS_MIN: i64 = 24 * HOUR_NS;
/// The tag of a source's last snapshot.
const FINAL: &str = "final";
/// Start of the tag that says the interval.
const EVERY: &str = "every=";

/// The newest snapshot of a source.
#[derive(Clone, Debug)]
pub struct SourceState {
    /// Type of the source.
    pub kind: SnapshotKind,
    /// Name of the source, for messages and metric labels.
    pub name: String,
    /// Time at which the newest snapshot was taken.
    pub newest: UnixNanos,
    /// Bytes of the source in that snapshot.
    pub bytes: u64,
    /// Bytes of the largest of the states right before it; 0 for none.
    pub bytes_before: u64,
    /// Short name of that snapshot.
    pub newest_id: String,
    /// Number of snapshots.
    pub snapshots: usize,
    /// The user has said that no snapshot will follow, and that this one is accepted as it is.
    pub is_final: bool,
    /// Parts of the source that are missing in it.
    pub missed: Missed,
    /// If it is overdue: its age and the usual interval, nanoseconds.
    pub overdue_ns: Option<(i64, i64)>,
}

/// Returns the states of all sources.
pub fn sources(look: &FindingsInput<'_>) -> Vec<SourceState> {
    let groups = group(look.snapshots, GroupBy::default());
    let state = |group: &Group<'_>| {
        let is_ahead = |s: &Snapshot| s.taken.is_ahead_of(look.now);
        // Of a source that has only snapshots from the future, one of them.
        let newest = *group.snapshots.first()?;
        let is_final = newest.tags.iter().any(|tag| tag == FINAL);
        let credible = group.snapshots.iter().filter(|s| !is_ahead(s));
        let times = credible.map(|s| (s.taken, s.previous));
        let usual_ns = every_ns(&newest.tags).or_else(|| {
            let usual_ns = usual_ns(&times.collect::<Vec<_>>());
            usual_ns.map(|ns| ns.max(USUAL_NS_MIN))
        });
        let age_ns = look.now.0.saturating_sub(newest.taken.0);
        let overdue_ns = usual_ns.filter(|usual_ns| {
            let limit_ns = usual_ns.saturating_add(usual_ns / 2);
            !is_final && age_ns > limit_ns.saturating_add(MARGIN_NS)
        });
        let before = group.snapshots.iter().skip(1).take(STATES_BEFORE);
        let before = before.map(|state| state.logical_bytes);
        Some(SourceState {
            kind: newest.kind,
            name: source_name(newest),
            newest: newest.taken,
            newest_id: short_id(newest),
            snapshots: group.snapshots.len(),
            is_final,
            bytes: newest.logical_bytes,
            bytes_before: before.max().unwrap_or(0),
            missed: newest.missed,
            overdue_ns: overdue_ns.map(|usual_ns| (age_ns, usual_ns)),
        })
    };
    groups.iter().filter_map(state).collect()
}

pub(super) fn find(look: &FindingsInput<'_>) -> Vec<Finding> {
    let finding = |state: SourceState| {
        let (age_ns, usual_ns) = state.overdue_ns?;
        Some(Finding {
            severity: Severity::Attention,
            kind: "snapshot_overdue",
            text: format!(
                "{}: the newest snapshot is {} old; the usual interval is {}",
                state.name,
                span(age_ns),
                span(usual_ns)
            ),
            action: format!(
                "run its backup, and find out why it did not run. {}",
                dismissal(&state)
            ),
            object: state.name,
        })
    };
    sources(look).into_iter().filter_map(finding).collect()
}

/// Returns the words that say how a user ends the findings about a source that is no more.
pub(super) fn dismissal(state: &SourceState) -> String {
    let id = &state.newest_id;
    match state.snapshots {
        1 => format!(
            "If this source will not be backed up again, forget its only snapshot: quintet forget {id}"
        ),
        _ => format!(
            "If no backup will follow, tag the newest snapshot: quintet tag --add {FINAL} {id}"
        ),
    }
}

/// Returns the interval that a tag says, nanoseconds.
fn every_ns(tags: &[String]) -> Option<i64> {
    let text = tags.iter().find_map(|tag| tag.strip_prefix(EVERY))?;
    let (number, unit_h) = [("h", 1), ("d", 24), ("w", 7 * 24)]
        .into_iter()
        .find_map(|(unit, hours)| Some((text.strip_suffix(unit)?, hours)))?;
    let number = number.parse::<u16>().ok().filter(|number| *number > 0)?;
    Some(i64::from(number) * unit_h * HOUR_NS)
}

/// Returns the usual interval, nanoseconds. `times` has each snapshot's time and that of its
/// predecessor, as far as it is known, newest first.
fn usual_ns(times: &[(UnixNanos, UnixNanos)]) -> Option<i64> {
    if times.len() < SNAPSHOTS_MIN {
        return None;
    }
    let unknown = UnixNanos::default();
    // Prefer the recorded predecessor: retention may have deleted it since.
    let gap = |(at, (taken, previous)): (usize, &(UnixNanos, UnixNanos))| {
        let older = times.get(at + 1).map(|(taken, _)| *taken);
        let before = Some(*previous)
            .filter(|p| *p != unknown && p < taken)
            .or(older)?;
        Some(taken.0.saturating_sub(before.0))
    };
    let gaps = times.iter().enumerate().filter_map(gap);
    let mut gaps: Vec<i64> = gaps.take(GAPS).collect();
    gaps.sort_unstable_by(|a, b| b.cmp(a));
    let at = usize::from(gaps.len() >= GAPS_MANY);
    gaps.get(at).copied().filter(|gap| *gap > 0)
}

/// Returns the name of a source, for messages and metric labels.
fn source_name(snapshot: &Snapshot) -> String {
    let paths: Vec<String> = snapshot.paths.iter().map(|p| printable(p)).collect();
    let name = match snapshot.kind {
        SnapshotKind::Tree => paths.join(", "),
        SnapshotKind::Image => format!("image {}", printable(snapshot.name.as_bytes())),
        SnapshotKind::Stream => format!("stream {}", printable(snapshot.name.as_bytes())),
        SnapshotKind::Volume => {
            let name = snapshot
                .name
                .split_once('@')
                .map_or(&*snapshot.name, |(v, _)| v);
            format!("volume {}", printable(name.as_bytes()))
        }
    };
    match snapshot.host.is_empty() {
        true => name,
        false => format!("{}: {name}", printable(snapshot.host.as_bytes())),
    }
}

/// Formats a length of time.
fn span(ns: i64) -> String {
    let minutes = u64::try_from(ns / 60_000_000_000).unwrap_or(0);
    match minutes {
        ..120 => units::count(minutes, "minute"),
        120..2880 => units::count(minutes / 60, "hour"),
        _ => units::count(minutes / 1440, "day"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual_h(gaps_h: &[i64]) -> Option<i64> {
        let mut at = 1_000_000 * HOUR_NS;
        let unknown = UnixNanos::default();
        let mut times = vec![(UnixNanos(at), unknown)];
        for gap in gaps_h {
            at -= gap * HOUR_NS;
            times.push((UnixNanos(at), unknown));
        }
        usual_ns(&times).map(|ns| ns / HOUR_NS)
    }

    #[test]
    fn habits_are_learned() {
        assert_eq!(usual_h(&[]), None);
        assert_eq!(usual_h(&[24]), None, "two snapshots are no habit");
        assert_eq!(usual_h(&[24, 25]), Some(25));
        // On working days: the weekend is usual.
        let week = [24, 24, 72, 24, 24, 24, 24, 72, 24, 24];
        assert_eq!(usual_h(&week), Some(72));
        // One outage is not usual.
        let outage = [24, 24, 24, 2000, 24, 24, 24, 24];
        assert_eq!(usual_h(&outage), Some(24));
        // Intervals of long ago, or between thinned-out snapshots, do not count.
        let thinned = [[1; GAPS].as_slice(), [700, 700, 700].as_slice()].concat();
        assert_eq!(usual_h(&thinned), Some(1));
        assert_eq!(usual_h(&[0, 0, 0]), None, "made at one instant");
        // Of daily snapshots one a week was kept. Each records the time of its predecessor.
        let kept = (1..=4).rev().map(|week| week * 7 * 24 * HOUR_NS);
        let kept = kept.map(|at| (UnixNanos(at), UnixNanos(at - 24 * HOUR_NS)));
        assert_eq!(usual_ns(&kept.collect::<Vec<_>>()), Some(24 * HOUR_NS));
    }

    #[test]
    fn a_tag_says_the_interval() {
        let of = |tag: &str| every_ns(&[tag.to_owned()]).map(|ns| ns / HOUR_NS);
        assert_eq!(of("every=1h"), Some(1));
        assert_eq!(of("every=2d"), Some(48));
        assert_eq!(of("every=1w"), Some(168));
        for other in [
            "every=",
            "every=h",
            "every=0h",
            "every=-1h",
            "every=1m",
            "nightly",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn spans() {
        assert_eq!(span(90 * 60_000_000_000), "90 minutes");
        assert_eq!(span(26 * HOUR_NS), "26 hours");
        assert_eq!(span(72 * HOUR_NS), "3 days");
    }
}
