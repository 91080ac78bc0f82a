//! Who runs a command: descriptors, environment, working directory, and the wish to stop.
//!
//! Invariant: a command asks nothing else of the process that it runs in, so that a server can run
//! it for a client whose descriptors and environment it was lent (decision 18); the working
//! directory is then the thread's. Waiting for a descriptor ends with the wish to stop.

use crate::calendar;
use crate::interrupt::Interrupt;
use crate::settings::Environment;
use jiff::tz::TimeZone;
use rustix::event::PollFlags;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

/// What is written at once to a descriptor that may have no room: pipes promise as much when they
/// are ready.
const WRITE_BYTES: usize = 4096;

/// The descriptors of a command.
pub struct Streams {
    /// Standard input.
    pub input: File,
    /// Standard output.
    pub output: File,
    /// Standard error.
    pub error: File,
    /// What a client lent besides; `None` in the process that the user started.
    pub lent: Option<Lent>,
}

/// What a process finds by itself, and a server has to be given.
pub struct Lent {
    /// The terminal that controls the client, to ask for passwords on.
    pub terminal: Option<File>,
    /// What `QUINTET_PASSPHRASE_FD` means.
    pub passphrase: Option<File>,
}

/// See the module's head.
pub struct Caller {
    /// Variables.
    pub environment: Environment,
    /// The wish to stop.
    pub interrupt: Interrupt,
    streams: Streams,
}

impl Caller {
    /// The user of this process. Takes over the signals: once a process, at its start. A second
    /// signal ends the process with `exit_code`.
    pub fn of_process(exit_code: u8) -> io::Result<Self> {
        let dup = |fd: &dyn AsFd| fd.as_fd().try_clone_to_owned().map(File::from);
        let streams = Streams {
            input: dup(&io::stdin())?,
            output: dup(&io::stdout())?,
            error: dup(&io::stderr())?,
            lent: None,
        };
        let environment = Environment::of_process();
        Ok(Self::new(
            environment,
            Interrupt::install(exit_code)?,
            streams,
        ))
    }

    /// With these.
    pub fn new(environment: Environment, interrupt: Interrupt, streams: Streams) -> Self {
        Self {
            environment,
            interrupt,
            streams,
        }
    }

    /// A caller without terminal and variables, whose output is dropped: for tests.
    pub fn detached() -> io::Result<Self> {
        let null = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/null")?;
        let streams = Streams {
            input: null.try_clone()?,
            output: null.try_clone()?,
            error: null,
            lent: None,
        };
        let interrupt = Interrupt::detached();
        Ok(Self::new(Environment::default(), interrupt, streams))
    }

    /// The descriptors.
    pub fn streams(&self) -> &Streams {
        &self.streams
    }

    /// Standard input. A read fails with [`crate::interrupt::Interrupted`] inside when the user asks to stop.
    pub fn input(&self) -> io::Result<Input> {
        Ok(Input {
            from: self.streams.input.try_clone()?,
            interrupt: self.interrupt.clone(),
        })
    }

    /// Standard output.
    pub fn output(&self) -> io::Result<Box<dyn Write + Send>> {
        self.writer(&self.streams.output)
    }

    /// Standard error.
    pub fn error(&self) -> io::Result<Box<dyn Write + Send>> {
        self.writer(&self.streams.error)
    }

    /// A process is ended by a second signal while it waits for a reader. A server is not.
    fn writer(&self, to: &File) -> io::Result<Box<dyn Write + Send>> {
        let to = to.try_clone()?;
        if self.streams.lent.is_none() || to.metadata()?.is_file() {
            return Ok(Box::new(to));
        }
        let interrupt = self.interrupt.clone();
        Ok(Box::new(PatientWriter { to, interrupt }))
    }

    /// The terminal, if there is one to ask on.
    pub fn terminal(&self) -> Option<File> {
        match &self.streams.lent {
            Some(lent) => lent.terminal.as_ref()?.try_clone().ok(),
            None => OpenOptions::new()
                .read(true)
                .write(true)
                .open("/dev/tty")
                .ok(),
        }
    }

    /// The open file that the user gave as `number` for the password.
    pub fn passphrase(&self, number: u32) -> io::Result<File> {
        match &self.streams.lent {
            Some(lent) => match &lent.passphrase {
                Some(file) => file.try_clone(),
                None => Err(io::ErrorKind::NotFound.into()),
            },
            // Opening the descriptor's own name needs no ownership of the descriptor.
            None => File::open(format!("/proc/self/fd/{number}")),
        }
    }

    /// Where the user's clocks are.
    pub fn zone(&self) -> TimeZone {
        let name = self.environment.value("TZ");
        let is_own = || name == Environment::of_process().value("TZ");
        match &self.streams.lent {
            Some(_) if !is_own() => calendar::zone_called(name),
            _ => TimeZone::system(),
        }
    }

