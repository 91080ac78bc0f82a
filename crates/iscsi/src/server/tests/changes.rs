//! Tests targets whose disk becomes another one.

use super::{Client, memory, options, ten};
use crate::fuzzing::OPEN_TARGET;
use crate::server::{Server, ServerHandle};
use crate::targets::{TargetAccess, TargetUnit, Targets};
use crate::wire::pdu::{PduHeader, request, response};
use parking_lot::Mutex;
use std::sync::Arc;
use volume::{Durability, RequestContext, Volume};

/// A volume and its identity.
type Identified = (Arc<dyn Volume>, Arc<[u8]>);

/// A target whose disk can be exchanged.
struct Changing(Mutex<Identified>);

impl Changing {
    fn change(&self, byte: u8) {
        let volume = memory();
        let context = RequestContext::default();
        let written = volume.write(context, 0, &[byte; 512], Durability::Durable);
        written.unwrap();
        *self.0.lock() = (Arc::new(volume), [byte].into());
    }
}

impl Targets for Changing {
    fn list(&self) -> Vec<(String, TargetAccess)> {
        vec![(OPEN_TARGET.to_owned(), TargetAccess::default())]
    }

    fn access(&self, _: &str) -> Option<TargetAccess> {
        Some(TargetAccess::default())
    }

    fn open(&self, _: &str) -> Option<Vec<TargetUnit>> {
        let (volume, identity) = self.0.lock().clone();
        Some(vec![TargetUnit {
            number: 0,
            volume,
            identity: Some(identity),
            reservations: None,
        }])
    }
}

fn serve() -> (Arc<Changing>, ServerHandle) {
    let targets = Arc::new(Changing(Mutex::new((Arc::new(memory()), [0].into()))));
    targets.change(1);
    let address = "127.0.0.1:0".parse().unwrap();
    let server = Server::bind(address, targets.clone(), options()).unwrap();
    (targets, server.start().unwrap())
}

fn first_byte(client: &mut Client) -> u8 {
    client.command(70, 0xc1, 512, &ten(0x28, 0, 1), &[]);
    let (answer, data) = client.receive().unwrap();
    assert_eq!(answer.operation(), response::DATA_IN);
    data[0]
}

fn register(client: &mut Client) {
    let list = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5];
    let list = [&list[..], &[0; 8]].concat();
    let cdb = [0x5f, 0, 0, 0, 0, 0, 0, 0, 24, 0];
    client.command(71, 0xa1, 24, &cdb, &list);
    assert_eq!(client.receive().unwrap().0.0[3], 0);
}

/// Length of the list of registered keys, bytes.
fn keys(client: &mut Client) -> u8 {
    client.command(72, 0xc1, 64, &[0x5e, 0, 0, 0, 0, 0, 0, 0, 64, 0], &[]);
    client.receive().unwrap().1[7]
}

fn serial(client: &mut Client) -> Vec<u8> {
    client.command(73, 0xc1, 64, &[0x12, 1, 0x80, 0, 64, 0], &[]);
    client.receive().unwrap().1
}

fn log_out(mut client: Client) {
    client.send(
        PduHeader::new(request::LOGOUT | 0x40, 0x80).with_tag(74),
        &[],
    );
    client.receive().unwrap();
    assert!(client.receive().is_none());
}

#[test]
fn a_remembered_unit_is_of_one_disk_and_does_not_hold_it() {
    let (targets, server) = serve();
    let mut client = Client::login(&server);
    register(&mut client);
    let old_serial = serial(&mut client);
    log_out(client);
    // The same disk again: its registrations are there.
    let mut client = Client::login(&server);
    assert_eq!((first_byte(&mut client), keys(&mut client)), (1, 8));
    assert_eq!(serial(&mut client), old_serial);
    log_out(client);
    let old = Arc::downgrade(&targets.0.lock().0);
    targets.change(2);
    // A login waits for the end of the older session of its port.
    let mut client = Client::login(&server);
    assert!(old.upgrade().is_none(), "the old disk is held");
    assert_eq!((first_byte(&mut client), keys(&mut client)), (2, 0));
    assert_ne!(serial(&mut client), old_serial);
    assert!(server.stop());
}

#[test]
fn a_new_session_ends_those_of_the_disk_before() {
    let (targets, server) = serve();
    let mut old = Client::login_from(&server, 1);
    assert_eq!(first_byte(&mut old), 1);
    targets.change(2);
    assert_eq!(first_byte(&mut old), 1);
    let mut new = Client::login_from(&server, 2);
    assert_eq!(first_byte(&mut new), 2);
    assert!(old.receive().is_none(), "closed");
    assert_eq!(first_byte(&mut new), 2);
    assert!(server.stop());
}

#[test]
fn closing_a_target_ends_deaf_sessions_with_all_that_they_sent() {
    let (_targets, server) = serve();
    let mut deaf = Client::login_from(&server, 1);
    // More than the sockets hold, so that a thread of the server waits for the initiator.
    let mut read = [0; 16];
    (read[0], read[12]) = (0x88, 0x08);
    for tag in 0..60 {
        deaf.command(tag, 0xc1, 1 << 20, &read, &[]);
    }
    deaf.command(61, 0xa1, 512, &ten(0x2a, 10, 1), &[0xee; 512]);
    assert_eq!(server.close_target(OPEN_TARGET), 1);
    assert_eq!(server.sessions(OPEN_TARGET), 0);
    assert!(server.stop());
}

#[test]
fn no_command_of_a_closed_target_is_executed() {
    let (targets, server) = serve();
    let mut client = Client::login_from(&server, 1);
    client.command(5, 0xa1, 512, &ten(0x2a, 0, 1), &[]);
    let (asks, _) = client.receive().unwrap();
    assert_eq!(asks.operation(), response::R2T);
    assert_eq!(server.close_target(OPEN_TARGET), 1);
    assert_eq!(server.sessions(OPEN_TARGET), 0);
    let mut after = [0; 1];
    let volume = targets.0.lock().0.clone();
    volume
        .read(RequestContext::default(), 0, &mut after)
        .unwrap();
    assert_eq!(after, [1]);
    assert!(server.stop());
}
