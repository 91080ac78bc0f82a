//! Prompts for a secret on the terminal. Password sources call this.
//!
//! Invariant: typed characters are not shown. The terminal's mode is restored however the prompt
//! ends. The prompt uses the controlling terminal, because standard input may be a pipe with data.

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::termios::{self, LocalModes, OptionalActions, Termios};
use std::fs::File;
use std::io::{self, Write};
use terminal::command_context::CommandContext;
use terminal::interrupt::Interrupt;

const PASSWORD_BYTES_MAX: usize = 4096;

/// Reason why nothing was typed.
#[derive(Debug)]
pub(crate) enum TerminalError {
    /// There is no terminal.
    Absent,
    /// The user stopped the prompt.
    Interrupted,
    /// The terminal failed.
    Failed(io::Error),
}

/// Shows `prompt` and reads one line without echo.
pub(crate) fn ask(prompt: &str, context: &CommandContext) -> Result<Vec<u8>, TerminalError> {
    let mut terminal = context.terminal().ok_or(TerminalError::Absent)?;
    let _silence = Silence::begin(&terminal)?;
    write!(terminal, "{prompt}: ").map_err(TerminalError::Failed)?;
    let line = read_line(&terminal, &context.interrupt);
    // The user's line end was not echoed.
    writeln!(terminal).map_err(TerminalError::Failed)?;
    line
}

fn read_line(terminal: &File, interrupt: &Interrupt) -> Result<Vec<u8>, TerminalError> {
    let mut line = Vec::new();
    let mut byte = [0];
    // Characters typed after a stop request are not part of the answer.
    while !interrupt.requested() && interrupt.wait_for(terminal, PollFlags::IN).is_ok() {
        match rustix::io::read(terminal, &mut byte) {
            Ok(0) => return Ok(line),
            Ok(_) if byte == *b"\n" => return Ok(line),
            Ok(_) if line.len() < PASSWORD_BYTES_MAX => line.extend(byte),
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(TerminalError::Failed(e.into())),
        }
    }
    Err(TerminalError::Interrupted)
}

/// Disables echo. Dropping it restores the mode.
struct Silence {
    terminal: File,
    before: Termios,
}

impl Silence {
    fn begin(terminal: &File) -> Result<Self, TerminalError> {
        let fail = |e: Errno| TerminalError::Failed(e.into());
        let before = termios::tcgetattr(terminal).map_err(fail)?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        termios::tcsetattr(terminal, OptionalActions::Flush, &silent).map_err(fail)?;
        let terminal = terminal.try_clone().map_err(TerminalError::Failed)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        // A failure here means that the terminal was closed.
        let _ = termios::tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}
