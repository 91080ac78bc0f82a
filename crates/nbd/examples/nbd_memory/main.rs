//! Serves volumes in memory, or a plain file, over NBD: for tests and measurements.
//!
//! `nbd_memory [--size BYTES] [--pattern] [--read-only] [--tcp] [--file PATH] [--slow-us N]
//! [--slow-write-us N] [--vanished-s N] [--pool-mib N] [--control] [--until-eof] SOCKET|ADDRESS`.
//! It runs until it is killed; with `--until-eof` until its standard input ends. With `--control`,
//! lines of its standard input change the exports (see `table.rs`). Each is answered with a line.

mod table;

use conformance::volume::FileVolume;
use nbd::{Server, ServerHandle, ServerLimits};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use table::Table;
use volume::{
    Durability, MemoryVolume, Operation, ReadOnly, RequestContext, Slow, Volume, VolumeError,
};

type Failed = Box<dyn std::error::Error>;

fn main() -> Result<(), Failed> {
    let mut arguments = std::env::args().skip(1);
    let mut size = 64 << 20;
    let (mut pattern, mut read_only, mut tcp) = (false, false, false);
    let (mut until_eof, mut control) = (false, false);
    let (mut read_us, mut write_us) = (0, 0);
    let (mut file, mut place) = (None, None);
    let mut options = ServerLimits::default();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or("a value is missing");
        match argument.as_str() {
            "--size" => size = value()?.parse()?,
            "--pattern" => pattern = true,
            "--read-only" => read_only = true,
            "--tcp" => tcp = true,
            "--until-eof" => until_eof = true,
            "--control" => control = true,
            "--file" => file = Some(value()?),
            "--slow-us" => read_us = value()?.parse()?,
            "--slow-write-us" => write_us = value()?.parse()?,
            "--vanished-s" => options.vanished_limit = Duration::from_secs(value()?.parse()?),
            "--pool-mib" => options.pool_bytes = value()?.parse::<u64>()? << 20,
            _ => place = Some(argument),
        }
    }
    let place = place.ok_or("where to listen is missing")?;
    let memory = file.is_none().then(|| MemoryVolume::new(size));
    let mut volume: Arc<dyn Volume> = match (&file, &memory) {
        (Some(path), _) => Arc::new(FileVolume::open(path, read_only)?),
        (None, Some(memory)) => Arc::new(memory.clone()),
        (None, None) => Arc::new(MemoryVolume::new(0)),
    };
    if pattern {
        fill(&*volume)?;
    }
    if read_us > 0 || write_us > 0 {
        volume = Arc::new(slow(volume, read_us, write_us));
    }
    if read_only {
        volume = Arc::new(ReadOnly::new(volume));
    }
    let table = Arc::new(Table::default());
    table.add("disk", volume, memory);
    let server = match tcp {
        true => Server::bind_tcp(place.parse()?, table.clone(), options)?,
        false => Server::bind_unix(Path::new(&place), table.clone(), options)?,
    };
    let handle = server.start()?;
    println!("ready {:?}", handle.address());
    if control || until_eof {
        follow(control.then_some(&*table), &handle)?;
    }
    if until_eof {
        let stats = handle.stats();
        let stopped = handle.stop();
        println!("{stats:?} stopped {stopped}");
        return Ok(());
    }
    loop {
        thread::park();
    }
}

/// Reads standard input to its end.
fn follow(table: Option<&Table>, server: &ServerHandle) -> std::io::Result<()> {
    for line in std::io::stdin().lines() {
        let line = line?;
        match table.map(|table| table.command(&line, server)) {
            Some(Ok(done)) => println!("{done}"),
            Some(Err(why)) => println!("refused: {why}"),
            None => {}
        }
    }
    Ok(())
}

/// Delays requests of a volume. 0 means that reads count as cached, or that writes need not wait.
fn slow(volume: Arc<dyn Volume>, read_us: u64, write_us: u64) -> impl Volume {
    let takes_us = move |operation| match operation {
        Operation::Read | Operation::Flush => read_us,
        Operation::Write => write_us,
        Operation::Discard | Operation::WriteZeroes | Operation::Extents => 0,
    };
    Slow::new(volume, move |request| {
        thread::sleep(Duration::from_micros(takes_us(request.operation)));
    })
    .except(move |request| takes_us(request.operation) == 0)
}

/// Fills a volume with a pattern: every eight bytes contain their offset, as in nbdkit's pattern
/// plugin.
fn fill(volume: &dyn Volume) -> Result<(), VolumeError> {
    let size = volume.size_bytes();
    let mut at = 0;
    while at < size {
        let len = (size - at).min(1 << 20);
        let words = (0..len.div_ceil(8)).flat_map(|word| (at + word * 8).to_be_bytes());
        let bytes: Vec<u8> = words.take(len as usize).collect();
        volume.write(RequestContext::default(), at, &bytes, Durability::Volatile)?;
        at += len;
    }
    Ok(())
}
