//! Tests of reads with which the device has begun before a thread executes them.

use crate::test_client::{Client, serving};
use crate::test_volume::Gated;
use crate::wire::requests::{Command, NbdRequest, encode};
use connections::End;
use connections::IDLE_THREAD_LIMIT;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};
use volume::{CallCounts, Counted, Durability, Operation, RequestContext, Slow, Volume};

const STOPS: &[Operation] = &[Operation::Read];
const PAGE: u64 = 4096;

/// The last page of a MiB needs no thread.
fn last_page(at: u64) -> bool {
    at % (1 << 20) == (1 << 20) - PAGE
}

/// Asks for pages in one message, so that the session sees that the client keeps several in flight.
fn ask_for(client: &mut Client, first: u64, pages: u64) -> Vec<u64> {
    let mut message = Vec::new();
    let requests = (first..first + pages).map(|page| NbdRequest {
        flags: 0,
        command: Command::Read as u16,
        cookie: page,
        offset_bytes: page * PAGE,
        len_bytes: PAGE,
    });
    requests.for_each(|request| message.extend(encode(&request, client.extended)));
    client.send(&message);
    (first..first + pages).collect()
}

fn answered(client: &mut Client, count: usize) -> Vec<u64> {
    let reply = |_| {
        let reply = client.reply(PAGE as usize);
        assert_eq!(reply.payload, page(reply.cookie));
        reply.cookie
    };
    let mut answered: Vec<u64> = (0..count).map(reply).collect();
    answered.sort_unstable();
    answered
}

fn page(number: u64) -> Vec<u8> {
    vec![number as u8 | 1; PAGE as usize]
}

fn gated() -> Arc<Gated> {
    let volume = Gated::new(STOPS);
    for number in 0..1024 {
        let (context, at) = (RequestContext::default(), number * PAGE);
        let written = volume
            .memory
            .write(context, at, &page(number), Durability::Volatile);
        written.expect("memory");
    }
    volume
}

#[test]
fn few_threads_execute_announced_reads_of_a_quick_device() {
    let volume = gated();
    let (mut client, thread, counters) = serving(volume.announcing(last_page), &[]);
    let asked = ask_for(&mut client, 0, 16);
    // The session answers it at once, after it has handed on all others.
    let last = ask_for(&mut client, 255, 1);
    assert_eq!(answered(&mut client, 1), last);
    volume.wait_for(1);
    let few = thread::available_parallelism().map_or(1, |n| n.get().div_ceil(2));
    // And the one that watches.
    assert!(volume.waiting() <= few + 1, "{} threads", volume.waiting());
    volume.open();
    assert_eq!(answered(&mut client, 16), asked);
    client.ask(Command::Disconnect, 0, 0, 0);
    assert_eq!(thread.join().unwrap(), End::Clean);
    assert_eq!(counters.snapshot(0).read_bytes_total, 17 * PAGE);
}

/// A device with arms serves them in an order of its own: no reply waits for another read.
#[test]
fn a_slow_device_gets_a_thread_for_each_announced_read() {
    let volume = gated();
    let (mut client, thread, _) = serving(volume.announcing(last_page), &[]);
    let first = ask_for(&mut client, 0, 2);
    volume.wait_for(1);
    // A read waits longer than a quick device lets it.
    thread::sleep(Duration::from_millis(20));
    volume.open();
    assert_eq!(answered(&mut client, 2), first);
    volume.close();
    // The last of the two may have been quick. Then reads go on together until one waits again.
    let asked = ask_for(&mut client, 2, 1);
    volume.wait_for(1);
    thread::sleep(Duration::from_millis(20));
    volume.open();
    assert_eq!(answered(&mut client, 1), asked);
    volume.close();
    let asked = ask_for(&mut client, 16, 16);
    volume.wait_for(16);
    volume.open();
    assert_eq!(answered(&mut client, 16), asked);
    client.ask(Command::Disconnect, 0, 0, 0);
    assert_eq!(thread.join().unwrap(), End::Clean);
}

#[test]
fn many_announced_reads_are_answered_once_each() {
    let volume = gated();
    volume.open();
    let (mut client, thread, counters) = serving(volume.announcing(last_page), &[]);
    let until = Instant::now() + Duration::from_secs(60);
    for round in 0..200_u64 {
        let (first, pages) = (round * 13 % 900, 1 + round * 7 % 40);
        let asked = ask_for(&mut client, first, pages);
        assert_eq!(answered(&mut client, asked.len()), asked);
        assert!(Instant::now() < until);
    }
    client.ask(Command::Disconnect, 0, 0, 0);
    assert_eq!(thread.join().unwrap(), End::Clean);
    assert_eq!(counters.snapshot(0).errors_total, 0);
}

#[test]
fn a_read_that_hangs_holds_up_no_other() {
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = parking_lot::Mutex::new(held);
    let memory = gated().memory.clone();
    let slow = Slow::new(memory, move |request| {
        if request.operation == Operation::Read && request.offset_bytes == 0 {
            let _ = held.lock().recv();
        }
    });
    let (mut client, thread, _) = serving(Arc::new(slow.announcing()), &[]);
    for _ in 0..20 {
        let begun = Instant::now();
        let asked = ask_for(&mut client, 0, 8);
        assert_eq!(answered(&mut client, 7), asked[1..]);
        assert!(begun.elapsed() < IDLE_THREAD_LIMIT, "a thread came by luck");
        release.send(()).expect("it waits");
        assert_eq!(answered(&mut client, 1), [0]);
    }
    client.ask(Command::Disconnect, 0, 0, 0);
    assert_eq!(thread.join().unwrap(), End::Clean);
}

/// The queue of a device that hangs fills up, and the system makes the session wait.
#[test]
fn a_client_with_many_reads_does_not_fill_the_queue_of_the_device() {
    let volume = gated();
    let counts = Arc::new(CallCounts::default());
    let counted = Counted::new(volume.announcing(last_page), counts.clone());
    let (mut client, thread, _) = serving(Arc::new(counted), &[]);
    let asked = ask_for(&mut client, 0, 200);
    let last = ask_for(&mut client, 255, 1);
    assert_eq!(answered(&mut client, 1), last);
    assert_eq!(counts.announces.load(Relaxed), 64);
    volume.open();
    assert_eq!(answered(&mut client, 200), asked);
    client.ask(Command::Disconnect, 0, 0, 0);
    assert_eq!(thread.join().unwrap(), End::Clean);
}
