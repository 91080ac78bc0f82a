//! The exit codes: the one table that wrappers rely on.
//!
//! Invariant: the codes are restic's where it has one; a code never changes its meaning; whoever
//! does not know a code treats it as failure.

use std::process::ExitCode;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Exit {
    /// All done.
    Done = 0,
    /// Nothing done, or not all, for reasons that have no code of their own.
    Failed = 1,
    /// Done but for some files that could not be read or written; of `status`: somebody has to act.
    Partly = 3,
    /// There is no pool at that place.
    NoPool = 10,
    /// Another live process writes to the pool.
    Locked = 11,
    /// Wrong password or key.
    WrongKey = 12,
    /// Corruption was found and repaired.
    Repaired = 20,
    /// Corruption was found and is still there.
    Damaged = 21,
    /// Stopped by a signal.
    Interrupted = 130,
    /// Whoever read our output went away.
    OutputClosed = 141,
}

impl Exit {
    /// All of them with a line for the manual.
    pub const TABLE: [(Self, &'static str); 10] = [
        (Self::Done, "done"),
        (Self::Failed, "failed"),
        (
            Self::Partly,
            "done but for some files that could not be read or written",
        ),
        (Self::NoPool, "there is no pool"),
        (Self::Locked, "the pool is locked by a live writer"),
        (Self::WrongKey, "wrong password or key"),
        (Self::Repaired, "corruption was found and repaired"),
        (Self::Damaged, "corruption was found and is not repaired"),
        (Self::Interrupted, "interrupted"),
        (Self::OutputClosed, "the reader of the output went away"),
    ];

    /// What the number means.
    pub fn of_code(code: u8) -> Option<Self> {
        let mut all = Self::TABLE.into_iter().map(|(exit, _)| exit);
        all.find(|exit| exit.code() == code)
    }

    /// The number.
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
