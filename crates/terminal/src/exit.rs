//! The exit codes, which scripts rely on. Commands return them.
//!
//! Invariant: the codes are those of restic where it has one. A code never changes its meaning.
//! Scripts treat an unknown code as failure.

use std::process::ExitCode;

/// Outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Exit {
    /// Everything was done.
    Done = 0,
    /// The run failed, in part or as a whole, for a reason that has no code of its own.
    Failed = 1,
    /// Done except for some files that could not be read or written. From `status`: an
    /// administrator must act.
    Partly = 3,
    /// The directory contains no pool.
    NoPool = 10,
    /// Another live process writes to the pool.
    Locked = 11,
    /// The password or key is wrong.
    WrongKey = 12,
    /// Corruption was found and repaired.
    Repaired = 20,
    /// Corruption was found and is not repaired.
    Damaged = 21,
    /// A signal stopped the run.
    Interrupted = 130,
    /// The reader of standard output closed it.
    OutputClosed = 141,
}

impl Exit {
    /// All codes, with a line for the manual.
    pub const TABLE: [(Self, &'static str); 10] = [
        (Self::Done, "done"),
        (Self::Failed, "failed"),
        (
            Self::Partly,
            "done, except for some files that could not be read or written",
        ),
        (Self::NoPool, "there is no pool"),
        (Self::Locked, "another process writes to the pool"),
        (Self::WrongKey, "wrong password or key"),
        (Self::Repaired, "corruption was found and repaired"),
        (Self::Damaged, "corruption was found and is not repaired"),
        (Self::Interrupted, "interrupted"),
        (Self::OutputClosed, "the reader of the output closed it"),
    ];

    /// Returns the outcome with this exit code.
    pub fn of_code(code: u8) -> Option<Self> {
        let mut all = Self::TABLE.into_iter().map(|(exit, _)| exit);
        all.find(|exit| exit.code() == code)
    }

    /// Returns the exit code.
    pub fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_for_ever() {
        let codes: Vec<u8> = Exit::TABLE.iter().map(|(exit, _)| exit.code()).collect();
        assert_eq!(codes, [0, 1, 3, 10, 11, 12, 20, 21, 130, 141]);
        assert_eq!(Exit::of_code(11), Some(Exit::Locked));
        assert_eq!(Exit::of_code(2), None);
    }
}
