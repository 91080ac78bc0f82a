//! Logins while a target takes its time to open: what a confirmed login promises.

use super::{Client, LIMIT, OPEN_TARGET, login_request, memory, options};
use crate::server::{Server, ServerHandle};
use crate::targets::{Denied, FixedTargets, Grant, TargetAccess, TargetUnit, Targets};
use crate::wire::pdu::response;
use parking_lot::{Condvar, Mutex};
use std::io::{ErrorKind, Write};
use std::sync::Arc;
use volume::MemoryVolume;

/// Targets whose opens wait until the test lets them go on.
pub(super) struct Gated {
    targets: Mutex<FixedTargets>,
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    /// Number of opens that have begun.
    begun: usize,
    /// Number of opens that may end.
    allowed: usize,
    is_removed: bool,
}

impl Gated {
    pub(super) fn new(targets: FixedTargets) -> Self {
        Self {
            targets: Mutex::new(targets),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    pub(super) fn set(&self, targets: FixedTargets) {
        *self.targets.lock() = targets;
    }

    /// Lets this many opens end, of those that have begun or will.
    pub(super) fn allow(&self, opens: usize) {
        self.change(|state| state.allowed = opens);
    }

    pub(super) fn wait_for_open(&self) {
        self.wait(|state| state.begun > 0);
    }

    fn wait(&self, until: impl Fn(&GateState) -> bool) {
        let mut state = self.state.lock();
        while !until(&state) {
            let is_late = self.changed.wait_for(&mut state, LIMIT).timed_out();
            assert!(!is_late, "nothing happens");
        }
    }

    fn change(&self, change: impl FnOnce(&mut GateState)) {
        change(&mut self.state.lock());
        self.changed.notify_all();
    }
}

impl Targets for Gated {
    fn list(&self) -> Vec<(String, TargetAccess)> {
        self.targets.lock().list()
    }

    fn access(&self, name: &str) -> Option<TargetAccess> {
        self.targets.lock().access(name)
    }

    fn open(&self, name: &str) -> Option<Vec<TargetUnit>> {
        let mut number = 0;
        self.change(|state| {
            state.begun += 1;
            number = state.begun;
        });
        self.wait(|state| state.allowed >= number);
        let is_removed = self.state.lock().is_removed;
        self.targets.lock().open(name).filter(|_| !is_removed)
    }
}

fn gated() -> (Arc<Gated>, ServerHandle) {
    let volume = Arc::new(memory());
    let targets = FixedTargets::default().with(OPEN_TARGET, volume, TargetAccess::default());
    let targets = Arc::new(Gated::new(targets));
    let address = "127.0.0.1:0".parse().unwrap();
    let server = Server::bind(address, targets.clone(), options()).unwrap();
    (targets, server.start().unwrap())
}

fn request_login(server: &ServerHandle) -> Client {
    let mut client = Client::connect(server);
    client.stream.write_all(&login_request()).unwrap();
    client
}

pub(super) fn status(client: &mut Client) -> u16 {
    let (answer, _) = client.receive().expect("an answer");
    assert_eq!(answer.operation(), response::LOGIN);
    answer.u16_at::<36>()
}

#[test]
fn a_login_is_confirmed_when_the_session_is_registered_and_the_target_is_open() {
    let (targets, server) = gated();
    let mut client = request_login(&server);
    targets.wait(|state| state.begun == 1);
    assert_eq!(server.sessions(OPEN_TARGET), 1, "whoever opens is known");
    client.stream.set_nonblocking(true).unwrap();
    let early = client.stream.peek(&mut [0]);
    assert_eq!(early.unwrap_err().kind(), ErrorKind::WouldBlock);
    client.stream.set_nonblocking(false).unwrap();
    targets.change(|state| state.allowed = 1);
    assert_eq!(status(&mut client), 0);
    assert_eq!(server.sessions(OPEN_TARGET), 1);
    client.settle();
    assert!(server.stop());
}

#[test]
fn the_newer_of_two_logins_of_one_port_stays() {
    let (targets, server) = gated();
    let mut old = request_login(&server);
    targets.wait(|state| state.begun == 1);
    let mut new = request_login(&server);
    assert!(old.receive().is_none(), "ended, and never confirmed");
    targets.change(|state| state.allowed = 2);
    assert_eq!(status(&mut new), 0);
    assert_eq!(server.sessions(OPEN_TARGET), 1);
    new.settle();
    assert!(server.stop());
}

#[test]
fn a_login_to_a_target_that_is_removed_meanwhile_is_refused() {
    let (targets, server) = gated();
    let mut client = request_login(&server);
    targets.wait(|state| state.begun == 1);
    targets.change(|state| (state.is_removed, state.allowed) = (true, 1));
    assert_eq!(status(&mut client), 0x0203, "not found");
    assert_eq!(server.sessions(OPEN_TARGET), 0);
    assert!(client.receive().is_none());
    assert!(server.stop());
}

#[test]
fn a_login_during_the_close_of_its_target_is_not_confirmed() {
    let (targets, server) = gated();
    let mut client = request_login(&server);
    targets.wait(|state| state.begun == 1);
    // The close asks nothing of an initiator that is not logged in.
    assert_eq!(server.close_target(OPEN_TARGET), 1);
    targets.change(|state| state.allowed = 1);
    assert!(client.receive().is_none());
    assert!(server.stop());
}

/// Targets that keep what was reported of denied logins.
struct Logging {
    targets: FixedTargets,
    log: Mutex<Vec<String>>,
}

impl Targets for Logging {
    fn list(&self) -> Vec<(String, TargetAccess)> {
        self.targets.list()
    }

    fn access(&self, name: &str) -> Option<TargetAccess> {
        self.targets.access(name)
    }

    fn open(&self, name: &str) -> Option<Vec<TargetUnit>> {
        self.targets.open(name)
    }

    fn denied(&self, denied: &Denied<'_>) {
        let Denied {
            address,
            initiator,
            target,
            reason,
            unreported,
        } = denied;
        let names = format!("{initiator:?} {target:?}");
        let line = format!("{address} {names} {reason} {unreported}");
        self.log.lock().push(line);
    }
}

/// Tries to log in and returns the status and the new lines of the log, without the address.
fn denied(access: TargetAccess, size_bytes: u64, logins: usize) -> (u16, Vec<String>) {
    let volume = Arc::new(MemoryVolume::new(size_bytes));
    let targets = Arc::new(Logging {
        targets: FixedTargets::default().with(OPEN_TARGET, volume, access),
        log: Mutex::default(),
    });
    let address = "127.0.0.1:0".parse().unwrap();
    let server = Server::bind(address, targets.clone(), options()).unwrap();
    let server = server.start().unwrap();
    let mut last = 0;
    let mut lines = Vec::new();
    for _ in 0..logins {
        let mut client = request_login(&server);
        let address = client.stream.local_addr().unwrap().to_string();
        last = status(&mut client);
        for line in targets.log.lock().drain(..) {
            lines.push(line.strip_prefix(&address).unwrap().to_owned());
        }
    }
    assert!(server.stop());
    (last, lines)
}

#[test]
fn denied_logins_are_reported_and_a_flood_does_not_fill_the_log() {
    let access = TargetAccess::from(Grant {
        initiators: Some(vec!["iqn.somebody-else".to_owned()]),
        chap: None,
    });
    let (status, lines) = denied(access, 1 << 20, 100);
    assert_eq!(status, 0x0202);
    assert!((1..=20).contains(&lines.len()), "{} lines", lines.len());
    let line = &lines[0];
    assert!(
        line.contains("Some(\"iqn.") && line.contains(OPEN_TARGET),
        "{line}"
    );
    assert!(line.contains("list of initiators"), "{line}");
}

#[test]
fn a_volume_with_part_of_a_block_is_refused_with_words() {
    let (status, lines) = denied(TargetAccess::default(), 100_000, 1);
    assert_eq!(status, 0x0203, "not found");
    assert!(
        lines[0].contains("100000 bytes, is no multiple of 512"),
        "{lines:?}"
    );
    assert_eq!(
        denied(TargetAccess::default(), 512 * 100, 1),
        (0, Vec::new())
    );
}
