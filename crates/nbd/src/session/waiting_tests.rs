//! Writes that wait: what else goes on meanwhile.

use crate::session::End;
use crate::test_client::serving;
use crate::wire::constants::command_flag as flag;
use crate::wire::requests::Command;
use parking_lot::{Condvar, Mutex};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use volume::{Durability, Extent, MemoryVolume, RequestContext, Volume, VolumeError, VolumeInfo};

/// Much longer than an answer takes, much shorter than a wait for ever.
const SOON: Duration = Duration::from_secs(5);

/// Changes wait until the gate is open; everything else is as in memory.
struct Gated {
    inner: MemoryVolume,
    gate: Mutex<Gate>,
    moved: Condvar,
}

#[derive(Default)]
struct Gate {
    open: bool,
    waiting: usize,
}

impl Gated {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryVolume::new(64 << 20),
            gate: Mutex::default(),
            moved: Condvar::new(),
        })
    }

    fn pass(&self) {
        let mut gate = self.gate.lock();
        gate.waiting += 1;
        self.moved.notify_all();
        while !gate.open {
            self.moved.wait(&mut gate);
        }
        gate.waiting -= 1;
    }

    fn open(&self) {
        self.gate.lock().open = true;
        self.moved.notify_all();
    }

    fn wait_for(&self, waiting: usize) {
        let mut gate = self.gate.lock();
        let fewer = |gate: &mut Gate| gate.waiting < waiting;
        let waited = self.moved.wait_while_for(&mut gate, fewer, SOON);
        assert!(!waited.timed_out(), "too few writes are under way");
    }
}

impl Volume for Gated {
    fn info(&self) -> VolumeInfo {
        self.inner.info()
    }
    fn read(&self, context: RequestContext, at: u64, into: &mut [u8]) -> Result<(), VolumeError> {
        self.inner.read(context, at, into)
    }
    fn write(
        &self,
        context: RequestContext,
        at: u64,
        data: &[u8],
        durability: Durability,
    ) -> Result<(), VolumeError> {
        self.pass();
        self.inner.write(context, at, data, durability)
    }
    fn flush(&self, context: RequestContext) -> Result<(), VolumeError> {
        self.inner.flush(context)
    }
    fn discard(&self, context: RequestContext, at: u64, len: u64) -> Result<(), VolumeError> {
        self.pass();
        self.inner.discard(context, at, len)
    }
    fn write_zeroes(
        &self,
        context: RequestContext,
        at: u64,
        len: u64,
        may_free: bool,
        durability: Durability,
    ) -> Result<(), VolumeError> {
        self.pass();
        self.inner
            .write_zeroes(context, at, len, may_free, durability)
    }
    fn extents(
        &self,
        context: RequestContext,
        at: u64,
        len: u64,
        visit: &mut dyn FnMut(Extent) -> ControlFlow<()>,
    ) -> Result<(), VolumeError> {
        self.inner.extents(context, at, len, visit)
    }
    /// Reads go to the workers too, every second page.
    fn is_cached(&self, _: RequestContext, at: u64, _: u64) -> bool {
        (at / 4096).is_multiple_of(2)
    }
}

/// 200 changes are under way and wait; more than there are threads.
#[test]
fn reads_and_flushes_pass_writes_that_wait() {
    let volume = Gated::new();
    let (mut client, thread, counters) = serving(volume.clone(), &[8, 10]);
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
    let began = Instant::now();
    for number in 0..100 {
        let read = client.ask(Command::Read, 0, number * 4096, 4096);
        assert_eq!(client.reply(0).cookie, read, "the read passes the writes");
        let status = client.ask(Command::BlockStatus, 0, number * 4096, 4096);
        assert_eq!(client.reply(0).cookie, status);
    }
    // A flush covers what was acknowledged, and nothing was.
    let flush = client.ask(Command::Flush, 0, 0, 0);
    assert_eq!(client.reply(0).cookie, flush);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    volume.open();
    let mut answered: Vec<u64> = (0..200).map(|_| client.reply(0).cookie).collect();
    answered.sort_unstable();
    assert_eq!(answered, changes);
    client.ask(Command::Read, 0, (1 << 20) + 199 * 4096, 1);
    assert_eq!(client.reply(0).payload[8..], [199]);
    client.ask(Command::Disconnect, 0, 0, 0);
    assert_eq!(thread.join().unwrap(), End::Clean);
    assert_eq!(counters.snapshot().errors_total, 0);
}

#[test]
fn large_writes_that_wait_leave_reads_their_memory() {
    let volume = Gated::new();
    let (mut client, thread, _) = serving(volume.clone(), &[8]);
    let data = vec![7; 2 << 20];
    // What the lane takes: 32 MiB.
    for number in 0..16 {
        client.ask(Command::Write, 0, number << 21, 2 << 20);
        client.send(&data);
    }
    volume.wait_for(16);
    let began = Instant::now();
    for number in 0..8 {
        let read = client.ask(Command::Read, flag::DF, 4096 * number, 8 << 20);
        let reply = client.reply(0);
        assert_eq!((reply.cookie, reply.payload.len()), (read, 8 + (8 << 20)));
    }
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    volume.open();
    for _ in 0..16 {
        assert_eq!(client.reply(0).error, 0);
    }
    let mut bytes = vec![0; 32 << 20];
    let context = RequestContext::default();
    volume.inner.read(context, 0, &mut bytes).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 7));
    drop(client);
    assert_eq!(thread.join().unwrap(), End::Clean);
}
