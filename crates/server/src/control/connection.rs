//! Serves one client: checks its user, reads its request, and runs its command or lends it I/O
//! grants. The acceptor calls [`serve`].
//!
//! Invariant: only the server's user and root are served. A command uses two threads: one runs it
//! in the client's working directory, the other receives wishes and treats the client's end as a
//! wish to stop. The client's descriptors are closed before its exit code is sent. A client with
//! leases uses one thread. Such clients cannot use up all connections, so commands still get in.

use super::commands::Commands;
use super::grant_server;
use super::view::View;
use super::wire::{CommandAnswer, CommandRequest, Descriptors, Opening, Wish};
use parking_lot::{Condvar, Mutex};
use rustix::fs::Mode;
use rustix::net::sockopt::socket_peercred;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use terminal::command_context::CommandContext;
use terminal::environment::Environment;
use terminal::interrupt::Interrupt;

const CONNECTIONS_MAX: usize = 128;
/// Maximum number of clients with leases, out of all connections.
const LEASES_MAX: usize = 64;
const TOO_MANY: &str = "the server of this pool has too many clients; try again later";
/// Exit code of a command that panicked: a general failure.
const PANICKED: u8 = 1;
/// Time limit for a client's request.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);

/// The connected clients of a server.
#[derive(Default)]
pub struct Connections {
    open: Mutex<Open>,
    /// Notified when a client ends.
    ended: Condvar,
}

#[derive(Default)]
struct Open {
    number: u64,
    stopping: bool,
    interrupts: BTreeMap<u64, Interrupt>,
    /// Numbers of the clients that read the pool themselves.
    leases: BTreeSet<u64>,
}

impl Connections {
    /// Returns the number of clients without leases: running commands and clients that have not
    /// sent their request yet.
    pub fn count(&self) -> usize {
        let open = self.open.lock();
        open.interrupts.len() - open.leases.len()
    }

    /// Asks every command to stop, and refuses new clients.
    pub fn stop(&self) {
        let mut open = self.open.lock();
        open.stopping = true;
        open.interrupts.values().for_each(Interrupt::request);
    }

    /// Waits until a client ends, at most `limit`.
    pub fn wait_for_one(&self, limit: Duration) {
        self.ended.wait_for(&mut self.open.lock(), limit);
    }

    /// Waits until all clients have ended, at most until `until`. Returns false if the time ran
    /// out.
    pub fn wait_for_all(&self, until: Instant) -> bool {
        let mut open = self.open.lock();
        while !open.interrupts.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            self.ended.wait_for(&mut open, left);
        }
        true
    }

    /// Registers a client. An error is the reason for the refusal, empty if the server is ending.
    fn permit(self: &Arc<Self>) -> Result<Permit, String> {
        let interrupt = Interrupt::of_command().map_err(|e| e.to_string())?;
        let mut open = self.open.lock();
        if open.stopping {
            return Err(String::new());
        }
        if open.interrupts.len() >= CONNECTIONS_MAX {
            return Err(TOO_MANY.to_owned());
        }
        open.number += 1;
        let number = open.number;
        open.interrupts.insert(number, interrupt.clone());
        drop(open);
        Ok(Permit {
            connections: Arc::clone(self),
            number,
            interrupt,
        })
    }
}

/// Registration of a client. Dropping it ends the registration.
struct Permit {
    connections: Arc<Connections>,
    number: u64,
    interrupt: Interrupt,
}

impl Permit {
    /// Registers the client as one with leases.
    fn lease(&self) -> Result<(), String> {
        let mut open = self.connections.open.lock();
        if open.leases.len() >= LEASES_MAX {
            return Err(TOO_MANY.to_owned());
        }
        open.leases.insert(self.number);
        Ok(())
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut open = self.connections.open.lock();
        open.interrupts.remove(&self.number);
        open.leases.remove(&self.number);
        drop(open);
        self.connections.ended.notify_all();
    }
}

/// Serves a new client on its own threads. A refused client receives the reason. If the server is
/// ending, the connection is closed without an answer.
pub fn serve(stream: UnixStream, connections: &Arc<Connections>, commands: &Arc<dyn Commands>) {
    let permit = match connections.permit() {
        Ok(permit) => permit,
        Err(why) if why.is_empty() => return,
        Err(why) => {
            let _ = CommandAnswer::Refused(why).send(&stream);
            return;
        }
    };
    let commands = Arc::clone(commands);
    let name = format!("client-{}", permit.number);
    let _ = thread::Builder::new().name(name).spawn(move || {
        let interrupt = permit.interrupt.clone();
        let served = match begin(&stream, &commands) {
            Ok(Opening::Command(request, descriptors)) => {
                let client = Client {
                    request,
                    descriptors,
                    process: process_of(&stream),
                };
                attend(&stream, Arc::clone(&commands), client, &interrupt);
                Ok(())
            }
            Ok(Opening::Leases(hello)) => permit.lease().and_then(|()| {
                let queue = commands.device();
                grant_server::serve_leases(&stream, hello.flow, queue, &interrupt)
                    .map_err(|e| e.to_string())
            }),
            Err(why) => Err(why),
        };
        if let Err(why) = served {
            let _ = CommandAnswer::Refused(why).send(&stream);
        }
        // Returned last: who stops the server finds no more users of its state.
        drop(commands);
        drop(permit);
    });
}