    /// Where temporary files go.
    pub fn temporary_directory(&self) -> PathBuf {
        let given = self.environment.value("TMPDIR").map(PathBuf::from);
        given.unwrap_or_else(|| PathBuf::from("/tmp"))
    }

    /// A program about to be run for the user: their variables, their standard error.
    pub fn program(&self, name: &OsStr) -> io::Result<Command> {
        let mut command = Command::new(name);
        command
            .env_clear()
            .envs(self.environment.all())
            .stdin(Stdio::null())
            .stderr(self.streams.error.try_clone()?);
        Ok(command)
    }

    /// Reads what a program writes; a wish to stop ends the wait.
    pub fn input_from(&self, child: &mut Child) -> Option<Input> {
        let from = child.stdout.take()?;
        Some(Input {
            from: File::from(std::os::fd::OwnedFd::from(from)),
            interrupt: self.interrupt.clone(),
        })
    }

    /// Waits for a program's end; a wish to stop kills it.
    pub fn wait(&self, child: &mut Child) -> Result<ExitStatus, WaitError> {
        use rustix::process::{Pid, PidfdFlags, pidfd_open};
        if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw)
            && let Ok(ended) = pidfd_open(pid, PidfdFlags::empty())
            && let Err(stopped) = self.interrupt.wait_for(&ended, PollFlags::IN)
        {
            // It may have ended by itself just now.
            let _ = child.kill();
            child.wait()?;
            return Err(stopped.into());
        }
        child.wait().map_err(WaitError::Program)
    }
}

/// Why the end of a program was not seen.
#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    /// The system does not say how it ended.
    #[error("wait for a program")]
    Program(#[source] io::Error),
    /// The caller asked to stop ([`crate::interrupt::Interrupted`] inside), or the program could not
    /// be waited for after that.
    #[error(transparent)]
    Stopped(#[from] io::Error),
}

/// Bytes that come when they come. See [`Caller::input`].
pub struct Input {
    from: File,
    interrupt: Interrupt,
}

impl Read for Input {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.interrupt.wait_for(&self.from, PollFlags::IN)?;
        self.from.read(into)
    }
}

/// Writes what there is room for. Who asked to stop is not waited for: their reader is gone, or
/// does not read.
struct PatientWriter {
    to: File,
    interrupt: Interrupt,
}

impl Write for PatientWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.interrupt.wait_for(&self.to, PollFlags::OUT).is_err() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let at_once = bytes.get(..WRITE_BYTES).unwrap_or(bytes);
        self.to.write(at_once)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interrupt::Interrupted;

    fn caller(input: io::PipeReader, output: io::PipeWriter) -> Caller {
        let file = |fd: std::os::fd::OwnedFd| File::from(fd);
        let streams = Streams {
            input: file(input.into()),
            output: file(output.into()),
            error: tempfile::tempfile().unwrap(),
            lent: Some(Lent {
                terminal: None,
                passphrase: None,
            }),
        };
        let interrupt = Interrupt::of_command().unwrap();
        Caller::new(Environment::of(&[("A", "b")]), interrupt, streams)
    }

    #[test]
    fn neither_a_silent_writer_nor_a_full_reader_holds_it() {
        let (input, _silent) = io::pipe().unwrap();
        let (_full, output) = io::pipe().unwrap();
        let caller = caller(input, output);
        let interrupt = caller.interrupt.clone();
        let (mut input, mut output) = (caller.input().unwrap(), caller.output().unwrap());
        let reader = std::thread::spawn(move || input.read(&mut [0; 10]));
        let writer = std::thread::spawn(move || output.write_all(&vec![0; 1 << 20]));
        interrupt.request();
        let stopped = reader.join().unwrap().unwrap_err();
        assert!(stopped.get_ref().is_some_and(|e| e.is::<Interrupted>()));
        let stopped = writer.join().unwrap().unwrap_err();
        assert_eq!(stopped.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn programs_get_the_callers_variables_and_end_with_it() {
        let (input, _keep) = io::pipe().unwrap();
        let (_read, output) = io::pipe().unwrap();
        let caller = caller(input, output);
        let mut env = caller.program(OsStr::new("/usr/bin/env")).unwrap();
        let mut child = env.stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        let mut from = caller.input_from(&mut child).unwrap();
        from.read_to_string(&mut said).unwrap();
        assert_eq!(said, "A=b\n");
        assert!(caller.wait(&mut child).unwrap().success());
        let mut forever = caller.program(OsStr::new("/bin/sleep")).unwrap();
        let mut child = forever.arg("1000").spawn().unwrap();
        caller.interrupt.request();
        assert!(caller.wait(&mut child).is_err());
    }
}
