//! The states in which a power loss may leave a disk: the fault model. The explorer calls this for
//! each crash point of a log.
//!
//! Invariant: every state built here is one that the contract of `media::Disk` allows.
//!
//! # What a crash may do
//!
//! A change is *pending* from the moment it is made until a sync that covers it has returned. A
//! file's sync covers its bytes and length. The sync of a directory covers the names in it
//! (created, moved in, moved out or removed). A file's sync covers no name, a directory's sync
//! covers no bytes, and neither covers the directories above it.
//!
//! After a power loss every durable change is there, and of the pending ones:
//!
//! - **Any subset**, in the order in which they were made: the disk may have worked in any order.
//! - A write may be **torn**: any subset of its 512-byte sectors (counted from the start of the
//!   file) is there. A sector is old or new, never a mixture.
//! - A file may have its new **length without the bytes**: the added part reads as zeroes.
//! - A name may lead to a file **whose bytes never arrived**: it is empty or partly written.
//! - A file whose bytes are durable may have **no name**.
//! - A directory without a durable name is missing **with everything in it**.
//! - A move **between directories** is two changes: afterwards the file may have both names (one
//!   file: a write through one shows in the other), either, or none. A move within a directory
//!   happens or does not; the same holds for the replacement of the file that had the new name.
//!
//! This is more than any one file system does: ext4 and XFS order names among themselves. POSIX
//! leaves it open, and a pool on an unknown file system must survive it. Of two overlapping pending
//! writes, the later may also be there without the earlier within one sector, which a page cache
//! cannot do.
//!
//! **Not modelled**: durable bytes that change or vanish, or stale bytes of other files in new
//! space (see [`crate::Damage`]); a sync that lies on a healthy device, except on purpose
//! ([`crate::SimDisk::without`]); more than 256 pending changes at once (older ones become durable,
//! as by write-back).
//!
//! A *process crash* ([`crate::SimDisk::kill`]) loses only locks. A *failed sync*
//! ([`crate::Fault::Sync`]) reports an error. Its changes never become durable, though they can be
//! read until the next power loss.

use crate::content::{Content, SECTOR};
use crate::image::{Dir, FileId, Image, Node, TOP};
use crate::pending::{Change, Target, Unit, Walker, change_dir, change_file};
use crate::plan::{Outcome, Plan, Shape, Tear};
use crate::seed::Seed;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Number of the newest pending changes that plans single out.
const WINDOW: usize = 32;

/// A position in a log at which the power fails.
pub struct CrashPoint<'a> {
    walker: &'a Walker,
    /// Pending changes that some outcome makes visible.
    units: Vec<&'a Unit>,
    shapes: Vec<Shape>,
    targets: Vec<Touched>,
}

/// A file or directory with pending changes.
struct Touched {
    target: Target,
    /// Numbers of its changes, in order.
    units: Vec<usize>,
    /// Its state with all of them.
    whole: Variant,
}

enum Variant {
    File(Arc<Content>),
    Dir(Arc<Dir>),
}

impl<'a> CrashPoint<'a> {
    /// Creates the crash point at the position of `walker`.
    pub fn new(walker: &'a Walker) -> Self {
        let visible = visible(walker);
        let units: Vec<&Unit> = walker
            .pending
            .iter()
            .filter(|unit| visible.contains(&unit.target))
            .collect();
        let mut numbers: BTreeMap<Target, Vec<usize>> = BTreeMap::new();
        for (number, unit) in units.iter().enumerate() {
            numbers.entry(unit.target).or_default().push(number);
        }
        let shapes = units.iter().map(|unit| shape(unit)).collect();
        let targets = numbers.into_iter().map(|(target, numbers)| Touched {
            whole: variant(
                walker,
                target,
                numbers.iter().map(|at| (units[*at], Outcome::Whole)),
            ),
            target,
            units: numbers,
        });
        Self {
            walker,
            targets: targets.collect(),
            units,
            shapes,
        }
    }

    /// Number of changes that a plan decides.
    pub fn pending(&self) -> usize {
        self.units.len()
    }

    /// Describes the changes for reports; `+` survives, `-` is lost, `~` is torn.
    pub fn describe(&self, plan: Plan) -> Vec<String> {
        let outcomes = plan.outcomes(&self.shapes);
        let line = |(unit, outcome): (&&Unit, Outcome)| {
            let sign = match outcome {
                Outcome::Lost => "-".to_owned(),
                Outcome::Whole => "+".to_owned(),
                Outcome::Torn(tear) => format!("~ ({tear:?})"),
            };
            let part = match &unit.change {
                Change::Names(names) => format!(" [{names:?}]"),
                _ => String::new(),
            };
            format!(
                "{sign} {}: {}{part}",
                unit.position,
                self.walker.describe(unit.position)
            )
        };
        self.units.iter().zip(outcomes).map(line).collect()
    }

