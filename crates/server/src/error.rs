//! Errors in words.
//!
//! Invariant: the words are those that the command line says of the same error: each cause after its
//! effect. Called by the server's threads, which have no caller to return an error to.

use std::error::Error;
use std::fmt::Write as _;

/// An error and its causes on one line.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // Writing to a String does not fail.
        let _ = write!(words, ": {error}");
        cause = error.source();
    }
    words
}
