//! Formats errors for users. The server's threads, which have no caller to return an error to, and
//! the command line call it.
//!
//! Invariant: each cause follows its effect, and a cause that the effect's text contains is not
//! repeated.

use std::error::Error;
use std::io;

/// Returns an error and its causes on one line.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = one(error);
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = one(error);
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}

fn one(error: &dyn Error) -> String {
    match error.to_string() {
        text if text.contains(" (os error ") => system(error).unwrap_or(text),
        text => text,
    }
}

/// Returns the text of a system error without its number. The error may be one that shows its
/// source as it is.
fn system(error: &dyn Error) -> Option<String> {
    let shown = error.to_string();
    let (text, number) = shown.rsplit_once(" (os error ")?;
    let number: i32 = number.strip_suffix(')')?.parse().ok()?;
    let error = io::Error::from_raw_os_error(number);
    let before = text.strip_suffix(error.to_string().rsplit_once(" (os error ")?.0)?;
    Some(format!("{before}{}", units::reason(&error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Failed {
        text: &'static str,
        source: io::Error,
    }

    #[test]
    fn each_cause_is_said_once_and_without_its_number() {
        let denied = || io::Error::from_raw_os_error(13);
        let failed = |text| {
            let source = denied();
            with_causes(&Failed { text, source })
        };
        assert_eq!(with_causes(&denied()), "permission denied");
        assert_eq!(failed("cannot read a"), "cannot read a: permission denied");
        let twice = "cannot read a: permission denied";
        assert_eq!(failed(twice), twice);
        let shown = "cannot read a: Permission denied (os error 13)";
        assert_eq!(failed(shown), twice);
        assert_eq!(with_causes(&io::Error::other("Why")), "Why");
    }
}
