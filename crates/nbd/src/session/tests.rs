//! Tests clients that misbehave, clients with deep queues, and slow volumes.

use super::*;
use crate::exports::FixedExports;
use crate::fuzzing;
use crate::test_client::{serving, session};
use crate::test_volume::Gated;
use crate::wire::requests::{Command, NbdRequest, encode};
use connections::{Connection, Replay};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{OnceLock, Weak};
use volume::{MemoryVolume, Operation, Slow, Volume};

fn exports() -> Arc<dyn Exports> {
    Arc::new(FixedExports::default().with("disk", Arc::new(MemoryVolume::new(1 << 20))))
}

#[test]
fn a_whole_session() {
    let (mut client, thread, counters) = serving(Arc::new(MemoryVolume::new(1 << 20)), &[8]);
    assert_eq!(client.errno(Command::Flush, 0, 0, 0), 0);
    client.ask(Command::Disconnect, 0, 0, 0);
    assert!(client.closed());
    assert_eq!(thread.join().unwrap(), End::Clean);
    let stats = counters.snapshot(0);
    assert_eq!(stats.requests_total[Command::Flush as usize], 1);
    assert_eq!(stats.connections_dropped_total, 0);
}

#[test]
fn leaving_between_requests_is_clean_and_inside_one_is_not() {
    let (client, thread, _) = serving(Arc::new(MemoryVolume::new(1 << 20)), &[]);
    drop(client);
    assert_eq!(thread.join().unwrap(), End::Clean);
    let (mut client, thread, counters) = serving(Arc::new(MemoryVolume::new(1 << 20)), &[]);
    client.ask(Command::Write, 0, 0, 1000);
    client.send(&[1; 999]);
    drop(client);
    assert_eq!(thread.join().unwrap(), End::Dropped);
    assert_eq!(counters.snapshot(0).connections_dropped_total, 1);
}

#[test]
fn garbage_ends_the_session() {
    // Invalid data before the options, as an option, and as a request.
    let (mut client, thread, _) = session(exports(), |_| {});
    client.greet(0xffff_ffff);
    assert!(client.closed());
    assert_eq!(thread.join().unwrap(), End::Dropped);

    let (mut client, thread, _) = session(exports(), |_| {});
    client.greet(3);
    client.send(b"GET / HTTP/1.1\r\n");
    assert!(client.closed());
    assert_eq!(thread.join().unwrap(), End::Dropped);

    let (mut client, thread, _) = serving(Arc::new(MemoryVolume::new(1 << 20)), &[]);
    client.send(&[0x25; 28]);
    assert!(client.closed());
    assert_eq!(thread.join().unwrap(), End::Dropped);
}

#[test]
fn huge_lengths_are_refused_without_memory() {
    let (mut client, thread, _) = session(exports(), |_| {});
    client.greet(3);
    client.option(7, &vec![0; 100_000]);
    assert_eq!(client.option_replies()[0].0, (1 << 31) | 9, "too big");
    client.go("disk");
    drop(client);
    assert_eq!(thread.join().unwrap(), End::Clean);

    let (mut client, thread, _) = session(exports(), |_| {});
    client.greet(3);
    client.send(b"IHAVEOPT\0\0\0\x07\xff\xff\xff\xff");
    assert!(client.closed());
    assert_eq!(thread.join().unwrap(), End::Dropped);

    let (mut client, thread, _) = serving(Arc::new(MemoryVolume::new(1 << 20)), &[]);
    client.ask(Command::Write, 0, 0, u64::from(u32::MAX));
    assert!(client.closed());
    assert_eq!(thread.join().unwrap(), End::Dropped);
}

#[test]
fn the_largest_write_and_read_are_served() {
    let (mut client, _thread, _) = serving(Arc::new(MemoryVolume::new(40 << 20)), &[]);
    let len = REQUEST_BYTES_MAX as usize;
    client.ask(Command::Write, 0, 3, len as u64);
    client.send(&vec![0x77; len]);
    assert_eq!(client.reply(0).error, 0);
    client.ask(Command::Read, 0, 3, len as u64);
    assert!(client.reply(len).payload.iter().all(|b| *b == 0x77));
}

#[test]
fn a_client_that_says_nothing_is_dropped_in_time() {
    let short = |s: &mut Session| s.context.limits.handshake_limit = Duration::from_millis(100);
    let (mut client, thread, counters) = session(exports(), short);
    // The client sends half an option, then nothing. If it is slow, it is dropped before.
    let _ = client.stream.write_all(b"\0\0\0\x03IHAVE");
    client.receive(18);
    assert!(client.closed());
    assert_eq!(thread.join().unwrap(), End::Dropped);
    assert_eq!(counters.snapshot(0).handshakes_failed_total, 1);
}

