//! Tests rules of the protocol: sizes that an initiator declares, tags, digests of headers, keys.

use super::gate::held;
use super::{Client, LIMIT, OPEN_TARGET, login_text, memory, options, serve, ten};
use crate::portals::{Portal, Portals};
use crate::server::{Server, ServerOptions};
use crate::targets::{FixedTargets, Grant, TargetAccess};
use crate::wire::digest::digest;
use crate::wire::pdu::{NO_TAG, PduHeader, request, response};
use crate::wire::text;
use std::io::Write;
use std::sync::Arc;
use volume::Operation;

fn text_request(pairs: &[(&str, &str)], number: u32) -> (PduHeader, Vec<u8>) {
    let mut data = Vec::new();
    pairs
        .iter()
        .for_each(|(key, value)| text::push(&mut data, key, value));
    let header = PduHeader::new(request::TEXT, 0x80)
        .with_tag(300)
        .with_u32::<20>(NO_TAG)
        .with_u32::<24>(number);
    (header, data)
}

impl Client {
    /// Sends a text request. Returns the keys of the answer, or `None` if it is rejected.
    fn negotiate(&mut self, pairs: &[(&str, &str)]) -> Option<String> {
        let (header, data) = text_request(pairs, self.number);
        self.number += 1;
        self.send(header, &data);
        let (answer, data) = self.receive().expect("an answer");
        match answer.operation() {
            response::TEXT => Some(String::from_utf8(data).unwrap()),
            response::REJECT => None,
            other => panic!("{other:x}"),
        }
    }

    /// Returns the length of the largest data segment of a read.
    fn largest_segment(&mut self, blocks: u8) -> usize {
        let len = 512 * u32::from(blocks);
        self.command(70, 0xc1, len, &ten(0x28, 0, blocks), &[]);
        let (mut largest, mut left) = (0, len as usize);
        while left > 0 {
            let (answer, data) = self.receive().unwrap();
            assert_eq!(answer.operation(), response::DATA_IN);
            largest = largest.max(data.len());
            left -= data.len();
        }
        largest
    }
}

#[test]
fn data_in_obeys_the_newest_declared_length() {
    let server = serve(memory(), options());
    let mut client = Client::login(&server);
    assert_eq!(client.largest_segment(64), 8192);
    for bytes in [1024, 16_384, 512] {
        let declared = bytes.to_string();
        let answer = client.negotiate(&[("MaxRecvDataSegmentLength", &declared)]);
        assert_eq!(answer.as_deref(), Some(""), "a declaration has no answer");
        assert_eq!(client.largest_segment(64), bytes);
    }
    let refused = client.negotiate(&[("MaxRecvDataSegmentLength", "511")]);
    assert_eq!(
        refused.as_deref(),
        Some("MaxRecvDataSegmentLength=Reject\0")
    );
    assert_eq!(client.largest_segment(64), 512);
    assert!(server.stop());
}

#[test]
fn a_key_is_sent_once_in_a_negotiation() {
    let server = serve(memory(), options());
    let all = [("SendTargets", "")];
    let mut client = Client::login(&server);
    let once = client.negotiate(&all).unwrap();
    assert_eq!(once.matches("TargetName=").count(), 1);
    // Another negotiation.
    assert_eq!(client.negotiate(&all), Some(once));
    assert_eq!(client.negotiate(&all.repeat(126)), None);
    assert!(client.receive().is_none(), "dropped");
    assert!(server.stop());
}

/// Addresses and groups behind a translation are the user's; else they are those of the connection.
#[test]
fn discovery_names_the_portals_that_were_given() {
    let listed = |portals: &[&str]| {
        let portals: Vec<Portal> = portals.iter().map(|p| p.parse().unwrap()).collect();
        let options = ServerOptions {
            portals: Portals::new(&portals).unwrap(),
            ..options()
        };
        let server = serve(memory(), options);
        let address = server.address().unwrap();
        let mut client = Client::connect(&server);
        let names = [("InitiatorName", "iqn.x:us"), ("SessionType", "Discovery")];
        client.stream.write_all(&login_text(&names)).unwrap();
        assert_eq!(client.receive().unwrap().0.u16_at::<36>(), 0);
        let list = client.negotiate(&[("SendTargets", "All")]).unwrap();
        let names = [("InitiatorName", "iqn.x:us"), ("TargetName", OPEN_TARGET)];
        let mut client = Client::connect(&server);
        client.stream.write_all(&login_text(&names)).unwrap();
        let group = String::from_utf8(client.receive().unwrap().1).unwrap();
        client.settle();
        client.command(7, 0xc1, 252, &[0x12, 1, 0x83, 0, 252, 0], &[]);
        let page = client.receive().unwrap().1;
        let port = String::from_utf8_lossy(&page).into_owned();
        assert!(server.stop());
        (address, list, group, port)
    };
    let (address, list, group, port) = listed(&[]);
    let target = format!("TargetName={OPEN_TARGET}\0");
    assert_eq!(list, format!("{target}TargetAddress={address},1\0"));
    assert!(group.contains("TargetPortalGroupTag=1\0") && port.contains(",t,0x0001"));
    let (_, list, group, port) = listed(&["san.example:3260,300", "[2001:db8::7]:860,300"]);
    let addresses = "TargetAddress=san.example:3260,300\0TargetAddress=[2001:db8::7]:860,300\0";
    assert_eq!(list, format!("{target}{addresses}"));
    assert!(group.contains("TargetPortalGroupTag=300\0") && port.contains(",t,0x012c"));
}

