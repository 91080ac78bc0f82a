//! The rooms of a server in virtual time: what is in memory or on flash takes no time of the disks,
//! and the same run takes the same time.

use chunking::Compression;
use evaluation::disk::{DiskModel, MILLISECOND, Ns};
use evaluation::rooms::array::ArrayModel;
use evaluation::rooms::machine::{FastSettings, Machine, MachineSettings};
use evaluation::rooms::recorder::{Charge, DeviceName, FileUse};
use evaluation::rooms::server::VirtualServer;
use evaluation::rooms::ssd::SsdModel;
use evaluation::rooms::world::{Owner, World};
use media::{Random, SeededRandom};
use volume::{Durability, RequestContext, Volume};
use volumes::Switches;

const MIB: u64 = 1 << 20;
const BYTES: u64 = 128 * MIB;
const CLIENTS: u64 = 8;

fn world() -> World {
    let array = ArrayModel {
        disks: 4,
        copies: 1,
        stripe_bytes: 256 << 10,
        disk: DiskModel {
            capacity: 1 << 30,
            ..DiskModel::SERVER
        },
    };
    World::new(array, SsdModel::OF_2008)
}

fn server(fast: Option<FastSettings>) -> VirtualServer {
    let settings = MachineSettings {
        memory_bytes: 48 << 20,
        journal_bytes: 32 << 20,
        fast,
        policy: None,
        switches: Switches::default(),
        compression: Compression::None,
    };
    VirtualServer::new(Machine::new(&settings).expect("a machine"), world())
}

/// Fills a volume, then reads it at random, a fifth of it over and over. Returns the time of the
/// second half of the reads, and the disk reads for each of them.
fn read_hot(server: &mut VirtualServer) -> (Ns, f64) {
    let volumes = server.machine.volumes.clone();
    let volume = volumes.create("disk", BYTES, 12).expect("a volume");
    let mut bytes = vec![0; 256 << 10];
    let noise = SeededRandom::new(7);
    for at in (0..BYTES).step_by(bytes.len()) {
        noise.fill(&mut bytes);
        server.before_write().expect("room");
        let write = |_: &Machine| {
            let written = volume.write(RequestContext::CLIENT, at, &bytes, Durability::Volatile);
            written.expect("a write");
            Ok(())
        };
        let charges = server.record(write).expect("a write");
        server.world.begin(Owner::Client(0), charges, 0);
        server.next_ended().expect("no failure");
    }
    server.drain().expect("a checkpoint");
    let mut seed = sim::Seed::new(3);
    let mut page = [0; 4096];
    let mut issue = |server: &mut VirtualServer, client| {
        let at = seed.below(BYTES / 5 / 4096) * 5 * 4096;
        let read = |_: &Machine| {
            let done = volume.read(RequestContext::CLIENT, at, &mut page);
            done.expect("a read");
            Ok(())
        };
        let charges = server.record(read).expect("a read");
        server
            .world
            .begin(Owner::Client(client), charges, MILLISECOND / 10);
    };
    (0..CLIENTS).for_each(|client| issue(server, client));
    let (reads, mut begun) = (40_000, 0);
    for nth in 0..reads {
        if nth == reads / 2 {
            begun = server.world.now();
            server.world.take_traffic();
        }
        let ended = server.next_ended().expect("no failure").expect("a client");
        let Owner::Client(client) = ended.owner else {
            panic!("{ended:?}");
        };
        issue(server, client);
    }
    let traffic = server.world.take_traffic();
    let of = traffic.get(&(DeviceName::Pool, FileUse::Container, false));
    let requests = of.map_or(0, |of| of.requests);
    (
        server.world.now() - begun,
        requests as f64 / (reads / 2) as f64,
    )
}

#[test]
fn flash_takes_random_reads_from_the_disks() {
    let (without, disk_reads) = read_hot(&mut server(None));
    let fast = FastSettings {
        daily_writes_hundredths: 1_000_000,
        ..FastSettings::of(96 * MIB)
    };
    let (with, left) = read_hot(&mut server(Some(fast)));
    assert!(
        disk_reads > 0.3 && left < disk_reads / 4.0,
        "{disk_reads}, {left}"
    );
    assert!(with * 4 < without, "{with}, {without}");
    assert_eq!((with, left), read_hot(&mut server(Some(fast))));
}

#[test]
fn checkpoints_read_a_record_once_whose_pages_have_left_memory() {
    const WRITE: u64 = 32 << 10;
    let settings = MachineSettings {
        memory_bytes: 48 << 20,
        journal_bytes: 128 << 20,
        fast: None,
        policy: None,
        switches: Switches::default(),
        compression: Compression::None,
    };
    let machine = Machine::new(&settings).expect("a machine");
    let volume = machine.volumes.create("disk", BYTES, 12).expect("a volume");
    let mut order: Vec<u64> = (0..BYTES / 2 / WRITE).collect();
    sim::Seed::new(5).shuffle(&mut order);
    let mut bytes = vec![0; WRITE as usize];
    for at in order {
        SeededRandom::new(at).fill(&mut bytes);
        let at = at * 2 * WRITE;
        let written = volume.write(RequestContext::CLIENT, at, &bytes, Durability::Volatile);
        written.expect("a write");
    }
    machine.volumes.flush().expect("a flush");
    machine.recorder.take();
    machine.volumes.checkpoint().expect("a checkpoint");
    let charges = machine.recorder.take();
    let of = |charge: &&Charge| charge.of == FileUse::Journal && !charge.is_write;
    let reads: Vec<&Charge> = charges.iter().filter(of).collect();
    let read: u64 = reads.iter().map(|charge| charge.bytes).sum();
    assert!(
        read > BYTES / 8,
        "most pages have left memory: {read} bytes"
    );
    assert!(read <= BYTES / 2 * 11 / 10, "{read} bytes");
    let back = reads
        .windows(2)
        .filter(|two| two[1].address < two[0].address);
    assert!(
        back.count() * 10 < reads.len(),
        "in the order of the journal"
    );
}
