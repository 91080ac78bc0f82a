//! Command context: the descriptors, environment and stop request of the user whose command runs.
//! Commands call this for all of their I/O with the user.
//!
//! Invariant: a command takes these from its context and never from the process. A server can
//! therefore run it for a client, with the descriptors and variables that the client sent (decision
//! 18). The working directory is then that of the thread. A stop request ends every wait for a
//! descriptor.

use crate::calendar;
use crate::environment::Environment;
use crate::interrupt::Interrupt;
use jiff::tz::TimeZone;
use rustix::event::PollFlags;
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// Maximum size of one write to a descriptor that may block, bytes: a ready pipe accepts as much.
const WRITE_BYTES: usize = 4096;

/// The descriptors of a command.
pub struct Streams {
    /// Standard input.
    pub input: File,
    /// Standard output.
    pub output: File,
    /// Standard error.
    pub error: File,
    /// Descriptors that a client sent besides. `None` in the process that the user started.
    pub from_client: Option<ClientDescriptors>,
}

/// Descriptors that a process can open itself and that a server must be given.
pub struct ClientDescriptors {
    /// The controlling terminal of the client, for password prompts.
    pub terminal: Option<File>,
    /// The file that `QUINTET_PASSPHRASE_FD` names.
    pub passphrase: Option<File>,
}

/// The command context. See the module's head.
pub struct CommandContext {
    /// Environment variables.
    pub environment: Environment,
    /// Stop and progress requests.
    pub interrupt: Interrupt,
    /// Every line of output is a JSON object: programs that run for the user write none of their
    /// own.
    pub json: bool,
    /// Process of the client whose command a server runs. `None`: this one.
    pub client: Option<u32>,
    streams: Streams,
}

impl CommandContext {
    /// Makes the context of this process's user. Installs signal handlers, so it is called once, at
    /// the start. A second signal ends the process with `exit_code`.
    pub fn of_process(exit_code: u8) -> io::Result<Self> {
        let dup = |fd: &dyn AsFd| fd.as_fd().try_clone_to_owned().map(File::from);
        let streams = Streams {
            input: dup(&io::stdin())?,
            output: dup(&io::stdout())?,
            error: dup(&io::stderr())?,
            from_client: None,
        };
        let environment = Environment::of_process();
        Ok(Self::new(
            environment,
            Interrupt::install(exit_code)?,
            streams,
        ))
    }

    /// Makes a context of these parts.
    pub fn new(environment: Environment, interrupt: Interrupt, streams: Streams) -> Self {
        Self {
            environment,
            interrupt,
            json: false,
            client: None,
            streams,
        }
    }

    /// Makes a context without terminal and variables that drops all output: for tests.
    pub fn detached() -> io::Result<Self> {
        let null = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/null")?;
        let streams = Streams {
            input: null.try_clone()?,
            output: null.try_clone()?,
            error: null,
            from_client: None,
        };
        let interrupt = Interrupt::detached();
        Ok(Self::new(Environment::default(), interrupt, streams))
    }

    /// Returns the descriptors.
    pub fn streams(&self) -> &Streams {
        &self.streams
    }

    /// Returns standard input. A read fails with [`crate::interrupt::Interrupted`] as its source
    /// when the user asks to stop.
    pub fn input(&self) -> io::Result<Input> {
        Ok(Input {
            from: self.streams.input.try_clone()?,
            interrupt: self.interrupt.clone(),
        })
    }

