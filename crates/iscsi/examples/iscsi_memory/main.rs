//! Serves volumes in memory, or a plain file, over iSCSI: for tests and measurements.
//!
//! `iscsi_memory [--size BYTES] [--pattern] [--read-only] [--file PATH] [--slow-us N]
//! [--slow-write-us N] [--idle-s N] [--pool-mib N] [--block BYTES] [--physical BYTES]
//! [--no-write-cache] [--chap USER:SECRET] [--mutual USER:SECRET] [--initiator NAME]... [--classes]
//! [--control] [--until-eof] ADDRESS`.
//! It runs until it is killed; with `--until-eof` until its standard input ends. With `--control`,
//! lines of its standard input change the targets (see `table.rs`). Each is answered with a line.

mod classes;
mod table;

use classes::{Classes, Physical};
use conformance::volume::FileVolume;
use iscsi::{Access, Credentials, Server, ServerHandle, ServerOptions};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use table::Table;
use volume::{
    Durability, MemoryVolume, Operation, ReadOnly, RequestContext, Slow, Volume, VolumeError,
};

type Failed = Box<dyn std::error::Error>;

/// Name of the first target.
const TARGET: &str = "iqn.2026-11.org.quintet:disk";

/// Arguments of the volume.
#[derive(Default)]
struct Disk {
    size: u64,
    pattern: bool,
    read_only: bool,
    file: Option<String>,
    read_us: u64,
    write_us: u64,
    physical: u32,
}

fn main() -> Result<(), Failed> {
    let mut arguments = std::env::args().skip(1);
    let mut disk = Disk {
        size: 64 << 20,
        ..Disk::default()
    };
    let (mut until_eof, mut control, mut classes) = (false, false, false);
    let mut place = None;
    let mut access = Access::default();
    let mut options = ServerOptions::default();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or("a value is missing");
        match argument.as_str() {
            "--size" => disk.size = value()?.parse()?,
            "--pattern" => disk.pattern = true,
            "--read-only" => disk.read_only = true,
            "--until-eof" => until_eof = true,
            "--control" => control = true,
            "--classes" => classes = true,
            "--file" => disk.file = Some(value()?),
            "--slow-us" => disk.read_us = value()?.parse()?,
            "--slow-write-us" => disk.write_us = value()?.parse()?,
            "--idle-s" => options.idle_limit = Duration::from_secs(value()?.parse()?),
            "--pool-mib" => options.limits.pool_bytes = value()?.parse::<u64>()? << 20,
            "--block" => options.block_bytes = value()?.parse()?,
            "--physical" => disk.physical = value()?.parse()?,
            "--no-write-cache" => options.write_cache = false,
            "--chap" => access.chap = Some(credentials(&value()?)?),
            "--mutual" => access.mutual = Some(credentials(&value()?)?),
            "--initiator" => access.initiators.get_or_insert_default().push(value()?),
            _ => place = Some(argument),
        }
    }
    let place = place.ok_or("where to listen is missing")?;
    let (mut volume, memory) = disk.open()?;
    let counting = classes.then(|| Arc::new(Classes::new(volume.clone())));
    if let Some(counting) = &counting {
        volume = counting.clone();
    }
    options.discovery = access.clone();
    let table = Arc::new(Table::default());
    table.add(TARGET, volume, memory, access);
    let server = Server::bind(place.parse()?, table.clone(), options)?;
    let handle = server.start()?;
    println!("ready {:?}", handle.address());
    if control || until_eof {
        follow(control.then_some(&*table), counting.as_deref(), &handle)?;
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

fn credentials(value: &str) -> Result<Credentials, Failed> {
    let (user, secret) = value.split_once(':').ok_or("USER:SECRET is expected")?;
    Ok(Credentials {
        user: user.to_owned(),
        secret: secret.into(),
    })
}

impl Disk {
    fn open(&self) -> Result<(Arc<dyn Volume>, Option<MemoryVolume>), Failed> {
        let memory = self.file.is_none().then(|| MemoryVolume::new(self.size));
        let mut volume: Arc<dyn Volume> = match (&self.file, &memory) {
            (Some(path), _) => Arc::new(FileVolume::open(path, self.read_only)?),
            (None, Some(memory)) => Arc::new(memory.clone()),
            (None, None) => Arc::new(MemoryVolume::new(0)),
        };
        if self.pattern {
            fill(&*volume)?;
        }
        if self.read_us > 0 || self.write_us > 0 {
            volume = Arc::new(slow(volume, self.read_us, self.write_us));
        }
        if self.physical > 0 {
            volume = Arc::new(Physical {
                below: volume,
                block_bytes_min: self.physical,
            });
        }
        if self.read_only {
            volume = Arc::new(ReadOnly::new(volume));
        }
        Ok((volume, memory))
    }
}

/// Reads standard input to its end.
fn follow(
    table: Option<&Table>,
    classes: Option<&Classes>,
    server: &ServerHandle,
) -> std::io::Result<()> {
    for line in std::io::stdin().lines() {
        let line = line?;
        if let (Some(classes), "classes") = (classes, line.as_str()) {
            println!("{}", classes.report());
            continue;
        }
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

/// Fills a volume with a pattern: every eight bytes contain their offset.
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
