//! Formats errors for the server's threads, which have no caller to return an error to.
//!
//! Invariant: the text is the one that the command line prints for the same error: each cause
//! follows its effect.

use std::error::Error;
use std::fmt::Write as _;

/// Returns an error and its causes on one line.
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
