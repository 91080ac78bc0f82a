//! Runs the threads that serve one mounted file system. The program starts a session.
//!
//! Invariant: a reply is one system call. A thread passes its turn on before it serves a request
//! that may wait for a device, so it delays no other request while threads are left. The session
//! ends when the file system is unmounted, by any process.

use crate::device::{Device, Received};
use crate::dispatch::{Body, Outcome, dispatch, dispatch_now};
use crate::file_system::FileSystem;
use crate::leader::Leader;
use crate::negotiation::{Answer, REQUEST_BYTES_MAX, answer};
use crate::wire::constants::READ_BUFFER_BYTES_MIN;
use crate::wire::replies::{self, header};
use crate::wire::requests::{self, Operation, WRITE_BYTES};
use rustix::io::Errno;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// Options of a session.
#[derive(Clone, Copy, Debug)]
pub struct SessionOptions {
    /// Number of threads: requests that may wait for a device at once.
    pub threads: usize,
    /// Writes may come.
    pub writes: bool,
    /// The kernel enforces the ACLs in the files' attributes.
    pub enforce_acls: bool,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            threads: 16,
            writes: true,
            enforce_acls: false,
        }
    }
}

/// Reason why a session could not begin or continue.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The kernel's FUSE is of Linux 3.14 or older.
    #[error("the FUSE of this kernel is too old")]
    KernelTooOld,
    /// The kernel did not speak the protocol.
    #[error("the kernel did not start the FUSE session correctly")]
    Protocol,
    /// The device failed.
    #[error("cannot use /dev/fuse: {}", units::reason(&(*.0).into()))]
    Device(Errno),
    /// No thread could be started.
    #[error("cannot start threads: {}", units::reason(.0))]
    Threads(io::Error),
}

/// A served file system.
pub struct Session {
    threads: Vec<JoinHandle<Result<(), Errno>>>,
}

impl Session {
    /// Agrees with the kernel and starts the threads.
    pub fn start(
        device: Device,
        files: Arc<dyn FileSystem>,
        options: &SessionOptions,
    ) -> Result<Self, SessionError> {
        let served = Arc::new(Served {
            device,
            files,
            leader: Leader::default(),
        });
        let mut threads = Vec::new();
        if !agree(&served.device, options)? {
            return Ok(Self { threads });
        }
        for _ in 0..options.threads.max(1) {
            let served = Arc::clone(&served);
            let buffer_bytes = buffer_bytes(options);
            let thread = thread::Builder::new().name("fuse".to_owned());
            match thread.spawn(move || served.serve(buffer_bytes)) {
                Ok(handle) => threads.push(handle),
                Err(error) if threads.is_empty() => return Err(SessionError::Threads(error)),
                Err(_) => break,
            }
        }
        Ok(Self { threads })
    }

    /// Returns when the file system is not mounted any more.
    pub fn wait(self) -> Result<(), SessionError> {
        let mut result = Ok(());
        for thread in self.threads {
            // A panic in the file system is caught when it happens.
            if let Ok(Err(error)) = thread.join() {
                result = Err(SessionError::Device(error));
            }
        }
        result
    }
}

fn buffer_bytes(options: &SessionOptions) -> usize {
    match options.writes {
        true => REQUEST_BYTES_MAX as usize + requests::HEADER_BYTES + WRITE_BYTES,
        false => READ_BUFFER_BYTES_MIN,
    }
}

/// Answers the first request. Returns false when the file system was unmounted before.
fn agree(device: &Device, options: &SessionOptions) -> Result<bool, SessionError> {
    let mut buffer = vec![0; READ_BUFFER_BYTES_MIN.max(buffer_bytes(options))];
    loop {
        let len = match device.receive(&mut buffer).map_err(SessionError::Device)? {
            Received::Unmounted => return Ok(false),
            Received::Request(len) => len,
        };
        let bytes = buffer.get(..len).unwrap_or_default();
        let Some((asked, Operation::Init(offer))) = requests::decode(bytes) else {
            return Err(SessionError::Protocol);
        };
        let mut body = Vec::new();
        let (agreement, last) = match answer(&offer, options.writes, options.enforce_acls) {
            Answer::Agreed(agreement) => (agreement, true),
            Answer::AskAgain(agreement) => (agreement, false),
            Answer::TooOld => {
                let _ = reply(device, asked.unique, Err(Errno::PROTO), &[]);
                return Err(SessionError::KernelTooOld);
            }
        };
        replies::agreement(&mut body, &agreement);
        reply(device, asked.unique, Ok(()), &body).map_err(SessionError::Device)?;
        if last {
            return Ok(true);
        }
    }
}

/// State that the threads share.
struct Served {
    device: Device,
    files: Arc<dyn FileSystem>,
    leader: Leader,
}

impl Served {
    /// Serves requests one by one until the end, on one thread.
    fn serve(&self, buffer_bytes: usize) -> Result<(), Errno> {
        let mut buffer = vec![0; buffer_bytes];
        let mut body = Body::default();
        loop {
            let mut leader = Some(self.leader.take());
            while leader.is_some() {
                let Received::Request(len) = self.device.receive(&mut buffer)? else {
                    return Ok(());
                };
                let bytes = buffer.get(..len).unwrap_or_default();
                let Some((asked, operation)) = requests::decode(bytes) else {
                    if let Some(asked) = requests::decode_header(bytes) {
                        reply(&self.device, asked.unique, Err(Errno::INVAL), &[])?;
                    }
                    continue;
                };
                let now = dispatch_now(&*self.files, &asked, &operation, &mut body);
                let outcome = now.unwrap_or_else(|| {
                    leader = None;
                    dispatch(&*self.files, &asked, &operation, &mut body)
                });
                if let Outcome::Reply(result) = outcome {
                    reply(&self.device, asked.unique, result, body.as_bytes())?;
                }
            }
        }
    }
}

fn reply(
    device: &Device,
    unique: u64,
    result: Result<(), Errno>,
    body: &[u8],
) -> Result<(), Errno> {
    let sent = match result {
        Ok(()) => device.send(&[&header(unique, 0, body.len()), body]),
        Err(error) => device.send(&[&header(unique, -error.raw_os_error(), 0)]),
    };
    match sent {
        // The calling process ended; or the session did, which the next read reports.
        Err(Errno::NOENT | Errno::NODEV) => Ok(()),
        // The kernel refused this reply. Without another one the process would wait for ever.
        Err(Errno::INVAL) if result.is_ok() => reply(device, unique, Err(Errno::IO), &[]),
        sent => sent,
    }
}

#[cfg(test)]
mod tests;
