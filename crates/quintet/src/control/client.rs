//! A command that asks the server of its pool to run it.
//!
//! Invariant: the command runs once: here when no server took it, there when one did. Signals go to
//! the server's command; a second one ends this process, which the server hears.

use super::address;
use super::view::View;
use super::wire::{Answer, Descriptors, Request, Wish};
use crate::caller::{Caller, Lent, Streams};
use crate::exit::Exit;
use anyhow::{Context, bail};
use rustix::fs::{Mode, OFlags};
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// What came of asking.
pub enum Asked {
    /// A server ran the command.
    Ran(Exit),
    /// No server has the pool: it can be opened.
    Nobody,
}

/// Lets the pool's server run the command, if there is one. `passphrase` is the number of the open
/// file that the user gave for the password.
pub fn ask(
    pool: &Path,
    caller: &Caller,
    arguments: &[OsString],
    passphrase: Option<u32>,
) -> anyhow::Result<Asked> {
    let connected = address::connect(pool).context("the control socket of the pool")?;
    let Some(stream) = connected else {
        return Ok(Asked::Nobody);
    };
    let request = Request {
        view: View::own()?,
        umask: umask().as_raw_mode(),
        arguments: arguments.to_vec(),
        environment: caller.environment.all().clone().into_iter().collect(),
    };
    let sent = request.send(&stream, &descriptors(caller, passphrase)?);
    if let Err(e) = sent {
        // It ends just now, or it refuses: then it has said why.
        return match Answer::receive(&stream)? {
            Some(Answer::Refused(why)) => bail!("{why}"),
            _ if is_gone(&e) => Ok(Asked::Nobody),
            _ => Err(e).context("the server of the pool"),
        };
    }
    relay_signals(caller, &stream)?;
    let mut started = false;
    loop {
        match Answer::receive(&stream).context("the server of the pool")? {
            Some(Answer::Started) => started = true,
            Some(Answer::Refused(why)) => bail!("{why}"),
            Some(Answer::Ended(code)) => {
                return Ok(Asked::Ran(Exit::of_code(code).unwrap_or(Exit::Failed)));
            }
            None if started => bail!("the server of this pool ended before the command did"),
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

fn descriptors(caller: &Caller, passphrase: Option<u32>) -> anyhow::Result<Descriptors> {
    let streams = caller.streams();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(".", flags, Mode::empty()).context("the working directory")?;
    let passphrase = passphrase
        .map(|number| caller.passphrase(number))
        .transpose()
        .context("QUINTET_PASSPHRASE_FD")?;
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
