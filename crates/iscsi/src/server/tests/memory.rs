//! Tests the memory of commands: initiators that keep it for long, and those that wait for it.

use super::gate::held;
use super::{Client, login_text, options, serve, ten};
use crate::fuzzing::{OPEN_TARGET, login_request};
use crate::server::{ServerHandle, ServerOptions};
use crate::wire::pdu::{NO_TAG, PduHeader, request, response};
use std::io::Write;
use std::thread;
use std::time::Duration;
use volume::{MemoryVolume, Operation};

const GOOD: u8 = 0x00;
const TASK_SET_FULL: u8 = 0x28;
/// Size of the largest write, bytes. Two of them fill the smallest pool.
const LARGE_BYTES: u32 = 32 << 20;

impl Client {
    fn login_as(server: &ServerHandle, name: &str, keys: &[(&str, &str)]) -> Self {
        let names = [("InitiatorName", name), ("TargetName", OPEN_TARGET)];
        Self::enter(server, &login_text(&[&names, keys].concat()))
    }

    /// Begins a large write without its data.
    fn large_write(&mut self, tag: u32, bytes: u32) {
        let mut cdb = [0; 16];
        cdb[0] = 0x8a;
        cdb[10..14].copy_from_slice(&(bytes / 512).to_be_bytes());
        self.command(tag, 0xa0, bytes, &cdb, &[]);
    }

    fn asked(&mut self) -> Option<PduHeader> {
        let (answer, _) = self.receive()?;
        assert_eq!(answer.operation(), response::R2T);
        Some(answer)
    }

    fn nop(&mut self, tag: u32) {
        let header = PduHeader::new(request::NOP_OUT | 0x40, 0x80)
            .with_tag(tag)
            .with_u32::<20>(NO_TAG);
        self.send(header, &[]);
    }
}

fn serve_large(stall_limit: Duration) -> ServerHandle {
    let mut options = options();
    options.limits.stall_limit = stall_limit;
    options.limits.pool_bytes = 0;
    serve(MemoryVolume::new(64 << 20), options)
}

#[test]
fn trickling_writes_give_their_memory_to_others() {
    let server = serve_large(Duration::from_millis(200));
    let mut slow = Client::login_as(&server, "iqn.x:slow", &[("MaxBurstLength", "512")]);
    slow.large_write(1, LARGE_BYTES);
    slow.large_write(2, LARGE_BYTES);
    let mut first = [slow.asked().unwrap(), slow.asked().unwrap()];
    let trickle = thread::spawn(move || {
        // Whole bursts, one after the other, for ever.
        let mut asked = Some(std::mem::replace(&mut first[0], PduHeader::new(0, 0)));
        while let Some(wanted) = asked {
            let data = PduHeader::new(request::DATA_OUT, 0x80)
                .with_tag(wanted.tag())
                .with_u32::<20>(wanted.u32_at::<20>())
                .with_u32::<40>(wanted.u32_at::<40>());
            slow.send(data, &[7; 512]);
            thread::sleep(Duration::from_millis(10));
            asked = slow.asked();
        }
    });
    let mut other = Client::login(&server);
    other.large_write(1, 2 << 20);
    assert!(other.asked().is_some());
    trickle.join().unwrap();
    assert!(server.stop());
}

#[test]
fn clients_that_wait_for_memory_are_served_otherwise() {
    let server = serve_large(Duration::from_secs(3600));
    let mut greedy = Client::login_as(&server, "iqn.x:greedy", &[]);
    greedy.large_write(1, LARGE_BYTES);
    greedy.large_write(2, LARGE_BYTES);
    assert!(greedy.asked().is_some() && greedy.asked().is_some());
    let mut other = Client::login(&server);
    other.large_write(1, 2 << 20);
    other.nop(5);
    let (answer, _) = other.receive().unwrap();
    assert_eq!((answer.operation(), answer.tag()), (response::NOP_IN, 5));
    assert_eq!(other.test_unit_ready(2), GOOD);
    // It can also change its mind.
    let abort = PduHeader::new(request::TASK_MANAGEMENT | 0x40, 0x81)
        .with_tag(6)
        .with_u32::<20>(1);
    other.send(abort, &[]);
    let (answer, _) = other.receive().unwrap();
    assert_eq!(
        (answer.operation(), answer.0[2]),
        (response::TASK_MANAGEMENT, 0)
    );
    other.large_write(3, 2 << 20);
    drop(greedy);
    assert_eq!(other.asked().unwrap().tag(), 3);
    assert!(server.stop());
}