    /// Opens a file that the user named. Its reads end on a stop request if it is a pipe or a
    /// terminal; a pipe without a writer is waited for.
    pub fn open(&self, path: &Path) -> io::Result<Input> {
        const STANDARD_INPUT: [&str; 3] = ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"];
        const OF_THE_PROCESS: [&str; 3] = ["/dev/fd", "/proc/self", "/proc/thread-self"];
        if STANDARD_INPUT.iter().any(|name| path == Path::new(name)) {
            return self.input();
        }
        let is_of_process = OF_THE_PROCESS.iter().any(|top| path.starts_with(top));
        if is_of_process && self.streams.from_client.is_some() {
            let why = "the pool's server reads it, and only your own process has it open; \
                       write it to a file, or give it as standard input";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        Ok(Input {
            from: openat(CWD, path, flags, Mode::empty())?.into(),
            interrupt: self.interrupt.clone(),
        })
    }

    /// Returns standard output.
    pub fn output(&self) -> io::Result<Box<dyn Write + Send>> {
        self.writer(&self.streams.output)
    }

    /// Returns standard error.
    pub fn error(&self) -> io::Result<Box<dyn Write + Send>> {
        self.writer(&self.streams.error)
    }

    /// Wraps an output. In a process, a second signal ends a write that blocks. In a server, the
    /// write itself must end on a stop request.
    fn writer(&self, to: &File) -> io::Result<Box<dyn Write + Send>> {
        let to = to.try_clone()?;
        if self.streams.from_client.is_none() || to.metadata()?.is_file() {
            return Ok(Box::new(to));
        }
        let interrupt = self.interrupt.clone();
        Ok(Box::new(PatientWriter { to, interrupt }))
    }

    /// Returns the terminal for password prompts, if there is one.
    pub fn terminal(&self) -> Option<File> {
        match &self.streams.from_client {
            Some(from_client) => from_client.terminal.as_ref()?.try_clone().ok(),
            None => OpenOptions::new()
                .read(true)
                .write(true)
                .open("/dev/tty")
                .ok(),
        }
    }

    /// Returns the open file that the user named by descriptor `number` for the password.
    pub fn passphrase(&self, number: u32) -> io::Result<File> {
        match &self.streams.from_client {
            Some(from_client) => match &from_client.passphrase {
                Some(file) => file.try_clone(),
                None => Err(io::ErrorKind::NotFound.into()),
            },
            // Opening the descriptor by path needs no ownership of it.
            None => File::open(format!("/proc/self/fd/{number}")),
        }
    }

    /// Returns the user's time zone.
    pub fn zone(&self) -> TimeZone {
        let name = self.environment.value("TZ");
        let is_own = || name == Environment::of_process().value("TZ");
        match &self.streams.from_client {
            Some(_) if !is_own() => calendar::zone_called(name),
            _ => TimeZone::system(),
        }
    }

    /// Returns the directory for temporary files.
    pub fn temporary_directory(&self) -> PathBuf {
        let given = self.environment.value("TMPDIR").map(PathBuf::from);
        given.unwrap_or_else(|| PathBuf::from("/tmp"))
    }

    /// Prepares a program to run for the user, with the user's variables and standard error.
    pub fn program(&self, name: &OsStr) -> io::Result<Command> {
        let mut command = Command::new(name);
        command
            .env_clear()
            .envs(self.environment.all())
            .stdin(Stdio::null())
            .stderr(self.streams.error.try_clone()?);
        Ok(command)
    }

    /// Reads the output of a program. A stop request ends the wait.
    pub fn input_from(&self, child: &mut Child) -> Option<Input> {
        let from = child.stdout.take()?;
        Some(Input {
            from: File::from(std::os::fd::OwnedFd::from(from)),
            interrupt: self.interrupt.clone(),
        })
    }

    /// Waits for a program's end. A stop request kills the program.
    pub fn wait(&self, child: &mut Child) -> Result<ExitStatus, WaitError> {
        self.wait_polling(child, |ended| {
            self.interrupt.wait_for(ended, PollFlags::IN).map(|()| true)
        })
    }

    /// The same, but kills the program after this time too, and then returns how that ended it.
    pub fn wait_within(&self, child: &mut Child, time: Duration) -> Result<ExitStatus, WaitError> {
        self.wait_polling(child, |ended| {
            let interrupt = &self.interrupt;
            interrupt.wait_for_within(ended, PollFlags::IN, time)
        })
    }

    /// `has_ended` waits for a descriptor and returns false if the program may run no longer.
    fn wait_polling(
        &self,
        child: &mut Child,
        has_ended: impl FnOnce(&OwnedFd) -> io::Result<bool>,
    ) -> Result<ExitStatus, WaitError> {
        use rustix::process::{Pid, PidfdFlags, pidfd_open};
        if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw)
            && let Ok(ended) = pidfd_open(pid, PidfdFlags::empty())
        {
            let waited = has_ended(&ended);
            if !matches!(waited, Ok(true)) {
                // The program may have ended already.
                let _ = child.kill();
            }
            if let Err(stopped) = waited {
                child.wait()?;
                return Err(stopped.into());
            }
        }
        child.wait().map_err(WaitError::Program)
    }
}

