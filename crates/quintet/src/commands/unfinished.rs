//! A run that ends before its commit: puts away what it stored, and says that the next run uses it.
//! Commands that make snapshots call this.

use super::invocation::Invocation;
use store::WriteSession;
use terminal::sizes;

/// Ends a session without a commit. The next session finds the chunks that were stored so far.
pub(super) fn end(invocation: &Invocation, session: WriteSession) {
    let new_bytes = session.counts().new_bytes;
    if session.abandon().is_ok() && new_bytes > 0 {
        let size = sizes::display(new_bytes);
        invocation.console.note(format_args!(
            "{size} of new data were stored and are kept: the next run does not store them again"
        ));
    }
}
