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
use iscsi::{Credentials, Grant, Server, ServerHandle, ServerOptions, TargetAccess};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use table::Table;
use testkit::conformance::volume::{Failed, ServedDisk};

/// Name of the first target.
const TARGET: &str = "iqn.2026-11.org.quintet:disk";

fn main() -> Result<(), Failed> {
    let mut arguments = std::env::args().skip(1);
    let (mut disk, mut physical) = (ServedDisk::default(), 0);
    let (mut until_eof, mut control, mut classes) = (false, false, false);
    let mut place = None;
    let (mut grant, mut mutual) = (Grant::default(), None);
    let mut options = ServerOptions::default();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or("a value is missing");
        if disk.take(&argument, &mut value)? {
            continue;
        }
        match argument.as_str() {
            "--until-eof" => until_eof = true,
            "--control" => control = true,
            "--classes" => classes = true,
            "--idle-s" => options.idle_limit = Duration::from_secs(value()?.parse()?),
            "--pool-mib" => options.limits.pool_bytes = value()?.parse::<u64>()? << 20,
            "--block" => options.block_bytes = value()?.parse()?,
            "--physical" => physical = value()?.parse()?,
            "--no-write-cache" => options.write_cache = false,
            "--chap" => grant.chap = Some(credentials(&value()?)?),
            "--mutual" => mutual = Some(credentials(&value()?)?),
            "--initiator" => grant.initiators.get_or_insert_default().push(value()?),
            _ => place = Some(argument),
        }
    }
    let place = place.ok_or("where to listen is missing")?;
    let (mut volume, memory) = disk.open()?;
    if physical > 0 {
        volume = Arc::new(Physical {
            below: volume,
            block_bytes_min: physical,
        });
    }
    let counting = classes.then(|| Arc::new(Classes::new(volume.clone())));
    if let Some(counting) = &counting {
        volume = counting.clone();
    }
    let access = TargetAccess {
        mutual,
        ..TargetAccess::from(grant)
    };
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