/// Reason why a program's end was not awaited.
#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    /// The system did not return the exit status.
    #[error("cannot wait for a program")]
    Program(#[source] io::Error),
    /// The caller asked to stop ([`crate::interrupt::Interrupted`] is the source), or waiting for
    /// the killed program failed.
    #[error(transparent)]
    Stopped(#[from] io::Error),
}

/// A reader that can be interrupted. See [`CommandContext::input`].
pub struct Input {
    from: File,
    interrupt: Interrupt,
}

impl Read for Input {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            self.interrupt.wait_for(&self.from, PollFlags::IN)?;
            match self.from.read(into) {
                // Another process was faster.
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }
}

/// A writer that can be interrupted: writes as much as the descriptor accepts. After a stop request
/// it fails instead of waiting for the reader.
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
    use rustix::fs::{FileType, mknodat};

    fn context(input: io::PipeReader, output: io::PipeWriter) -> CommandContext {
        let file = |fd: std::os::fd::OwnedFd| File::from(fd);
        let streams = Streams {
            input: file(input.into()),
            output: file(output.into()),
            error: tempfile::tempfile().unwrap(),
            from_client: Some(ClientDescriptors {
                terminal: None,
                passphrase: None,
            }),
        };
        let interrupt = Interrupt::of_command().unwrap();
        CommandContext::new(Environment::of(&[("A", "b")]), interrupt, streams)
    }

    #[test]
    fn named_pipes_wait_for_a_writer_or_a_stop() {
        let top = tempfile::tempdir().unwrap();
        let pipe = top.path().join("pipe");
        let mode = Mode::RUSR | Mode::WUSR;
        mknodat(CWD, &pipe, FileType::Fifo, mode, 0).unwrap();
        let mut context = CommandContext::detached().unwrap();
        context.interrupt = Interrupt::of_command().unwrap();
        let mut text = String::new();
        std::thread::scope(|scope| {
            scope.spawn(|| std::fs::write(&pipe, "words").unwrap());
            let mut from = context.open(&pipe).unwrap();
            from.read_to_string(&mut text).unwrap();
        });
        assert_eq!(text, "words");
        context.interrupt.request();
        let mut from = context.open(&pipe).unwrap();
        let stopped = from.read(&mut [0]).unwrap_err();
        assert!(stopped.get_ref().unwrap().is::<Interrupted>());
        let mut nothing = context.open(Path::new("/dev/null")).unwrap();
        assert_eq!(nothing.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn neither_a_silent_writer_nor_a_full_reader_holds_it() {
        let (input, _silent) = io::pipe().unwrap();
        let (_full, output) = io::pipe().unwrap();
        let context = context(input, output);
        let interrupt = context.interrupt.clone();
        let (mut input, mut output) = (context.input().unwrap(), context.output().unwrap());
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
        let mut context = context(input, output);
        let mut env = context.program(OsStr::new("/usr/bin/env")).unwrap();
        let mut child = env.stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        let mut from = context.input_from(&mut child).unwrap();
        from.read_to_string(&mut said).unwrap();
        assert_eq!(said, "A=b\n");
        assert!(context.wait(&mut child).unwrap().success());
        let mut forever = context.program(OsStr::new("/bin/sleep")).unwrap();
        let mut child = forever.arg("1000").spawn().unwrap();
        let limit = Duration::from_millis(1);
        let killed = context.wait_within(&mut child, limit).unwrap();
        assert!(!killed.success());
        let mut child = forever.spawn().unwrap();
        context.interrupt.request();
        assert!(context.wait(&mut child).is_err());
        let mut short = context.program(OsStr::new("/bin/true")).unwrap();
        let mut child = short.spawn().unwrap();
        context.interrupt = Interrupt::detached();
        let limit = Duration::from_secs(60);
        assert!(context.wait_within(&mut child, limit).unwrap().success());
    }
}