#[test]
fn a_read_that_waits_for_memory_can_be_aborted() {
    let server = serve_large(Duration::from_secs(3600));
    let read = |client: &mut Client, tag, bytes: u32| {
        let mut cdb = [0; 16];
        cdb[0] = 0x88;
        cdb[10..14].copy_from_slice(&(bytes / 512).to_be_bytes());
        client.command(tag, 0xc0, bytes, &cdb, &[]);
    };
    // Each has begun to get an answer that fills half of the pool.
    let greedy = ["iqn.x:one", "iqn.x:two"].map(|name| {
        let mut client = Client::login_as(&server, name, &[]);
        read(&mut client, 1, LARGE_BYTES);
        assert_eq!(client.receive().unwrap().0.operation(), response::DATA_IN);
        client
    });
    let mut other = Client::login(&server);
    read(&mut other, 1, 2 << 20);
    let abort = PduHeader::new(request::TASK_MANAGEMENT | 0x40, 0x81)
        .with_tag(6)
        .with_u32::<20>(1);
    other.send(abort, &[]);
    let (answer, _) = other.receive().unwrap();
    let complete = (response::TASK_MANAGEMENT, 0);
    assert_eq!((answer.operation(), answer.0[2]), complete);
    drop(greedy);
    assert!(server.stop());
}

#[test]
fn memory_for_data_that_was_not_asked_for_is_bounded() {
    let (slow, gate, _comes) = held(MemoryVolume::new(1 << 20), Operation::Write);
    let slow = slow.except(|request| request.operation != Operation::Write);
    let mut options = options();
    options.limits.pool_bytes = 0;
    let server = serve(slow, options);
    let fill = |client: &mut Client| {
        for tag in 0..64 {
            client.command(tag, 0xa0, 65_536, &ten(0x2a, 0, 128), &[1; 65_536]);
        }
    };
    let keys = [("InitialR2T", "No"), ("FirstBurstLength", "65536")];
    // It gets the whole pool besides its own memory.
    let mut first = Client::login_as(&server, "iqn.x:first", &keys);
    fill(&mut first);
    first.nop(100);
    assert_eq!(first.receive().unwrap().0.tag(), 100, "all have memory");
    // Another one has its own.
    let mut second = Client::login_as(&server, "iqn.x:second", &keys);
    fill(&mut second);
    second.nop(100);
    let mut refused = 0;
    loop {
        let (answer, _) = second.receive().unwrap();
        if answer.tag() == 100 {
            break;
        }
        assert_eq!(answer.0[3], TASK_SET_FULL);
        refused += 1;
    }
    // The pool has some bytes more than the first could use.
    assert!((32..=48).contains(&refused), "{refused}");
    gate.open();
    for (client, answers) in [(&mut first, 64), (&mut second, 64 - refused)] {
        for _ in 0..answers {
            assert_eq!(client.receive().unwrap().0.0[3], GOOD);
        }
    }
    assert!(server.stop());
}

#[test]
fn half_a_request_is_not_waited_for_for_ever() {
    let options = ServerOptions {
        idle_limit: Duration::from_secs(1),
        ..options()
    };
    let server = serve(MemoryVolume::new(1 << 20), options);
    let mut slow = Client::connect(&server);
    let mut writer = slow.stream.try_clone().unwrap();
    writer.write_all(&login_request()).unwrap();
    assert_eq!(slow.receive().unwrap().0.operation(), response::LOGIN);
    // A header, then its data: a byte is always on its way.
    let header = PduHeader::new(request::NOP_OUT | 0x40, 0x80).with_data_bytes(100_000);
    writer.write_all(&header.0).unwrap();
    let trickle = thread::spawn(move || {
        while writer.write_all(&[0]).is_ok() {
            thread::sleep(Duration::from_millis(10));
        }
    });
    // Until the end; on a busy machine it may be asked for a sign of life.
    while slow.receive().is_some() {}
    trickle.join().unwrap();
    assert!(server.stop());
}