    /// Returns at most `quota` plans to try first; add [`Plan::Random`] ones for more.
    pub fn plans(&self, quota: usize, seed: &mut Seed) -> Vec<Plan> {
        let window = self.units.len().saturating_sub(WINDOW);
        Plan::systematic(&self.shapes, window, quota, seed)
    }

    /// Returns the disk's contents after the power loss.
    pub fn state(&self, plan: Plan) -> Image {
        let mut image = self.walker.durable.clone();
        let outcomes = plan.outcomes(&self.shapes);
        for touched in &self.targets {
            let all = |outcome| touched.units.iter().all(|at| outcomes[*at] == outcome);
            if all(Outcome::Lost) {
                continue;
            }
            let made;
            let variant = if all(Outcome::Whole) {
                &touched.whole
            } else {
                let units = touched
                    .units
                    .iter()
                    .map(|at| (self.units[*at], outcomes[*at]));
                made = variant(self.walker, touched.target, units);
                &made
            };
            match (touched.target, variant) {
                (Target::File(file), Variant::File(content)) => {
                    image.files.set(file, Arc::clone(content));
                }
                (Target::Dir(dir), Variant::Dir(names)) => image.dirs.set(dir, Arc::clone(names)),
                _ => unreachable!("a variant is of its target's kind"),
            }
        }
        image
    }
}

/// Returns a file or directory after some of its changes.
fn variant<'u>(
    walker: &Walker,
    target: Target,
    units: impl Iterator<Item = (&'u Unit, Outcome)>,
) -> Variant {
    match target {
        Target::File(file) => {
            let mut content = Content::clone(walker.durable.files.get(file));
            units.for_each(|(unit, outcome)| part_of_file(&mut content, &unit.change, outcome));
            Variant::File(Arc::new(content))
        }
        Target::Dir(dir) => {
            let mut names = Dir::clone(walker.durable.dirs.get(dir));
            for (unit, outcome) in units {
                if outcome != Outcome::Lost {
                    change_dir(&mut names, &unit.change);
                }
            }
            Variant::Dir(Arc::new(names))
        }
    }
}

fn part_of_file(content: &mut Content, change: &Change, outcome: Outcome) {
    match (outcome, change) {
        (Outcome::Lost, _) => {}
        (Outcome::Torn(tear), Change::Write { offset, data }) => {
            torn(content, *offset, data, tear);
        }
        _ => change_file(content, change),
    }
}

fn torn(content: &mut Content, offset: u64, data: &[u8], tear: Tear) {
    let end = offset + data.len() as u64;
    let first = offset / SECTOR;
    match tear {
        Tear::Zeroes => content.grow(end),
        Tear::Cut(sectors) => {
            let cut = ((first + sectors) * SECTOR).min(end);
            content.write(offset, &data[..(cut - offset) as usize]);
        }
        Tear::Sectors(seed) => {
            let mut seed = Seed::new(seed);
            for sector in first..end.div_ceil(SECTOR) {
                if seed.chance(128) {
                    let from = (sector * SECTOR).max(offset);
                    let to = ((sector + 1) * SECTOR).min(end);
                    content.write(
                        from,
                        &data[(from - offset) as usize..(to - offset) as usize],
                    );
                }
            }
            if seed.chance(128) {
                content.grow(end);
            }
        }
    }
}

fn shape(unit: &Unit) -> Shape {
    let sectors = match &unit.change {
        Change::Write { offset, data } => {
            (offset + data.len() as u64).div_ceil(SECTOR) - offset / SECTOR
        }
        _ => 0,
    };
    Shape {
        is_name: unit.is_name(),
        sectors,
    }
}

/// Returns everything that some outcome makes reachable from the top: changes of anything else make
/// no difference.
fn visible(walker: &Walker) -> HashSet<Target> {
    let mut added: BTreeMap<u32, Vec<Node>> = BTreeMap::new();
    for unit in &walker.pending {
        if let (Target::Dir(dir), Change::Names(names)) = (unit.target, &unit.change) {
            added
                .entry(dir)
                .or_default()
                .extend(names.iter().filter_map(|(_, node)| *node));
        }
    }
    let mut visible = HashSet::from([Target::Dir(TOP)]);
    let mut dirs = vec![TOP];
    while let Some(dir) = dirs.pop() {
        let durable = walker.durable.dirs.get(dir).values();
        for node in durable.chain(added.get(&dir).into_iter().flatten()) {
            match *node {
                Node::File(file) => {
                    visible.insert(Target::File(file as FileId));
                }
                Node::Dir(dir) => {
                    if visible.insert(Target::Dir(dir)) {
                        dirs.push(dir);
                    }
                }
            }
        }
    }
    visible
}
