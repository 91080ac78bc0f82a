//! Reads the accounts of this machine. [`super`] calls this.
//!
//! Invariant: accounts that cannot be found are missing in the result: names are an addition to
//! numbers, and no reason to fail.

use std::process::{Command, Stdio};

/// Maximum number of keys of one call: far below the limit of a command line.
const KEYS_MAX: usize = 256;
/// Exit code of `getent` when some keys were not found.
const SOME_NOT_FOUND: i32 = 2;

/// A kind of account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Database {
    Users,
    Groups,
}

/// An account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Account {
    pub id: u32,
    pub name: String,
}

impl Database {
    fn name(self) -> &'static str {
        match self {
            Self::Users => "passwd",
            Self::Groups => "group",
        }
    }
}

/// Returns the accounts with these numbers or names that the machine knows; it may return others
/// too.
pub(super) fn accounts(database: Database, keys: &[String]) -> Vec<Account> {
    let mut found = Vec::new();
    for keys in keys.chunks(KEYS_MAX) {
        match of_getent(database, keys) {
            Some(lines) => found.extend(parsed(&lines)),
            None => return of_file(database),
        }
    }
    found
}

/// `None` if `getent` is missing or failed.
fn of_getent(database: Database, keys: &[String]) -> Option<Vec<u8>> {
    let output = Command::new("getent")
        .arg(database.name())
        .args(keys)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let code = output.status.code();
    matches!(code, Some(0 | SOME_NOT_FOUND)).then_some(output.stdout)
}

fn of_file(database: Database) -> Vec<Account> {
    let lines = std::fs::read(format!("/etc/{}", database.name()));
    lines.map_or_else(|_| Vec::new(), |lines| parsed(&lines))
}

/// Parses lines `name:password:number:...`.
fn parsed(lines: &[u8]) -> Vec<Account> {
    let account = |line: &[u8]| {
        let mut fields = line.split(|b| *b == b':');
        let name = String::from_utf8(fields.next()?.to_vec()).ok()?;
        let id = std::str::from_utf8(fields.nth(1)?).ok()?.parse().ok()?;
        Some(Account { id, name })
    };
    lines.split(|b| *b == b'\n').filter_map(account).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_accounts() {
        let lines = b"root:x:0:0:root:/root:/bin/bash\n\ntoor:x:0:0::/:\nbad\nbad:x:y:\n\
            \xff:x:5:\nbig:x:4294967295:\nlast:x:7";
        let found = parsed(lines);
        let found: Vec<_> = found.iter().map(|a| (a.name.as_str(), a.id)).collect();
        let expected = [("root", 0), ("toor", 0), ("big", u32::MAX), ("last", 7)];
        assert_eq!(found, expected);
    }

    #[test]
    fn without_getent_the_files_are_read() {
        for database in [Database::Users, Database::Groups] {
            let root =
                |accounts: Vec<Account>| accounts.iter().any(|a| a.id == 0 && a.name == "root");
            assert!(root(of_file(database)));
            assert!(root(accounts(database, &["0".to_owned()])));
        }
    }
}
