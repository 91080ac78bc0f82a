//! Tests what happens to sessions when the conditions of their target change.

use super::logins::{Gated, status};
use super::{Client, OPEN_TARGET, login_text, memory, options, serve};
use crate::server::{Server, ServerHandle};
use crate::targets::{EndedSession, FixedTargets, Grant, TargetAccess};
use crate::wire::pdu::response;
use std::io::Write;
use std::sync::Arc;

fn only(names: &[&str]) -> TargetAccess {
    TargetAccess::from(Grant {
        initiators: Some(names.iter().map(|name| (*name).to_owned()).collect()),
        chap: None,
    })
}

fn targets(access: TargetAccess) -> FixedTargets {
    FixedTargets::default().with(OPEN_TARGET, Arc::new(memory()), access)
}

fn serve_gated(targets: FixedTargets) -> (Arc<Gated>, ServerHandle) {
    let targets = Arc::new(Gated::new(targets));
    targets.allow(usize::MAX);
    let address = "127.0.0.1:0".parse().unwrap();
    let server = Server::bind(address, targets.clone(), options()).unwrap();
    (targets, server.start().unwrap())
}

fn request(initiator: &str) -> Vec<u8> {
    login_text(&[("InitiatorName", initiator), ("TargetName", OPEN_TARGET)])
}

#[test]
fn initiators_that_may_no_longer_use_a_target_are_ended_and_others_are_not() {
    let (table, server) = serve_gated(targets(only(&["iqn.x:a", "iqn.x:b"])));
    let mut stays = Client::enter(&server, &request("iqn.x:a"));
    let mut goes = Client::enter(&server, &request("iqn.x:b"));
    assert_eq!(server.closer().end_unadmitted(), []);
    table.set(targets(only(&["iqn.x:a"])));
    let ended = EndedSession {
        initiator: "iqn.x:b".to_owned(),
        target: Some(OPEN_TARGET.to_owned()),
    };
    assert_eq!(server.closer().end_unadmitted(), [ended]);
    assert_eq!(server.sessions(OPEN_TARGET), 1);
    assert!(goes.receive().is_none(), "ended");
    assert_eq!(stays.test_unit_ready(7), 0);
    let mut again = Client::connect(&server);
    again.stream.write_all(&request("iqn.x:b")).unwrap();
    assert_eq!(status(&mut again), 0x0202);
    // The caller that removes a target closes it.
    table.set(FixedTargets::default());
    assert_eq!(server.closer().end_unadmitted(), []);
    assert!(server.stop());
}

#[test]
fn a_login_that_began_under_other_conditions_is_not_confirmed() {
    let (table, server) = serve_gated(targets(only(&["iqn.x:a"])));
    table.allow(0);
    let mut client = Client::connect(&server);
    client.stream.write_all(&request("iqn.x:a")).unwrap();
    table.wait_for_open();
    table.set(targets(only(&["iqn.x:b"])));
    table.allow(usize::MAX);
    let (answer, _) = client.receive().expect("an answer");
    assert_eq!(answer.operation(), response::LOGIN);
    assert_eq!(answer.u16_at::<36>(), 0x0202, "not authorized");
    assert_eq!(server.sessions(OPEN_TARGET), 0);
    assert!(server.stop());
}

#[test]
fn sessions_of_another_server_are_not_ended() {
    let server = serve(memory(), options());
    let shared = crate::ServerOptions {
        units: server.shared.options.units.clone(),
        ..options()
    };
    let closed = Arc::new(targets(only(&[])));
    let address = "127.0.0.1:0".parse().unwrap();
    let other = Server::bind(address, closed, shared).unwrap();
    let other = other.start().unwrap();
    let mut client = Client::login(&server);
    assert_eq!(other.closer().end_unadmitted(), []);
    assert_eq!(client.test_unit_ready(7), 0);
    assert!(server.stop() && other.stop());
}
