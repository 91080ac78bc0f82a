//! The client's end: asks the server of a pool to run this process's command. The program calls
//! [`ask`].
//!
//! Invariant: requests are sent to servers of this user or of root only, and carry only the
//! variables that a command reads. Waiting for a server has a limit until the command has begun.
//! The command runs once: here if no server accepted it, otherwise there. Signals are passed on to
//! the server's command. A second one ends this process, which the server notices as the end of the
//! connection.

use super::address;
use super::view::View;
use super::wire::{CommandAnswer, CommandRequest, Descriptors, Wish};
use rustix::fs::{Mode, OFlags};
use signal_hook::consts::SIGUSR1;
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use terminal::command_context::{ClientDescriptors, CommandContext, Streams};
use terminal::interrupt::stop_signals;

/// Limit for connecting. A server accepts its clients at once.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Limit for the answer that the command is refused or has begun. A busy machine needs some
/// seconds.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// Result of asking a server.
pub enum Asked {
    /// A server ran the command, which ended with this exit code.
    Ran(u8),
    /// No server has the pool: the caller may open it.
    NoServer,
}

/// The command ran neither here nor in a server, or its result is unknown.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The server or its socket did not answer.
    #[error("cannot use {what} of {}", pool.display())]
    NoAnswer {
        /// Directory of the pool.
        pool: PathBuf,
        /// The part that did not answer.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// The command could not be sent.
    #[error("cannot send the command to the server of the pool")]
    Send(#[source] io::Error),
    /// The server refused the command for this reason.
    #[error("{0}")]
    Refused(String),
    /// The server ended during the command. The command's result is unknown.
    #[error(
        "the server of this pool ended before the command did; check whether the command took effect"
    )]
    Ended,
    /// The working directory cannot be opened to be sent.
    #[error("cannot open the working directory")]
    Directory(#[source] io::Error),
    /// The descriptor of the password cannot be sent.
    #[error("cannot use QUINTET_PASSPHRASE_FD")]
    Passphrase(#[source] io::Error),
    /// A system call failed in this process.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl AskError {
    fn no_answer(pool: &Path, what: &'static str, source: io::Error) -> Self {
        let pool = pool.to_owned();
        Self::NoAnswer { pool, what, source }
    }
}

/// Asks the pool's server, if there is one, to run the command. `passphrase` is the number of the
/// descriptor that the user gave for the password. `environment` lists the variables for the
/// command.
pub fn ask(
    pool: &Path,
    context: &CommandContext,
    arguments: &[OsString],
    passphrase: Option<u32>,
    environment: Vec<(OsString, OsString)>,
) -> Result<Asked, AskError> {
    let wanted = Wanted {
        arguments,
        passphrase,
        environment,
    };
    ask_within(ANSWER_LIMIT, pool, context, wanted)
}

/// The command that a client asks for.
struct Wanted<'a> {
    arguments: &'a [OsString],
    passphrase: Option<u32>,
    environment: Vec<(OsString, OsString)>,
}

fn ask_within(
    limit: Duration,
    pool: &Path,
    context: &CommandContext,
    wanted: Wanted<'_>,
) -> Result<Asked, AskError> {
    let connected = address::connect(pool, limit.min(CONNECT_LIMIT))
        .map_err(|e| AskError::no_answer(pool, "the control socket", e))?;
    let Some(stream) = connected else {
        return Ok(Asked::NoServer);
    };
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    let request = CommandRequest {
        view: View::own()?,
        umask: umask().as_raw_mode(),
        arguments: wanted.arguments.to_vec(),
        environment: wanted.environment,
    };
    let sent = request.send(&stream, &descriptors(context, wanted.passphrase)?);
    let receive = || {
        let received = CommandAnswer::receive(&stream);
        received.map_err(|e| AskError::no_answer(pool, "the server", e))
    };
    if let Err(e) = sent {
        // The server is ending, or it refused the client. In the second case its reason can be
        // read.
        return match receive()? {
            Some(CommandAnswer::Refused(why)) => Err(AskError::Refused(why)),
            _ if has_left(&e) => Ok(Asked::NoServer),
            _ => Err(AskError::Send(e)),
        };
    }
    relay_signals(context, &stream)?;
    let mut started = false;
    loop {
        match receive()? {
            Some(CommandAnswer::Started) => {
                started = true;
                // The command itself has no time limit.
                stream.set_read_timeout(None)?;
            }
            Some(CommandAnswer::Refused(why)) => return Err(AskError::Refused(why)),
            Some(CommandAnswer::Ended(code)) => {
                return Ok(Asked::Ran(code));
            }
            None if started => return Err(AskError::Ended),
            None => return Ok(Asked::NoServer),
        }
    }
}

fn has_left(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}

/// The system has no call that reads the mask without setting it.
fn umask() -> Mode {
    let mask = rustix::process::umask(Mode::RWXG | Mode::RWXO);
    rustix::process::umask(mask);
    mask
}

fn descriptors(context: &CommandContext, passphrase: Option<u32>) -> Result<Descriptors, AskError> {
    let streams = context.streams();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory =
        rustix::fs::open(".", flags, Mode::empty()).map_err(|e| AskError::Directory(e.into()))?;
    let passphrase = passphrase
        .map(|number| context.passphrase(number))
        .transpose()
        .map_err(AskError::Passphrase)?;
    Ok(Descriptors {
        streams: Streams {
            input: streams.input.try_clone()?,
            output: streams.output.try_clone()?,
            error: streams.error.try_clone()?,
            from_client: Some(ClientDescriptors {
                terminal: context.terminal(),
                passphrase,
            }),
        },
        directory,
    })
}

/// Starts a thread that passes signals on to the server from now on.
fn relay_signals(context: &CommandContext, to: &UnixStream) -> io::Result<()> {
    let mut signals = Signals::new(stop_signals().into_iter().chain([SIGUSR1]))?;
    let to = to.try_clone()?;
    // A signal may have come before the thread started.
    if context.interrupt.requested() {
        Wish::Stop.send(&to)?;
    }
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                let wish = match signal {
                    SIGUSR1 => Wish::Report,
                    _ => Wish::Stop,
                };
                // After a failed send, the answer or the end of the connection is on its way.
                let _ = wish.send(&to);
            }
        })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_server_that_does_not_answer_is_not_waited_for() {
        let top = tempfile::tempdir().unwrap();
        let (_place, listener) = address::listen(top.path()).unwrap();
        let started = Instant::now();
        let wanted = Wanted {
            arguments: &["quintet".into(), "gc".into()],
            passphrase: None,
            environment: Vec::new(),
        };
        let limit = Duration::from_millis(200);
        let Err(error) = ask_within(
            limit,
            top.path(),
            &CommandContext::detached().unwrap(),
            wanted,
        ) else {
            panic!("somebody answered");
        };
        let AskError::NoAnswer { source, .. } = error else {
            panic!("{error}");
        };
        assert!(source.to_string().contains("does not answer"), "{source}");
        assert!(started.elapsed() < Duration::from_secs(60));
        drop(listener);
    }
}
