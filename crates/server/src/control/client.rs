//! A command that asks the server of its pool to run it.
//!
//! Invariant: nothing is sent but to a server of this user or of root, and of the variables only
//! what a command there reads. A server that does not answer is not waited for. The command runs
//! once: here when no server took it, there when one did. Signals go to the server's command; a
//! second one ends this process, which the server hears.

use super::address;
use super::view::View;
use super::wire::{Answer, Descriptors, Request, Wish};
use crate::caller::{Caller, Lent, Streams};
use rustix::fs::{Mode, OFlags};
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longer than this nobody waits at the door: a server lets its clients in at once.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// A server says at once whether it takes a command, and that it began; one on a busy machine needs
/// some seconds.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// What came of asking.
pub enum Asked {
    /// A server ran the command, which ended with this exit code.
    Ran(u8),
    /// No server has the pool: it can be opened.
    Nobody,
}

/// Why a command was run neither here nor by a server.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The server, or its socket, could not be heard.
    #[error("{}: {what}", pool.display())]
    NoAnswer {
        /// Directory of the pool.
        pool: PathBuf,
        /// Who did not answer.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// The command could not be sent.
    #[error("the server of the pool")]
    Send(#[source] io::Error),
    /// The server will not run it, for this reason.
    #[error("{0}")]
    Refused(String),
    /// The server ended, and what became of the command is not known.
    #[error("the server of this pool ended before the command did")]
    Ended,
    /// The working directory cannot be lent.
    #[error("the working directory")]
    Directory(#[source] io::Error),
    /// The file with the password cannot be lent.
    #[error("QUINTET_PASSPHRASE_FD")]
    Passphrase(#[source] io::Error),
    /// This process could not do its part.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl AskError {
    fn no_answer(pool: &Path, what: &'static str, source: io::Error) -> Self {
        let pool = pool.to_owned();
        Self::NoAnswer { pool, what, source }
    }
}

/// Lets the pool's server run the command, if there is one. `passphrase` is the number of the open
/// file that the user gave for the password, `environment` the variables for the command.
pub fn ask(
    pool: &Path,
    caller: &Caller,
    arguments: &[OsString],
    passphrase: Option<u32>,
    environment: Vec<(OsString, OsString)>,
) -> Result<Asked, AskError> {
    let wanted = Wanted {
        arguments,
        passphrase,
        environment,
    };
    ask_within(ANSWER_LIMIT, pool, caller, wanted)
}

/// What a client wants.
struct Wanted<'a> {
    arguments: &'a [OsString],
    passphrase: Option<u32>,
    environment: Vec<(OsString, OsString)>,
}

fn ask_within(
    limit: Duration,
    pool: &Path,
    caller: &Caller,
    wanted: Wanted<'_>,
) -> Result<Asked, AskError> {
    let connected = address::connect(pool, limit.min(CONNECT_LIMIT))
        .map_err(|e| AskError::no_answer(pool, "the control socket", e))?;
    let Some(stream) = connected else {
        return Ok(Asked::Nobody);
    };
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    let request = Request {
        view: View::own()?,
        umask: umask().as_raw_mode(),
        arguments: wanted.arguments.to_vec(),
        environment: wanted.environment,
    };
    let sent = request.send(&stream, &descriptors(caller, wanted.passphrase)?);
    let receive = || {
        let received = Answer::receive(&stream);
        received.map_err(|e| AskError::no_answer(pool, "the server that has the pool", e))
    };
    if let Err(e) = sent {
        // It ends just now, or it refuses: then it has said why.
        return match receive()? {
            Some(Answer::Refused(why)) => Err(AskError::Refused(why)),
            _ if is_gone(&e) => Ok(Asked::Nobody),
            _ => Err(AskError::Send(e)),
        };
    }
    relay_signals(caller, &stream)?;
    let mut started = false;
    loop {
        match receive()? {
            Some(Answer::Started) => {
                started = true;
                // From here on it takes as long as it takes.
                stream.set_read_timeout(None)?;
            }
            Some(Answer::Refused(why)) => return Err(AskError::Refused(why)),
            Some(Answer::Ended(code)) => {
                return Ok(Asked::Ran(code));
            }
            None if started => return Err(AskError::Ended),
            None => return Ok(Asked::Nobody),
        }
    }
}

fn is_gone(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}

/// There is no way to ask but to set it.
fn umask() -> Mode {
    let mask = rustix::process::umask(Mode::RWXG | Mode::RWXO);
    rustix::process::umask(mask);
    mask
}

fn descriptors(caller: &Caller, passphrase: Option<u32>) -> Result<Descriptors, AskError> {
    let streams = caller.streams();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory =
        rustix::fs::open(".", flags, Mode::empty()).map_err(|e| AskError::Directory(e.into()))?;
    let passphrase = passphrase
        .map(|number| caller.passphrase(number))
        .transpose()
        .map_err(AskError::Passphrase)?;
    Ok(Descriptors {
        streams: Streams {
            input: streams.input.try_clone()?,
            output: streams.output.try_clone()?,
            error: streams.error.try_clone()?,
            lent: Some(Lent {
                terminal: caller.terminal(),
                passphrase,
            }),
        },
        directory,
    })
}

/// From now on, signals are wishes of the client, on a thread of its own.
fn relay_signals(caller: &Caller, to: &UnixStream) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGUSR1])?;
    let to = to.try_clone()?;
    // One may have come before.
    if caller.interrupt.requested() {
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
                // Nobody hears it any more: the answer, or the end, is on its way.
                let _ = wish.send(&to);
            }
        })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::address::Place;
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_server_that_does_not_answer_is_not_waited_for() {
        let top = tempfile::tempdir().unwrap();
        let listener = Place::of(top.path()).unwrap().listen().unwrap();
        let started = Instant::now();
        let wanted = Wanted {
            arguments: &["quintet".into(), "gc".into()],
            passphrase: None,
            environment: Vec::new(),
        };
        let limit = Duration::from_millis(200);
        let Err(error) = ask_within(limit, top.path(), &Caller::detached().unwrap(), wanted) else {
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
