//! Programs that a command runs for its user, and what they write to standard error: the cause of
//! their failure. Imports, exports and backups of streams call this.
//!
//! Invariant: the text never mixes with JSON lines. Its end is kept, so memory has a limit. A
//! process that outlives the program and keeps its standard error open holds nobody up.

use crate::command_context::{CommandContext, WaitError};
use crate::kept_text::KeptText;
use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// Lines of text in a message.
const LINES_MAX: usize = 3;

/// A program failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{program} failed ({status}){}", cause(.output))]
pub struct ProgramFailed {
    /// Its name, and what it was to do: "qemu-img convert".
    pub program: String,
    /// How it ended.
    pub status: ExitStatus,
    /// The end of what it wrote to standard error.
    pub output: String,
}

/// Returns the last lines, which have the cause.
fn cause(output: &str) -> String {
    let lines: Vec<&str> = output.lines().map(str::trim).collect();
    let lines: Vec<&str> = lines.into_iter().filter(|line| !line.is_empty()).collect();
    let last = lines.get(lines.len().saturating_sub(LINES_MAX)..);
    match last {
        Some([]) | None => String::new(),
        Some(last) => format!(": {}", last.join("; ")),
    }
}

/// A running program.
pub struct OutsideProgram {
    /// The process.
    pub child: Child,
    name: String,
    text: Option<KeptText>,
}

impl OutsideProgram {
    /// Starts `command`, which [`CommandContext::program`] made. `name` is for messages. `shows`:
    /// the user sees its text at once.
    pub fn start(
        context: &CommandContext,
        command: &mut Command,
        name: &str,
        shows: bool,
    ) -> io::Result<Self> {
        let shown = shows.then(|| context.error()).transpose()?;
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let text = child.stderr.take();
        Ok(Self {
            text: text.map(|text| KeptText::start(text, shown)).transpose()?,
            child,
            name: name.to_owned(),
        })
    }

    /// Waits for its end. A stop request kills it. Returns its status and the end of its text.
    pub fn wait(mut self, context: &CommandContext) -> Result<Ended, WaitError> {
        let status = context.wait(&mut self.child);
        self.ended(status)
    }

    /// The same, but kills it after this time too.
    pub fn wait_within(
        mut self,
        context: &CommandContext,
        time: Duration,
    ) -> Result<Ended, WaitError> {
        let status = context.wait_within(&mut self.child, time);
        self.ended(status)
    }

    fn ended(self, status: Result<ExitStatus, WaitError>) -> Result<Ended, WaitError> {
        let output = self.text.map_or_else(String::new, KeptText::end);
        Ok(Ended {
            program: self.name,
            status: status?,
            output,
        })
    }
}

/// How a program ended.
pub struct Ended {
    program: String,
    /// Its status.
    pub status: ExitStatus,
    /// The end of what it wrote to standard error.
    pub output: String,
}

impl Ended {
    /// Returns its text if it succeeded.
    pub fn success(self) -> Result<String, ProgramFailed> {
        match self.status.success() {
            true => Ok(self.output),
            false => Err(self.failure()),
        }
    }

    /// Returns it as a failure.
    pub fn failure(self) -> ProgramFailed {
        ProgramFailed {
            program: self.program,
            status: self.status,
            output: self.output,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    fn run(script: &str) -> Ended {
        let context = CommandContext::detached().unwrap();
        let mut shell = context.program(OsStr::new("/bin/sh")).unwrap();
        shell.args(["-c", script]);
        let helper = OutsideProgram::start(&context, &mut shell, "sh", false).unwrap();
        helper.wait(&context).unwrap()
    }

    #[test]
    fn a_failure_says_why() {
        let failed = run("echo one >&2; echo two >&2; exit 4").success().err();
        let failed = failed.unwrap();
        assert_eq!(failed.output, "one\ntwo\n");
        assert_eq!(failed.to_string(), "sh failed (exit status: 4): one; two");
        let failed = run("exit 1").success().err().unwrap();
        assert_eq!(failed.to_string(), "sh failed (exit status: 1)");
        assert_eq!(run("echo fine >&2").success().unwrap(), "fine\n");
    }

    #[test]
    fn the_end_of_much_text_is_kept() {
        let said = run("yes | head -n 100000 >&2; echo last >&2").output;
        assert!(said.len() <= 64 << 10 && said.ends_with("y\nlast\n"));
    }

    #[test]
    fn a_program_that_keeps_standard_error_open_holds_no_command_up() {
        let said = run("sleep 1000 & echo $! >&2").output;
        let pid = rustix::process::Pid::from_raw(said.trim().parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
}
