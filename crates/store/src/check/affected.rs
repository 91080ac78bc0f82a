//! Names the files and snapshots that need lost chunks. Check calls this.
//!
//! Invariant: an undamaged object is walked once, however many snapshots share it. Only damaged
//! ones are walked for each of their names, and the number of names is limited.

use super::{Affected, CheckReport};
use crate::space::below;
use chunk_store::Result;
use chunk_store::chunk_map::FingerprintSet;
use chunk_store::recipe::visit_nodes;
use format::recipe::ObjectRoot;
use format::snapshot::{Snapshot, SnapshotKind};
use read_path::Reader;
use std::collections::HashSet;
use units::{Fingerprint, SnapshotId};

/// Maximum number of names in a report: more are not useful.
const AFFECTED_MAX: usize = 100_000;

/// A step of the walk over one snapshot.
enum Todo {
    /// Check an object with this path: a directory if the flag is set.
    Object(ObjectRoot, bool, Vec<u8>),
    /// Everything below a directory was checked. The number of names reported before it.
    Done(ObjectRoot, usize),
}

struct Naming<'a> {
    reader: &'a Reader,
    lost: &'a FingerprintSet,
    /// Undamaged objects; directories with everything below them.
    whole: HashSet<(ObjectRoot, bool)>,
}

/// Walks every snapshot again and names what needs the lost chunks.
pub(super) fn name_affected(
    reader: &Reader,
    snapshots: &[Snapshot],
    lost: &FingerprintSet,
    report: &mut CheckReport,
) -> Result<()> {
    let mut naming = Naming {
        reader,
        lost,
        whole: HashSet::new(),
    };
    for snapshot in snapshots {
        naming.walk(snapshot, &mut report.affected)?;
        if report.affected.len() >= AFFECTED_MAX {
            let why = format!("more than {AFFECTED_MAX} names are affected; only these are listed");
            report.damage.push(why);
            break;
        }
    }
    Ok(())
}

impl Naming<'_> {
    fn walk(&mut self, snapshot: &Snapshot, affected: &mut Vec<Affected>) -> Result<()> {
        let is_tree = snapshot.kind == SnapshotKind::Tree;
        // An explicit stack: trees may be very deep.
        let mut rest = vec![Todo::Object(snapshot.root, is_tree, Vec::new())];
        while let Some(todo) = rest.pop() {
            match todo {
                Todo::Done(root, before) => {
                    if affected.len() == before {
                        self.whole.insert((root, true));
                    }
                }
                Todo::Object(root, is_tree, path) => {
                    if !self.whole.contains(&(root, is_tree)) {
                        self.look(snapshot.id, (root, is_tree), path, affected, &mut rest)?;
                    }
                }
            }
            if affected.len() >= AFFECTED_MAX {
                break;
            }
        }
        Ok(())
    }

    fn look(
        &mut self,
        snapshot: SnapshotId,
        (root, is_tree): (ObjectRoot, bool),
        path: Vec<u8>,
        affected: &mut Vec<Affected>,
        rest: &mut Vec<Todo>,
    ) -> Result<()> {
        let before = affected.len();
        let lost_at = self.first_lost(&root)?;
        let entries = match is_tree {
            true => self.reader.directory(&root),
            false => Ok(Vec::new()),
        };
        let unreadable = matches!(&entries, Err(e) if e.is_corruption());
        if unreadable || lost_at.is_some() {
            affected.push(Affected {
                snapshot,
                path: path.clone(),
                offset: lost_at.flatten(),
            });
        } else if !is_tree {
            self.whole.insert((root, false));
        }
        if unreadable || !is_tree {
            return Ok(());
        }
        rest.push(Todo::Done(root, before));
        for entry in entries? {
            if let Some((content, is_tree)) = below(&entry) {
                let path = [&path[..], b"/", &entry.name].concat();
                rest.push(Todo::Object(content, is_tree, path));
            }
        }
        Ok(())
    }

    /// Returns `Some(offset of the first lost byte, if known)` if an object needs a lost chunk.
    fn first_lost(&self, root: &ObjectRoot) -> Result<Option<Option<u64>>> {
        let mut first = None;
        let mut load = |f: &Fingerprint| self.reader.recipe_node(f);
        let walked = visit_nodes(root, &mut load, &mut |at, _| {
            if self.lost.contains(&at.fingerprint) {
                first.get_or_insert(at.offset);
            }
            Ok(first.is_none())
        });
        match walked {
            Err(e) if e.is_corruption() => Ok(Some(first)),
            Err(e) => Err(e),
            Ok(()) => Ok(first.map(Some)),
        }
    }
}
