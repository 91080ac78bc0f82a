//! Asking for a secret on the terminal.
//!
//! Invariant: nothing typed is shown, and the terminal is as before when the question ends, however
//! it ends. Uses the controlling terminal, not standard input, which may be a pipe with data.

use super::password::PasswordError;
use crate::interrupt::Interrupt;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{self, LocalModes, OptionalActions, Termios};
use std::fs::{File, OpenOptions};
use std::io::Write;

const PASSWORD_BYTES_MAX: usize = 4096;
/// How long a signal may wait for being noticed.
const SIGNAL_POLL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// Shows `prompt` and reads one line without showing it.
pub(super) fn ask(prompt: &str, interrupt: &Interrupt) -> Result<Vec<u8>, PasswordError> {
    let opened = OpenOptions::new().read(true).write(true).open("/dev/tty");
    let mut terminal = opened.map_err(|_| PasswordError::NoSource)?;
    let _silence = Silence::begin(&terminal)?;
    write!(terminal, "{prompt}: ").map_err(PasswordError::Terminal)?;
    let line = read_line(&terminal, interrupt);
    // The user's own line end was not shown either.
    writeln!(terminal).map_err(PasswordError::Terminal)?;
    line
}

fn read_line(terminal: &File, interrupt: &Interrupt) -> Result<Vec<u8>, PasswordError> {
    let mut line = Vec::new();
    let mut byte = [0];
    while !interrupt.requested() {
        // A signal does not end a read: look for it while nothing is typed.
        match poll(
            &mut [PollFd::new(terminal, PollFlags::IN)],
            Some(&SIGNAL_POLL),
        ) {
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(e) => return Err(PasswordError::Terminal(e.into())),
        }
        match rustix::io::read(terminal, &mut byte) {
            Ok(0) => return Ok(line),
            Ok(_) if byte == *b"\n" => return Ok(line),
            Ok(_) if line.len() < PASSWORD_BYTES_MAX => line.extend(byte),
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(PasswordError::Terminal(e.into())),
        }
    }
    Err(PasswordError::Interrupted)
}

/// Echo is off while this lives.
struct Silence {
    terminal: File,
    before: Termios,
}

impl Silence {
    fn begin(terminal: &File) -> Result<Self, PasswordError> {
        let fail = |e: Errno| PasswordError::Terminal(e.into());
        let before = termios::tcgetattr(terminal).map_err(fail)?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        termios::tcsetattr(terminal, OptionalActions::Flush, &silent).map_err(fail)?;
        let terminal = terminal.try_clone().map_err(PasswordError::Terminal)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        // When this fails the terminal is gone.
        let _ = termios::tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}
