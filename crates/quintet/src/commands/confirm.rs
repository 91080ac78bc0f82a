//! Asks the user before something is destroyed. Commands that destroy data call this.
//!
//! Invariant: without a terminal on standard input there is no question: the command does what it
//! was asked, as scripts expect. Only an explicit yes counts as yes.

use rustix::event::PollFlags;
use std::io::{IsTerminal, Write};
use terminal::command_context::CommandContext;
use terminal::interrupt::Interrupted;

const ANSWER_BYTES_MAX: usize = 4096;

/// Returns true if there is a user at a terminal.
pub(super) fn can_ask(context: &CommandContext) -> bool {
    context.streams().input.is_terminal() && context.terminal().is_some()
}

/// Shows `question` on the terminal and waits for the answer. Returns true for `y` and `yes`.
pub(super) fn is_wanted(context: &CommandContext, question: &str) -> anyhow::Result<bool> {
    let answer = ask(context, &format!("{question} [y/N] "))?.to_lowercase();
    Ok(answer == "y" || answer == "yes")
}

/// Shows `question` on the terminal and returns the answer; an empty one without a terminal.
pub(super) fn ask(context: &CommandContext, question: &str) -> anyhow::Result<String> {
    let Some(mut terminal) = context.terminal() else {
        return Ok(String::new());
    };
    write!(terminal, "{question}")?;
    let mut answer = Vec::new();
    let mut byte = [0];
    loop {
        // Characters typed after a stop request are not part of the answer.
        if context.interrupt.requested() {
            return Err(Interrupted.into());
        }
        context.interrupt.wait_for(&terminal, PollFlags::IN)?;
        match rustix::io::read(&terminal, &mut byte) {
            Ok(0) => break,
            Ok(_) if byte == *b"\n" => break,
            Ok(_) if answer.len() < ANSWER_BYTES_MAX => answer.extend(byte),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(String::from_utf8_lossy(&answer).trim().to_owned())
}