#[test]
fn a_client_that_does_not_read_is_dropped_in_time() {
    let short = |s: &mut Session| s.context.limits.send_limit = Duration::from_millis(200);
    let (mut client, thread, _) = session(exports(), short);
    client.greet(3);
    client.go("disk");
    let ask = NbdRequest {
        flags: 0,
        command: 0,
        cookie: 1,
        offset_bytes: 0,
        len_bytes: 1 << 20,
    };
    client.send(&encode(&ask, false).repeat(32));
    assert_eq!(thread.join().unwrap(), End::Dropped);
}

#[test]
fn old_newstyle_clients_may_only_name_an_export() {
    let (mut client, thread, _) = session(exports(), |_| {});
    client.greet(0);
    client.option(1, b"disk");
    assert_eq!(client.receive(134)[..8], (1_u64 << 20).to_be_bytes());
    assert_eq!(client.errno(Command::Flush, 0, 0, 0), 0);
    drop(client);
    assert_eq!(thread.join().unwrap(), End::Clean);
    let (mut client, thread, _) = session(exports(), |_| {});
    client.greet(0);
    client.option(3, &[]);
    assert!(client.closed());
    assert_eq!(thread.join().unwrap(), End::Dropped);
}

#[test]
fn a_deep_queue_is_answered_in_few_sends() {
    let (mut client, _thread, counters) = serving(Arc::new(MemoryVolume::new(1 << 20)), &[]);
    let ask = |cookie| NbdRequest {
        flags: 0,
        command: 0,
        cookie,
        offset_bytes: 0,
        len_bytes: 8,
    };
    let all: Vec<u8> = (0..1000).flat_map(|c| encode(&ask(c), false)).collect();
    client.send(&all);
    for cookie in 0..1000 {
        let reply = client.reply(8);
        assert_eq!((reply.cookie, reply.error), (cookie, 0));
    }
    assert_eq!(counters.snapshot(0).requests_total[0], 1000);
}

/// Waiting reads, and a gate that holds them.
fn gated() -> (Arc<Gated>, Arc<dyn Volume>) {
    let gated = Gated::new(&[Operation::Read]);
    let volume = gated.volume(|_| false);
    (gated, volume)
}

#[test]
fn slow_reads_are_under_way_together() {
    let (gated, volume) = gated();
    let (mut client, thread, counters) = serving(volume, &[]);
    let read = |cookie| NbdRequest {
        flags: 0,
        command: Command::Read as u16,
        cookie,
        offset_bytes: cookie * 4096,
        len_bytes: 4096,
    };
    // In one message: a read that arrives alone is executed without a worker, and keeps the
    // connection's thread from the others until the gate opens.
    let all: Vec<u8> = (0..128).flat_map(|c| encode(&read(c), false)).collect();
    client.send(&all);
    gated.wait_for(16);
    gated.open();
    let mut answered: Vec<u64> = (0..128).map(|_| client.reply(4096).cookie).collect();
    answered.sort_unstable();
    assert_eq!(answered, (0..128).collect::<Vec<u64>>());
    client.ask(Command::Disconnect, 0, 0, 0);
    assert_eq!(thread.join().unwrap(), End::Clean);
    assert_eq!(counters.snapshot(0).requests_total[0], 128);
}

#[test]
fn goodbye_waits_for_what_is_under_way() {
    let (gated, volume) = gated();
    let (mut client, thread, _) = serving(volume, &[]);
    for n in 0..20 {
        client.ask(Command::Read, 0, n * 4096, 4096);
    }
    client.ask(Command::Disconnect, 0, 0, 0);
    // At least one. How many there are is the point of another test, and differs on a busy machine.
    gated.wait_for(1);
    gated.open();
    for _ in 0..20 {
        assert_eq!(client.reply(4096).error, 0);
    }
    assert!(client.closed());
    assert_eq!(thread.join().unwrap(), End::Clean);
}

#[test]
fn a_panic_in_the_volume_ends_the_connection() {
    let volume = Slow::new(MemoryVolume::new(1 << 20), |request| {
        let is_read = request.operation == Operation::Read;
        assert!(!is_read, "a bug in the volume");
    });
    let (mut client, thread, _) = serving(Arc::new(volume), &[]);
    // One send: the connection may end after the first.
    let reads = (0..4).map(|n| NbdRequest {
        flags: 0,
        command: Command::Read as u16,
        cookie: n,
        offset_bytes: n * 4096,
        len_bytes: 4096,
    });
    let reads: Vec<u8> = reads.flat_map(|read| encode(&read, false)).collect();
    client.send(&reads);
    assert!(client.closed());
    // Either a worker or the connection's own thread panicked.
    let _ = thread.join();
}

