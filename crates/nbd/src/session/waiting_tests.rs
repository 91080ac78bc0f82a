//! Tests that other requests proceed while writes wait.

use crate::test_client::serving;
use crate::test_volume::Gated;
use crate::wire::constants::command_flag as flag;
use crate::wire::requests::Command;
use connections::End;
use volume::{Operation, RequestContext, Volume};

/// Changes wait; everything else is as in memory.
const STOPS: &[Operation] = &[Operation::Write, Operation::Discard, Operation::WriteZeroes];

/// Sends every second page's reads to the workers too.
fn every_second_page(at: u64) -> bool {
    (at / 4096).is_multiple_of(2)
}

/// 200 changes are in flight and wait: more than there are threads.
#[test]
fn reads_and_flushes_pass_writes_that_wait() {
    let volume = Gated::new(STOPS);
    let (mut client, thread, counters) = serving(volume.volume(every_second_page), &[8, 10]);
    let mut changes = Vec::new();
    for number in 0..200_u64 {
        let at = (1 << 20) + number * 4096;
        changes.push(match number % 4 {
            0 => client.ask(Command::Trim, 0, at, 4096),
            1 => client.ask(Command::WriteZeroes, 0, at, 4096),
            _ => {
                let fua = if number % 4 == 2 { flag::FUA } else { 0 };
                let cookie = client.ask(Command::Write, fua, at, 4096);
                client.send(&[number as u8 | 1; 4096]);
                cookie
            }
        });
    }
    volume.wait_for(16);
    for number in 0..100 {
        let read = client.ask(Command::Read, 0, number * 4096, 4096);
        assert_eq!(client.reply(0).cookie, read, "the read passes the writes");
        let status = client.ask(Command::BlockStatus, 0, number * 4096, 4096);
        assert_eq!(client.reply(0).cookie, status);
    }
    // A flush covers acknowledged writes, and there are none.
    let flush = client.ask(Command::Flush, 0, 0, 0);
    assert_eq!(client.reply(0).cookie, flush);
    volume.open();
    let mut answered: Vec<u64> = (0..200).map(|_| client.reply(0).cookie).collect();
    answered.sort_unstable();
    assert_eq!(answered, changes);
    client.ask(Command::Read, 0, (1 << 20) + 199 * 4096, 1);
    assert_eq!(client.reply(0).payload[8..], [199]);
    client.ask(Command::Disconnect, 0, 0, 0);
    assert_eq!(thread.join().unwrap(), End::Clean);
    assert_eq!(counters.snapshot(0).errors_total, 0);
}

#[test]
fn large_writes_that_wait_leave_reads_their_memory() {
    let volume = Gated::new(STOPS);
    let (mut client, thread, _) = serving(volume.volume(every_second_page), &[8]);
    let data = vec![7; 2 << 20];
    // This is the capacity of the lane: 32 MiB.
    for number in 0..16 {
        client.ask(Command::Write, 0, number << 21, 2 << 20);
        client.send(&data);
    }
    volume.wait_for(16);
    for number in 0..8 {
        let read = client.ask(Command::Read, flag::DF, 4096 * number, 8 << 20);
        let reply = client.reply(0);
        assert_eq!((reply.cookie, reply.payload.len()), (read, 8 + (8 << 20)));
    }
    volume.open();
    for _ in 0..16 {
        assert_eq!(client.reply(0).error, 0);
    }
    let mut bytes = vec![0; 32 << 20];
    let context = RequestContext::default();
    volume.memory.read(context, 0, &mut bytes).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 7));
    drop(client);
    assert_eq!(thread.join().unwrap(), End::Clean);
}