/// Checks the client's user, receives its request and has it admitted.
fn begin(stream: &UnixStream, commands: &Arc<dyn Commands>) -> Result<Opening, String> {
    let words = |e: io::Error| format!("the server of this pool failed: {}", units::reason(&e));
    stream.set_nonblocking(false).map_err(words)?;
    let peer = socket_peercred(stream).map_err(|e| words(e.into()))?;
    if !peer.uid.is_root() && peer.uid != rustix::process::geteuid() {
        return Err(
            "the server of this pool runs as another user; run this command as that user"
                .to_owned(),
        );
    }
    let opening = Opening::receive(stream, REQUEST_LIMIT).map_err(words)?;
    stream.set_read_timeout(None).map_err(words)?;
    if let Opening::Command(request, _) = &opening {
        // Asked anew each time: what is mounted changes.
        let own = View::own().map_err(words)?;
        commands.admit(request, &own)?;
    }
    Ok(opening)
}

/// A client and its admitted request.
struct Client {
    request: CommandRequest,
    descriptors: Descriptors,
    /// Number of its process, if this process can see it.
    process: Option<u32>,
}

/// Returns the number of the process at the other end. `None` if it has none in here.
fn process_of(stream: &UnixStream) -> Option<u32> {
    let pid = socket_peercred(stream).ok()?.pid.as_raw_pid();
    u32::try_from(pid).ok().filter(|pid| *pid > 0)
}

/// Runs the command and receives the client's wishes until the command has ended.
fn attend(stream: &UnixStream, commands: Arc<dyn Commands>, client: Client, interrupt: &Interrupt) {
    let Ok(answers) = stream.try_clone() else {
        return;
    };
    let for_command = interrupt.clone();
    let runner = thread::Builder::new()
        .name("command".to_owned())
        .spawn(move || {
            let answer = match enter(&client.request, &client.descriptors.directory) {
                Ok(()) => {
                    // If the client has ended, the loop below notices it.
                    let _ = CommandAnswer::Started.send(&answers);
                    CommandAnswer::Ended(run(&*commands, client, for_command))
                }
                Err(e) => CommandAnswer::Refused(format!(
                    "the server of this pool cannot open your working directory: {}",
                    units::reason(&e)
                )),
            };
            let _ = answer.send(&answers);
            // Ends the loop below, which waits for wishes.
            let _ = answers.shutdown(Shutdown::Read);
        });
    let Ok(runner) = runner else {
        return;
    };
    loop {
        match Wish::receive(stream) {
            Some(Wish::Stop) => interrupt.request(),
            Some(Wish::Report) => interrupt.request_report(),
            None => break,
        }
    }
    interrupt.request();
    let _ = runner.join();
}

/// Runs the command. A panic fails this command and leaves the server alone.
fn run(commands: &dyn Commands, client: Client, interrupt: Interrupt) -> u8 {
    let Client {
        request,
        descriptors,
        process,
    } = client;
    let environment = Environment::from_pairs(request.environment.iter().cloned());
    let mut context = CommandContext::new(environment, interrupt, descriptors.streams);
    context.client = process;
    let run = std::panic::AssertUnwindSafe(|| commands.run(context, request));
    std::panic::catch_unwind(run).unwrap_or(PANICKED)
}

/// Gives this thread, and the threads that it starts, the client's directory and mode mask.
fn enter(request: &CommandRequest, directory: &OwnedFd) -> io::Result<()> {
    use rustix::thread::UnshareFlags;
    // The call is deprecated because its other flags are unsound. `FS` separates only the working
    // directory, the root and the mode mask.
    #[expect(deprecated)]
    let separated = rustix::thread::unshare(UnshareFlags::FS);
    if let Err(e) = separated {
        // Some containers forbid the call. In the server's own directory, nothing needs to be
        // changed.
        let wanted = rustix::fs::fstat(directory)?;
        let here = std::fs::metadata(".")?;
        return match (wanted.st_dev, wanted.st_ino) == (here.dev(), here.ino()) {
            true => Ok(()),
            false => Err(e.into()),
        };
    }
    rustix::process::fchdir(directory)?;
    rustix::process::umask(Mode::from_raw_mode(request.umask));
    Ok(())
}