/// The answer to the first of two commands of one tag would end both.
#[test]
fn a_tag_names_one_command() {
    let (slow, gate, comes) = held(memory(), Operation::Read);
    let server = serve(slow, options());
    let mut client = Client::login(&server);
    // Two that arrive together go to workers.
    let both = [7, 8].map(|tag| {
        let mut header = PduHeader::new(request::COMMAND, 0xc1)
            .with_tag(tag)
            .with_u32::<20>(512)
            .with_u32::<24>(tag - 7 + client.number);
        header.0[32..42].copy_from_slice(&ten(0x28, 0, 1));
        header.0
    });
    client.number += 2;
    client.stream.write_all(both.as_flattened()).unwrap();
    comes.recv_timeout(LIMIT).unwrap();
    client.command(7, 0xc1, 512, &ten(0x28, 0, 1), &[]);
    let (answer, _) = client.receive().unwrap();
    assert_eq!((answer.operation(), answer.0[2]), (response::REJECT, 4));
    gate.open();
    assert!(server.stop());
}

#[test]
fn data_for_another_unit_is_not_written() {
    let server = serve(memory(), options());
    let mut client = Client::login(&server);
    client.command(5, 0xa1, 512, &ten(0x2a, 10, 1), &[]);
    let (asks, _) = client.receive().unwrap();
    let data_out = PduHeader::new(request::DATA_OUT, 0x80)
        .with_tag(5)
        .with_u64::<8>(1 << 48)
        .with_u32::<20>(asks.u32_at::<20>());
    client.send(data_out, &[0xee; 512]);
    let (answer, _) = client.receive().unwrap();
    let check_condition = (response::COMMAND, 2);
    assert_eq!((answer.operation(), answer.0[3]), check_condition);
    client.command(6, 0xc1, 512, &ten(0x28, 10, 1), &[]);
    assert_eq!(client.receive().unwrap().1, [0; 512]);
    // The unit of data that was not asked for is reserved: any value is right.
    client.command(7, 0x21, 512, &ten(0x2a, 10, 1), &[]);
    let unasked = data_out.with_tag(7).with_u32::<20>(NO_TAG);
    client.send(unasked, &[0xee; 512]);
    assert_eq!(client.receive().unwrap().0.0[3], 0);
    assert!(server.stop());
}

#[test]
fn the_length_in_a_damaged_header_is_not_believed() {
    let server = serve(memory(), options());
    let names = [("InitiatorName", "iqn.x:us"), ("TargetName", OPEN_TARGET)];
    let text = [&names[..], &[("HeaderDigest", "CRC32C")]].concat();
    let mut client = Client::connect(&server);
    client.stream.write_all(&login_text(&text)).unwrap();
    assert_eq!(client.receive().unwrap().0.u16_at::<36>(), 0);
    let nop = PduHeader::new(request::NOP_OUT | 0x40, 0x80)
        .with_tag(1)
        .with_u32::<20>(NO_TAG);
    let digest = digest(&nop.0);
    // Data follows, says the damaged header. It never comes.
    let damaged = nop.with_data_bytes(8192);
    client.stream.write_all(&damaged.0).unwrap();
    client.stream.write_all(&digest).unwrap();
    assert!(client.receive().is_none(), "dropped");
    assert!(server.stop());
}

/// RFC 7143, 4.2.7.1: a name is the same in whatever case it is written.
#[test]
fn names_in_another_case_are_the_same_names() {
    let access = TargetAccess::from(Grant {
        initiators: Some(vec!["iqn.X:Us".to_owned()]),
        chap: None,
    });
    let shouted = OPEN_TARGET.to_uppercase();
    let targets = FixedTargets::default().with(&shouted, Arc::new(memory()), access);
    let address = "127.0.0.1:0".parse().unwrap();
    let server = Server::bind(address, Arc::new(targets), options()).unwrap();
    let server = server.start().unwrap();
    let text = [("InitiatorName", "iqn.x:us"), ("TargetName", OPEN_TARGET)];
    let mut old = Client::enter(&server, &login_text(&text));
    let text = [("InitiatorName", "IQN.x:US"), ("TargetName", &*shouted)];
    let mut new = Client::enter(&server, &login_text(&text));
    assert!(old.receive().is_none(), "an initiator port has one session");
    assert_eq!(server.sessions(OPEN_TARGET), 1);
    let listed = new.negotiate(&[("SendTargets", &shouted)]).unwrap();
    assert!(listed.starts_with(&format!("TargetName={OPEN_TARGET}\0")));
    assert!(server.stop());
}
