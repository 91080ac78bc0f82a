//! `volume list`: shows the present volumes of the server, or those of the last commit. `volume`
//! calls this.
//!
//! Invariant: it changes nothing.

use crate::commands::invocation::Invocation;
use format::recipe::Layout;
use format::snapshot::{Snapshot, SnapshotKind};
use format::volume::VolumeRecord;
use store::{OpenMode, Pool};
use terminal::calendar;
use terminal::exit::Exit;
use terminal::json::Object;
use terminal::sizes;
use terminal::table::Table;
use volumes::{CacheTally, VolumeStatus};

/// Runs the command.
pub fn run(invocation: &Invocation) -> anyhow::Result<Exit> {
    let pool = invocation.open(OpenMode::Read)?;
    let server = invocation.server_state();
    let volumes = all(invocation, &pool)?;
    let (snapshots, _) = pool.snapshots_readable()?;
    let heading = [
        "Name",
        "Size",
        "Chunk",
        "Snapshots",
        "Clients",
        "Made",
        "Based on",
    ];
    let mut table = Table::new(heading, &[1, 2, 3, 4]);
    let console = &invocation.console;
    for status in &volumes {
        let record = &status.record;
        let states = snapshots.iter().filter(|s| is_of(s, &record.name)).count();
        let clients = server.map(|server| server.clients.count(&record.name));
        let origin = origin(record, &snapshots);
        let mut message = volume(Object::message("volume"), status)
            .integer("snapshots", states as u64)
            .text_if("origin", origin.as_deref());
        if let Some(clients) = clients {
            message = message
                .integer("clients", clients as u64)
                .integer("pieces_unfolded", status.pieces_unapplied);
        }
        console.message(message)?;
        table.row([
            record.name.clone(),
            sizes::display(record.root.len),
            sizes::display(chunk_bytes(record)),
            states.to_string(),
            clients.map_or("-".to_owned(), |clients| clients.to_string()),
            calendar::local(record.made, &invocation.zone),
            origin.unwrap_or_default(),
        ]);
    }
    console.message(Object::message("summary").integer("volumes", volumes.len() as u64))?;
    if !volumes.is_empty() {
        let lines = table.lines();
        lines.iter().try_for_each(|line| console.line(line))?;
    }
    console.line(units::count(volumes.len() as u64, "volume"))?;
    Ok(Exit::Done)
}

/// Returns all volumes: the present ones of a server, else those of the last commit.
pub fn all(invocation: &Invocation, pool: &Pool) -> anyhow::Result<Vec<VolumeStatus>> {
    if let Some(server) = invocation.server_state() {
        return Ok(server.volumes.list());
    }
    let committed = |record| VolumeStatus {
        record,
        pieces_unapplied: 0,
        cache: CacheTally::default(),
    };
    Ok(pool.volumes()?.into_iter().map(committed).collect())
}

/// Returns true if the snapshot is one of this volume.
pub fn is_of(snapshot: &Snapshot, volume: &str) -> bool {
    let name = snapshot.name.rsplit_once('@').map(|(name, _)| name);
    snapshot.kind == SnapshotKind::Volume && name == Some(volume)
}

/// Returns the snapshot that the volume was cloned from or rolled back to. The id if that snapshot
/// was deleted.
pub fn origin(record: &VolumeRecord, snapshots: &[Snapshot]) -> Option<String> {
    if record.origin == units::SnapshotId::default() {
        return None;
    }
    let found = snapshots.iter().find(|s| s.id == record.origin);
    Some(match found {
        Some(s) if s.kind == SnapshotKind::Volume => s.name.clone(),
        Some(s) => {
            let id = s.id.to_string();
            format!("{}@{}", s.name, id.get(..8).unwrap_or_default())
        }
        None => record.origin.to_string(),
    })
}

/// Returns the size of its chunks, bytes.
pub fn chunk_bytes(record: &VolumeRecord) -> u64 {
    match record.root.layout {
        Layout::Fixed(log2) => 1 << log2,
        Layout::Variable => 0,
    }
}

/// Adds the fields of a volume.
pub fn volume(object: Object, status: &VolumeStatus) -> Object {
    let record = &status.record;
    object
        .text("name", &record.name)
        .text("id", &record.id.to_string())
        .integer("size_bytes", record.root.len)
        .integer("chunk_bytes", chunk_bytes(record))
        .time("made", record.made)
}
