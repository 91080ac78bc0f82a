//! Policies that ship with the program: the files of `policies/`.
//!
//! The program offers them by name; the evaluation runs those of the slides.
//! Invariant: each of them parses, and does what its first lines say (tests).

/// A policy that ships.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shipped {
    /// Name, as a user gives it.
    pub name: &'static str,
    /// Its purpose, in a few words.
    pub purpose: &'static str,
    /// The file.
    pub csv: &'static str,
}

macro_rules! shipped {
    ($name:literal, $purpose:literal) => {
        Shipped {
            name: $name,
            purpose: $purpose,
            csv: include_str!(concat!("../../../policies/", $name, ".csv")),
        }
    };
}

/// All of them.
pub const ALL: [Shipped; 12] = [
    shipped!(
        "successor",
        "metadata, then files by size: a start for any load"
    ),
    shipped!(
        "adaptive",
        "files by size and offset: a base for policy set auto"
    ),
    shipped!("ext3", "metadata, then data by its offset in the file"),
    shipped!("vm-images", "disks of virtual machines"),
    shipped!("file-server", "many files that clients list and search"),
    shipped!("database", "log, indexes and random reads before scans"),
    shipped!("backup-only", "a pool that only stores backups"),
    shipped!("t1", "flash has only metadata, journal and directories"),
    shipped!("t2", "t1, and the first 4 KiB of each file"),
    shipped!("t3", "t1, and the first 16 KiB of each file"),
    shipped!("t4", "t1, and the first 64 KiB of each file"),
    shipped!("t5", "t1, and the first 256 KiB of each file"),
];

/// Returns the policy of a name.
pub fn find(name: &str) -> Option<&'static Shipped> {
    const SHIPPED: &[Shipped] = &ALL;
    SHIPPED.iter().find(|shipped| shipped.name == name)
}

#[cfg(test)]
mod tests;