/// A session that the client knows of is not dropped for a newcomer.
#[test]
fn clients_are_admitted_before_they_know() {
    /// Notes whether its connection was admitted when it sent the last reply.
    struct Watching {
        replay: Replay,
        connection: OnceLock<Weak<Connection>>,
        was_admitted: Arc<AtomicBool>,
    }

    impl Watching {
        fn note(&self) {
            let connection = self.connection.get().and_then(Weak::upgrade);
            let is_admitted = connection.is_some_and(|connection| connection.is_admitted());
            self.was_admitted.store(is_admitted, Relaxed);
        }
    }

    impl ByteStream for Watching {
        fn recv(&self, into: &mut [u8]) -> io::Result<usize> {
            self.replay.recv(into)
        }
        fn recv_now(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
            self.replay.recv_now(into)
        }
        fn wait(&self, _: &connections::Alarm, _: Duration) -> io::Result<bool> {
            Ok(true)
        }

        fn send(&self, bytes: &[u8]) -> io::Result<usize> {
            self.note();
            self.replay.send(bytes)
        }
        fn send_now(&self, bytes: &[u8]) -> io::Result<usize> {
            self.note();
            self.replay.send_now(bytes)
        }
        fn set_recv_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
            self.replay.set_recv_timeout(timeout)
        }
        fn set_send_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
            self.replay.set_send_timeout(timeout)
        }
        fn shutdown_recv(&self) {
            self.replay.shutdown_recv();
        }
        fn shutdown(&self) {
            self.replay.shutdown();
        }
        fn hung_up(&self) -> bool {
            self.replay.hung_up()
        }
    }

    let was_admitted = Arc::new(AtomicBool::new(false));
    let stream = Arc::new(Watching {
        replay: Replay::new(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\x04disk"),
        connection: OnceLock::new(),
        was_admitted: was_admitted.clone(),
    });
    let session = Session::alone(stream.clone(), exports(), Duration::from_secs(60));
    let _ = stream
        .connection
        .set(Arc::downgrade(&session.context.connection));
    assert_eq!(session.run(), End::Clean);
    assert!(was_admitted.load(Relaxed));
}

/// SplitMix64 (Steele et al. 2014).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn random(state: &mut u64, len: usize) -> Vec<u8> {
    (0..len).map(|_| next(state) as u8).collect()
}

#[test]
fn random_bytes_never_panic_or_hang() {
    let mut state = 20_26;
    for round in 0..20_000 {
        let len = next(&mut state) as usize % 64;
        let bytes = random(&mut state, len);
        fuzzing::fuzz_options(&bytes);
        fuzzing::fuzz_requests(&bytes);
        if round % 20 == 0 {
            fuzzing::fuzz_session(&bytes);
        }
    }
}

#[test]
fn nearly_right_sessions_never_panic_or_hang() {
    let mut state = 7;
    for _ in 0..1500 {
        let mut bytes = b"\0\0\0\x03".to_vec();
        let extended = next(&mut state).is_multiple_of(2);
        for option in [if extended { 11 } else { 8 }, 10, 9, 3, 6, 7] {
            let data: &[u8] = match option {
                9 | 10 => {
                    b"\0\0\0\0\0\0\0\x02\0\0\0\x0fbase:allocation\
                    \0\0\0\x16qemu:dirty-bitmap:then"
                }
                6 | 7 => b"\0\0\0\0\0\x01\0\x01",
                _ => b"",
            };
            bytes.extend_from_slice(b"IHAVEOPT\0\0\0");
            bytes.push(option);
            bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
            bytes.extend_from_slice(data);
        }
        for cookie in 0..20 {
            let request = NbdRequest {
                flags: (next(&mut state) % 64) as u16,
                command: (next(&mut state) % 9) as u16,
                cookie,
                offset_bytes: next(&mut state) % (1 << 20),
                len_bytes: next(&mut state) % (1 << (next(&mut state) % 24)),
            };
            bytes.extend_from_slice(&encode(&request, extended));
            if request.payload_bytes(extended) > 0 {
                let len = request.len_bytes.min(70_000) as usize;
                bytes.resize(bytes.len() + len, 9);
            }
        }
        if next(&mut state).is_multiple_of(2) {
            let place = next(&mut state) as usize % bytes.len();
            bytes[place] ^= 1 << (next(&mut state) % 8);
        }
        let len = bytes.len() - next(&mut state) as usize % 40;
        fuzzing::fuzz_session(&bytes[..len]);
    }
}
