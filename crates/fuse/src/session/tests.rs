//! Tests sessions against a socket in place of the kernel.

use super::{Session, SessionError, SessionOptions};
use crate::device::Device;
use crate::file_system::{Attributes, FileSystem, Node, Opened, SeekTarget, Time};
use crate::listing::Listing;
use crate::test_kernel::{offer, range, reply, request, word_at, words};
use crate::wire::constants::opcode;
use crate::wire::{Handle, NodeId};
use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;
use rustix::net::sockopt::Timeout;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use volume::RequestContext;

const INVALID: i32 = -22;
const IO: i32 = -5;

/// Reads of node 2 wait for a device until they are released. Node 3 panics. Everything else is
/// quick.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
}

impl FileSystem for Gate {
    fn lookup(&self, _parent: NodeId, _name: &[u8]) -> Result<Node, Errno> {
        Err(Errno::NOENT)
    }
    fn attributes(&self, node: NodeId) -> Result<(Attributes, Duration), Errno> {
        assert_ne!(node, NodeId(3), "a panic on purpose");
        let attributes = Attributes::of_directory(node.0, Time::default());
        Ok((attributes, Duration::ZERO))
    }
    fn is_quick(&self, _node: NodeId) -> bool {
        true
    }
    fn is_cached(
        &self,
        _context: RequestContext,
        node: NodeId,
        _handle: Handle,
        _offset: u64,
        _len_bytes: u64,
    ) -> bool {
        node != NodeId(2)
    }
    fn open(&self, _node: NodeId, _writes: bool) -> Result<Opened, Errno> {
        Ok(Opened::default())
    }
    fn read(
        &self,
        _context: RequestContext,
        node: NodeId,
        _handle: Handle,
        _offset: u64,
        into: &mut [u8],
    ) -> Result<usize, Errno> {
        let mut open = self.open.lock();
        while node == NodeId(2) && !*open {
            self.opened.wait(&mut open);
        }
        into.fill(node.0 as u8);
        Ok(into.len())
    }
    fn seek(
        &self,
        _context: RequestContext,
        _node: NodeId,
        _handle: Handle,
        _offset: u64,
        _target: SeekTarget,
    ) -> Result<u64, Errno> {
        Err(Errno::NXIO)
    }
    fn list(
        &self,
        _node: NodeId,
        _handle: Handle,
        _from: u64,
        _listing: &mut Listing<'_>,
    ) -> Result<(), Errno> {
        Ok(())
    }
}

struct Kernel(OwnedFd);

impl Kernel {
    fn pair() -> (Self, Device) {
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        // A test that waits too long fails.
        let limit = Some(Duration::from_secs(60));
        rustix::net::sockopt::set_socket_timeout(&ours, Timeout::Recv, limit).unwrap();
        (Self(ours), Device::new(theirs))
    }

    fn send(&self, opcode: u32, node: u64, unique: u64, body: &[u8]) {
        let bytes = request(opcode, NodeId(node), unique, body);
        assert_eq!(rustix::io::write(&self.0, &bytes), Ok(bytes.len()));
    }

    /// Returns error, unique and body of the next reply.
    fn receive(&self) -> (i32, u64, Vec<u8>) {
        let mut bytes = vec![0; 2 << 20];
        let len = rustix::io::read(&self.0, &mut bytes).unwrap();
        let (error, unique, body) = reply(&bytes[..len]);
        (error, unique, body.to_vec())
    }

    fn begin(threads: usize) -> (Self, Session, Arc<Gate>) {
        let (kernel, device) = Self::pair();
        kernel.send(opcode::INIT, 0, 1, &offer(38));
        let files = Arc::new(Gate::default());
        let options = SessionOptions {
            threads,
            ..SessionOptions::default()
        };
        let session = Session::start(device, files.clone(), &options).unwrap();
        let (error, unique, body) = kernel.receive();
        assert_eq!((error, unique, body.len()), (0, 1, 64));
        (kernel, session, files)
    }
}

#[test]
fn what_waits_holds_up_no_request_while_threads_are_left() {
    let (kernel, session, files) = Kernel::begin(3);
    kernel.send(opcode::READ, 2, 10, &range(0, 0, 100));
    kernel.send(opcode::READ, 2, 11, &range(0, 0, 200));
    for unique in 12..20 {
        kernel.send(opcode::READ, 4, unique, &range(0, 0, 4096));
        let (error, found, body) = kernel.receive();
        assert_eq!((error, found, body), (0, unique, vec![4; 4096]));
    }
    *files.open.lock() = true;
    files.opened.notify_all();
    let replies: BTreeMap<u64, usize> = (0..2)
        .map(|_| kernel.receive())
        .map(|(_, unique, body)| (unique, body.len()))
        .collect();
    assert_eq!(replies, BTreeMap::from([(10, 100), (11, 200)]));
    drop(kernel);
    session.wait().unwrap();
}

#[test]
fn a_panic_is_one_failed_request() {
    let (kernel, session, _) = Kernel::begin(1);
    kernel.send(opcode::GETATTR, 3, 5, &[0; 16]);
    assert_eq!(kernel.receive(), (IO, 5, Vec::new()));
    kernel.send(opcode::GETATTR, 1, 6, &[0; 16]);
    let (error, unique, body) = kernel.receive();
    assert_eq!((error, unique, word_at(&body, 76)), (0, 6, 0o040_555));
    drop(kernel);
    session.wait().unwrap();
}

#[test]
fn what_is_malformed_or_unknown_is_refused() {
    let (kernel, session, _) = Kernel::begin(2);
    kernel.send(opcode::READ, 4, 5, &[0; 39]);
    assert_eq!(kernel.receive(), (INVALID, 5, Vec::new()));
    for (code, error) in [(opcode::MKDIR, -1), (opcode::FLUSH, -38), (999, -38)] {
        kernel.send(code, 4, 6, &[0; 64]);
        assert_eq!(kernel.receive(), (error, 6, Vec::new()));
    }
    // No path can contain this name.
    kernel.send(opcode::LOOKUP, 1, 7, b"a/b\0");
    assert_eq!(kernel.receive().0, INVALID);
    drop(kernel);
    session.wait().unwrap();
}

#[test]
fn beginnings() {
    let (kernel, device) = Kernel::pair();
    kernel.send(opcode::INIT, 0, 1, &words(&[6, 1, 0, 0]));
    let files: Arc<dyn FileSystem> = Arc::new(Gate::default());
    let options = SessionOptions::default();
    let started = Session::start(device, files.clone(), &options);
    assert!(matches!(started, Err(SessionError::KernelTooOld)));
    assert_eq!(kernel.receive().0, -71);

    let (kernel, device) = Kernel::pair();
    kernel.send(opcode::INIT, 0, 1, &words(&[8, 0, 0, 0]));
    kernel.send(opcode::INIT, 0, 2, &offer(23));
    let session = Session::start(device, files.clone(), &options).unwrap();
    assert_eq!((kernel.receive().1, kernel.receive().1), (1, 2));
    drop(kernel);
    session.wait().unwrap();

    let (kernel, device) = Kernel::pair();
    kernel.send(opcode::GETATTR, 1, 1, &[0; 16]);
    let started = Session::start(device, files.clone(), &options);
    assert!(matches!(started, Err(SessionError::Protocol)));

    let (kernel, device) = Kernel::pair();
    drop(kernel);
    Session::start(device, files, &options)
        .unwrap()
        .wait()
        .unwrap();
}
