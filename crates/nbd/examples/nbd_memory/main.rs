//! Serves volumes in memory, or a plain file, over NBD: for tests and measurements.
//!
//! `nbd_memory [--size BYTES] [--pattern] [--read-only] [--tcp] [--file PATH] [--slow-us N]
//! [--slow-write-us N] [--vanished-s N] [--pool-mib N] [--control] [--until-eof] SOCKET|ADDRESS`.
//! It runs until it is killed; with `--until-eof` until its standard input ends. With `--control`,
//! lines of its standard input change the exports (see `table.rs`). Each is answered with a line.

mod table;

use nbd::{Server, ServerHandle, ServerLimits};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use table::Table;
use testkit::conformance::volume::{Failed, ServedDisk};

fn main() -> Result<(), Failed> {
    let mut arguments = std::env::args().skip(1);
    let mut disk = ServedDisk::default();
    let (mut tcp, mut until_eof, mut control) = (false, false, false);
    let mut place = None;
    let mut limits = ServerLimits::default();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or("a value is missing");
        if disk.take(&argument, &mut value)? {
            continue;
        }
        match argument.as_str() {
            "--tcp" => tcp = true,
            "--until-eof" => until_eof = true,
            "--control" => control = true,
            "--vanished-s" => limits.vanished_limit = Duration::from_secs(value()?.parse()?),
            "--pool-mib" => limits.pool_bytes = value()?.parse::<u64>()? << 20,
            _ => place = Some(argument),
        }
    }
    let place = place.ok_or("where to listen is missing")?;
    let (volume, memory) = disk.open()?;
    let table = Arc::new(Table::default());
    table.add("disk", volume, memory);
    let server = match tcp {
        true => Server::bind_tcp(place.parse()?, table.clone(), limits)?,
        false => Server::bind_unix(Path::new(&place), table.clone(), limits)?,
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
