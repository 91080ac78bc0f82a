//! Owners of files between machines: collects the numbers of a backup, names them, and finds the
//! numbers of these names where they are restored. Backup and restore call this.
//!
//! Invariant: a number without a name on one of the two machines stays as it is. Names come from
//! the machine (`getent`: also from directory services), and from `/etc` where that is missing.

mod machine;

use format::snapshot::OwnerNames;
use format::tree::Entry;
use machine::{Account, Database};
use std::collections::{BTreeMap, BTreeSet};

/// Users and groups of files, as numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerIds {
    users: BTreeSet<u32>,
    groups: BTreeSet<u32>,
    last: Option<(u32, u32)>,
}

impl OwnerIds {
    /// Adds the owner and the group of an entry.
    pub fn add(&mut self, entry: &Entry) {
        // Neighbours mostly have the same owner.
        let owner = Some((entry.uid, entry.gid));
        if self.last != owner {
            self.last = owner;
            self.users.insert(entry.uid);
            self.groups.insert(entry.gid);
        }
    }

    /// Returns the names that this machine has for them, and how many of its names do not fit into
    /// the table.
    pub fn names(&self) -> (OwnerNames, u64) {
        let mut names = OwnerNames::default();
        let mut left_out = 0;
        // Of accounts that share a number the first counts.
        for Account { id, name } in accounts(Database::Users, &self.users) {
            let is_new = self.users.contains(&id) && names.user(id).is_none();
            left_out += u64::from(is_new && !names.add_user(id, &name));
        }
        for Account { id, name } in accounts(Database::Groups, &self.groups) {
            let is_new = self.groups.contains(&id) && names.group(id).is_none();
            left_out += u64::from(is_new && !names.add_group(id, &name));
        }
        (names, left_out)
    }
}

fn accounts(database: Database, ids: &BTreeSet<u32>) -> Vec<Account> {
    let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
    machine::accounts(database, &ids)
}

/// Numbers of a snapshot, and those of the same names on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerMap {
    users: BTreeMap<u32, u32>,
    groups: BTreeMap<u32, u32>,
}

impl OwnerMap {
    /// Looks the names of a snapshot up on this machine.
    pub fn of(names: &OwnerNames) -> Self {
        Self {
            users: numbers(Database::Users, names.users()),
            groups: numbers(Database::Groups, names.groups()),
        }
    }

    /// Gives an entry the numbers of this machine.
    pub fn apply(&self, entry: &mut Entry) {
        entry.uid = *self.users.get(&entry.uid).unwrap_or(&entry.uid);
        entry.gid = *self.groups.get(&entry.gid).unwrap_or(&entry.gid);
    }
}

fn numbers<'n>(
    database: Database,
    names: impl Iterator<Item = (u32, &'n str)>,
) -> BTreeMap<u32, u32> {
    let names: Vec<(u32, &str)> = names.collect();
    let wanted: Vec<String> = names.iter().map(|(_, name)| (*name).to_owned()).collect();
    let found = machine::accounts(database, &wanted);
    // `getent` also takes numbers: an account counts only if it has the name.
    let here: BTreeMap<&str, u32> = found.iter().map(|a| (a.name.as_str(), a.id)).collect();
    let pairs = names.iter();
    let pairs = pairs.filter_map(|(id, name)| Some((*id, *here.get(name)?)));
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use format::tree::{EntryKind, Timestamp};

    fn entry(uid: u32, gid: u32) -> Entry {
        Entry {
            name: b"x".to_vec(),
            kind: EntryKind::Fifo,
            mode: 0,
            uid,
            gid,
            modified: Timestamp::default(),
            changed: Timestamp::default(),
            inode: 0,
            device: 0,
            links: 1,
            xattrs: Vec::new(),
        }
    }

    #[test]
    fn numbers_of_files_get_the_names_of_this_machine() {
        let mut ids = OwnerIds::default();
        for (uid, gid) in [(0, 0), (0, 0), (4_000_000_001, 4_000_000_002)] {
            ids.add(&entry(uid, gid));
        }
        let (names, left_out) = ids.names();
        assert_eq!(
            (names.user(0), names.group(0)),
            (Some("root"), Some("root"))
        );
        assert_eq!((names.users().count(), names.groups().count()), (1, 1));
        assert_eq!(left_out, 0);
        assert_eq!(OwnerIds::default().names().0, OwnerNames::default());
    }

    #[test]
    fn names_get_the_numbers_of_this_machine() {
        let mut names = OwnerNames::default();
        // A name that is a number on this machine leads nowhere.
        for (id, name) in [(77, "root"), (5, "no-such-name-here"), (6, "0")] {
            assert!(names.add_user(id, name) && names.add_group(id + 1, name));
        }
        let map = OwnerMap::of(&names);
        let mapped = |uid, gid| {
            let mut entry = entry(uid, gid);
            map.apply(&mut entry);
            (entry.uid, entry.gid)
        };
        assert_eq!(mapped(77, 78), (0, 0));
        assert_eq!(mapped(78, 77), (78, 77));
        assert_eq!(mapped(5, 6), (5, 6));
        assert_eq!(mapped(6, 7), (6, 7));
    }
}
