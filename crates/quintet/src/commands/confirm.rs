//! Asking before something is destroyed.
//!
//! Invariant: nobody is asked who cannot answer: without a terminal on standard input a command does what
//! it was told, as scripts expect. An answer is yes only when it says so. Called by commands that
//! destroy what the user may want to keep.

use rustix::event::PollFlags;
use server::caller::Caller;
use server::interrupt::Interrupted;
use std::io::{IsTerminal, Write};

const ANSWER_BYTES_MAX: usize = 100;

/// True when somebody sits there who can be asked.
pub(super) fn can_ask(caller: &Caller) -> bool {
    caller.streams().input.is_terminal() && caller.terminal().is_some()
}

/// Shows `question` on the terminal and waits for the answer: true for `y` and `yes`.
pub(super) fn is_wanted(caller: &Caller, question: &str) -> anyhow::Result<bool> {
    let Some(mut terminal) = caller.terminal() else {
        return Ok(false);
    };
    write!(terminal, "{question} [y/N] ")?;
    let mut answer = Vec::new();
    let mut byte = [0];
    loop {
        // What is typed after the wish to stop is no answer.
        if caller.interrupt.requested() {
            return Err(Interrupted.into());
        }
        caller.interrupt.wait_for(&terminal, PollFlags::IN)?;
        match rustix::io::read(&terminal, &mut byte) {
            Ok(0) => break,
            Ok(_) if byte == *b"\n" => break,
            Ok(_) if answer.len() < ANSWER_BYTES_MAX => answer.extend(byte),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    let answer = String::from_utf8_lossy(&answer).trim().to_lowercase();
    Ok(answer == "y" || answer == "yes")
}
