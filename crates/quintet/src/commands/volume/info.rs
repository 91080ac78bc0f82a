//! `volume info`: shows one volume, its snapshots and its clients. `volume` calls this.
//!
//! Invariant: it changes nothing. Numbers that are not known without reading the volume are left
//! out.

use super::list::{all, chunk_bytes, is_of, origin, volume};
use crate::commands::invocation::Invocation;
use anyhow::bail;
use command_line::VolumeInfoArgs;
use format::snapshot::Snapshot;
use store::OpenMode;
use terminal::calendar;
use terminal::exit::Exit;
use terminal::json::Object;
use terminal::names::short_id;
use terminal::sizes;
use terminal::table::Table;
use units::count;

/// Runs the command.
pub fn run(invocation: &Invocation, args: &VolumeInfoArgs) -> anyhow::Result<Exit> {
    let name = &args.name;
    if name.contains('@') {
        bail!("{name} is a snapshot; give the name of the volume");
    }
    let pool = invocation.open(OpenMode::Read)?;
    let server = invocation.server_state();
    let found = all(invocation, &pool)?.into_iter();
    let Some(status) = found.into_iter().find(|v| v.record.name == *name) else {
        bail!("there is no volume {name:?} (see quintet volume list)");
    };
    let (snapshots, damage) = pool.snapshots_readable()?;
    let console = &invocation.console;
    if let Some(damage) = &damage {
        console.warn(format_args!(
            "pool: some snapshots cannot be listed; the others are not affected: {damage}"
        ));
    }
    let own: Vec<&Snapshot> = snapshots.iter().filter(|s| is_of(s, name)).collect();
    let record = &status.record;
    let origin = origin(record, &snapshots);
    let clients = server.map(|server| server.clients.connected(name));
    let served = match clients {
        None => "no server runs; the state is that of the last checkpoint".to_owned(),
        Some(clients) => format!("by the server, to {}", count(clients as u64, "connection")),
    };
    let mut lines = vec![
        ("name", name.clone()),
        ("size", sizes::display(record.root.len)),
        ("chunk size", sizes::display(chunk_bytes(record))),
        ("created", calendar::local(record.made, &invocation.zone)),
        (
            "based on",
            origin.clone().unwrap_or_else(|| "nothing".to_owned()),
        ),
        ("served", served),
    ];
    if server.is_some() {
        let unapplied = count(status.pieces_unapplied, "piece");
        lines.push(("in the journal", unapplied));
    }
    lines.push(("snapshots", own.len().to_string()));
    for (label, text) in lines {
        console.line(format!("{label:14} {text}"))?;
    }
    let mut table = Table::new(["Snapshot", "Id", "Time", "Size", "Added"], &[3, 4]);
    for snapshot in &own {
        table.row([
            snapshot.name.clone(),
            short_id(snapshot),
            calendar::local(snapshot.taken, &invocation.zone),
            sizes::display(snapshot.root.len),
            sizes::display(snapshot.added_bytes),
        ]);
        console.message(
            Object::message("snapshot")
                .text("name", &snapshot.name)
                .text("id", &snapshot.id.to_string())
                .time("time", snapshot.taken)
                .integer("size_bytes", snapshot.root.len),
        )?;
    }
    if !own.is_empty() {
        let lines = table.lines();
        lines.iter().try_for_each(|line| console.line(line))?;
    }
    let mut message = volume(Object::message("summary"), &status)
        .integer("snapshots", own.len() as u64)
        .boolean("served", server.is_some())
        .text_if("origin", origin.as_deref());
    if let Some(clients) = clients {
        message = message
            .integer("clients", clients as u64)
            .integer("pieces_unfolded", status.pieces_unapplied);
    }
    console.message(message)?;
    Ok(match damage {
        Some(_) => Exit::Damaged,
        None => Exit::Done,
    })
}
