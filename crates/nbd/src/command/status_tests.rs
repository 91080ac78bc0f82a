//! Tests several contexts in one reply, and the choice among them.

use crate::exports::FixedExports;
use crate::test_client::{Client, session};
use crate::wire::constants::{chunk, command_flag as flag};
use crate::wire::cursor::Cursor;
use crate::wire::requests::Command;
use std::sync::Arc;
use volume::{Durability, MemoryVolume, RequestContext, Volume};

const SIZE: u64 = 1 << 20;

/// Starts a session with base:allocation (1) and the changes since "then" (2) and "now" (3).
fn serving_changes(volume: MemoryVolume, extended: bool) -> Client {
    let exports = Arc::new(FixedExports::default().with("disk", Arc::new(volume)));
    let (mut client, _thread, _) = session(exports, |_| {});
    client.greet(3);
    client.option(if extended { 11 } else { 8 }, &[]);
    client.option_replies();
    client.extended = extended;
    let mut data = vec![0, 0, 0, 0, 0, 0, 0, 3];
    for name in [
        "base:allocation",
        "qemu:dirty-bitmap:then",
        "qemu:dirty-bitmap:now",
    ] {
        data.extend((name.len() as u32).to_be_bytes());
        data.extend(name.as_bytes());
    }
    client.option(10, &data);
    assert_eq!(client.option_replies().len(), 4);
    client.go("");
    client
}

/// Identifiers and descriptors of contexts: length and state.
type Contexts = Vec<(u32, Vec<(u64, u64)>)>;

fn status(client: &mut Client) -> Contexts {
    status_or_error(client).unwrap()
}

/// Returns the contents of one reply.
fn status_or_error(client: &mut Client) -> Result<Contexts, u32> {
    let mut contexts = Vec::new();
    loop {
        let reply = client.reply(0);
        if reply.error != 0 {
            return Err(reply.error);
        }
        let mut cursor = Cursor::new(&reply.payload);
        let id = cursor.u32().unwrap();
        let mut list = Vec::new();
        if client.extended {
            assert_eq!(reply.kind, chunk::BLOCK_STATUS_EXT);
            let count = cursor.u32().unwrap();
            for _ in 0..count {
                list.push((cursor.u64().unwrap(), cursor.u64().unwrap()));
            }
        } else {
            assert_eq!(reply.kind, chunk::BLOCK_STATUS);
            while !cursor.is_empty() {
                let len = cursor.u32().unwrap().into();
                list.push((len, cursor.u32().unwrap().into()));
            }
        }
        assert!(cursor.is_empty());
        contexts.push((id, list));
        if reply.done {
            return Ok(contexts);
        }
    }
}

#[test]
fn changes_are_described_beside_allocation() {
    for extended in [false, true] {
        let volume = MemoryVolume::new(SIZE);
        volume.mark("then");
        let context = RequestContext::default();
        volume
            .write(context, 8192, &[1; 4096], Durability::Volatile)
            .unwrap();
        volume.mark("now");
        let mut client = serving_changes(volume.clone(), extended);
        client.ask(Command::BlockStatus, 0, 4096, 12_288);
        let allocation = (1, vec![(4096, 3), (4096, 0), (4096, 3)]);
        let then = (2, vec![(4096, 0), (4096, 1), (4096, 0)]);
        let expected = [allocation, then, (3, vec![(12_288, 0)])];
        assert_eq!(status(&mut client), expected);
        // An acknowledged change is reported, in the same session.
        assert_eq!(client.errno(Command::Trim, 0, 8192, 4096), 0);
        client.ask(Command::BlockStatus, flag::REQ_ONE, 8192, 12_288);
        let expected = [(1, (12_288, 3)), (2, (4096, 1)), (3, (4096, 1))];
        let expected = expected.map(|(id, one)| (id, vec![one]));
        assert_eq!(status(&mut client), expected);
        client.ask(Command::BlockStatus, 0, SIZE - 1, 2);
        assert_eq!(client.reply(0).error, 22);
    }
}

#[test]
fn a_payload_chooses_contexts() {
    let volume = MemoryVolume::new(1 << 40);
    volume.mark("then");
    volume.mark("now");
    let mut client = serving_changes(volume, true);
    let mut ask = |len: u64, ids: &[u32]| {
        let mut payload = len.to_be_bytes().to_vec();
        payload.extend(ids.iter().flat_map(|id| id.to_be_bytes()));
        let bytes = payload.len() as u64;
        client.ask(Command::BlockStatus, flag::PAYLOAD_LEN, 4096, bytes);
        client.send(&payload);
        status_or_error(&mut client)
    };
    let one = |id| Ok(vec![(id, vec![(1 << 35, 0)])]);
    assert_eq!(ask(1 << 35, &[2]), one(2));
    let both = vec![(3, vec![(100, 0)]), (1, vec![(100, 3)])];
    assert_eq!(ask(100, &[3, 1]), Ok(both));
    for ids in [&[][..], &[0], &[4], &[1, 1], &[1, 2, 3, 4]] {
        assert_eq!(ask(100, ids), Err(22), "{ids:?}");
    }
    assert_eq!(ask(0, &[1]), Err(22));
    assert_eq!(ask(1 << 40, &[1]), Err(22), "past the end");
    assert_eq!(ask(1 << 35, &[2]), one(2), "the connection lives");
}
