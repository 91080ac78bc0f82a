//! Names of the users and groups of a snapshot's files, once for the whole snapshot: directory
//! objects have only numbers, so a renamed user changes no directory. [`super::Snapshot`] has it.
//!
//! | field | size |
//! |---|---|
//! | users: count, then id and name of each, ids ascending | varint; varint, sized text |
//! | groups: the same | |
//!
//! Invariant: a name can stand in a line of a terminal, a tar header or an argument of a program:
//! 1 to 255 bytes of text without control characters, `:` and `/`, and no `-` in front. The table
//! has at most [`OWNER_NAMES_BYTES_MAX`].

use crate::bytes::{Reader, Result, Writer};
use std::collections::BTreeMap;

/// Maximum size of the names of users and groups together, bytes; each counts
/// [`ENTRY_BYTES`] more than its length.
pub const OWNER_NAMES_BYTES_MAX: usize = 16 << 10;
/// Counted for each name: number and length.
pub const ENTRY_BYTES: usize = 6;
const NAME_BYTES_MAX: usize = 255;

/// Names by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerNames {
    users: BTreeMap<u32, String>,
    groups: BTreeMap<u32, String>,
    bytes: usize,
}

impl OwnerNames {
    /// Returns true without names.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty() && self.groups.is_empty()
    }

    /// Adds or replaces the name of a user. Returns false, and adds nothing, if the name cannot be
    /// kept: see the module's head.
    pub fn add_user(&mut self, uid: u32, name: &str) -> bool {
        add(&mut self.users, &mut self.bytes, uid, name)
    }

    /// The same for a group.
    pub fn add_group(&mut self, gid: u32, name: &str) -> bool {
        add(&mut self.groups, &mut self.bytes, gid, name)
    }

    /// Returns the name of a user.
    pub fn user(&self, uid: u32) -> Option<&str> {
        self.users.get(&uid).map(String::as_str)
    }

    /// Returns the name of a group.
    pub fn group(&self, gid: u32) -> Option<&str> {
        self.groups.get(&gid).map(String::as_str)
    }

    /// All users, by number.
    pub fn users(&self) -> impl Iterator<Item = (u32, &str)> {
        self.users.iter().map(|(id, name)| (*id, name.as_str()))
    }

    /// All groups, by number.
    pub fn groups(&self) -> impl Iterator<Item = (u32, &str)> {
        self.groups.iter().map(|(id, name)| (*id, name.as_str()))
    }

    /// Appends the table.
    pub(super) fn encode(&self, to: &mut Writer) {
        for names in [&self.users, &self.groups] {
            to.varint(names.len() as u64);
            for (id, name) in names {
                to.varint((*id).into()).sized(name.as_bytes());
            }
        }
    }

    /// Decodes a table.
    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let mut table = Self::default();
        for _ in 0..r.varint()? {
            let (id, name) = (r.varint32()?, r.text()?);
            let is_next = table
                .users
                .last_key_value()
                .is_none_or(|(last, _)| *last < id);
            if !is_next || !table.add_user(id, &name) {
                return r.invalid("names of users");
            }
        }
        for _ in 0..r.varint()? {
            let (id, name) = (r.varint32()?, r.text()?);
            let is_next = table
                .groups
                .last_key_value()
                .is_none_or(|(last, _)| *last < id);
            if !is_next || !table.add_group(id, &name) {
                return r.invalid("names of groups");
            }
        }
        Ok(table)
    }
}

fn add(names: &mut BTreeMap<u32, String>, bytes: &mut usize, id: u32, name: &str) -> bool {
    let is_text = |c: char| !c.is_control() && c != ':' && c != '/';
    let is_usable = (1..=NAME_BYTES_MAX).contains(&name.len())
        && !name.starts_with('-')
        && name.chars().all(is_text);
    let replaced = names.get(&id).map_or(0, |old| old.len() + ENTRY_BYTES);
    let after = *bytes - replaced + name.len() + ENTRY_BYTES;
    if !is_usable || after > OWNER_NAMES_BYTES_MAX {
        return false;
    }
    *bytes = after;
    names.insert(id, name.to_owned());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8]) -> Result<OwnerNames> {
        let mut r = Reader::new("names", bytes);
        let table = OwnerNames::decode(&mut r)?;
        r.finish()?;
        Ok(table)
    }

    #[test]
    fn names_that_could_do_harm_are_not_kept() {
        let mut table = OwnerNames::default();
        for name in [
            "",
            "a\nb",
            "\u{1b}[2J",
            "a\0",
            "a:b",
            "../x",
            "-s",
            &"x".repeat(256),
        ] {
            assert!(!table.add_user(1, name), "{name:?}");
        }
        assert!(table.is_empty());
        for name in ["alice", "CORP\\domain users", "müller", &"x".repeat(255)] {
            assert!(
                table.add_user(1, name) && table.add_group(2, name),
                "{name:?}"
            );
        }
        assert_eq!(table.users().count(), 1);
    }

    #[test]
    fn a_table_has_a_limit_and_replacing_a_name_takes_no_room() {
        let mut table = OwnerNames::default();
        let name = "x".repeat(250);
        let count = (0..1000).filter(|id| table.add_user(*id, &name)).count();
        assert_eq!(count, OWNER_NAMES_BYTES_MAX / (250 + ENTRY_BYTES));
        assert!(table.add_user(0, &name) && !table.add_group(0, &name));
        let mut w = Writer::new();
        table.encode(&mut w);
        assert_eq!(decoded(&w.0).unwrap(), table);
        assert!(w.0.len() <= OWNER_NAMES_BYTES_MAX + 20);
    }

    #[test]
    fn tables_that_no_writer_writes_are_refused() {
        let table = |users: &[(u64, &str)]| {
            let mut w = Writer::new();
            w.varint(users.len() as u64);
            for (id, name) in users {
                w.varint(*id).sized(name.as_bytes());
            }
            w.varint(0);
            decoded(&w.0)
        };
        assert!(table(&[(1, "a"), (2, "a")]).is_ok());
        assert!(table(&[(2, "a"), (1, "b")]).is_err(), "descending");
        assert!(table(&[(1, "a"), (1, "b")]).is_err(), "twice");
        assert!(table(&[(1 << 32, "a")]).is_err(), "too large");
        assert!(table(&[(1, "a\u{7}")]).is_err(), "a control character");
        // Claims four billion names and has none.
        assert!(decoded(&[0xff, 0xff, 0xff, 0xff, 0x0f]).is_err());
        let long = "x".repeat(255);
        let many: Vec<(u64, &str)> = (0..100).map(|id| (id, long.as_str())).collect();
        assert!(table(&many).is_err(), "too long");
    }
}
