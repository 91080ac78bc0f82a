//! `slow_disk [--flash] DIRECTORY MEBIBYTES [LOG]`: mounts a file `disk` that is as slow as a disk
//! with arms (or a slowed SSD: [`DiskModel::FLASH_SLOWED`]), until it is unmounted or standard
//! input ends. A loop device over it (`losetup --direct-io=on`) is a disk for measurements;
//! `bench/qos.py` uses that.
//!
//! LOG receives arrival, start and end of each request.
//!
//! However small the file is, the arm takes as long across it as across a whole disk. Contents are
//! in memory.
//!
//! Invariant: a request takes at least the time of the model.

use evaluation::disk::{Disk, DiskModel};
use evaluation::slow_disk::SlowDisk;
use fuse::{FixedVolumes, MountOptions, Session, SessionOptions, VolumeFiles};
use media::SystemClock;
use std::error::Error;
use std::fs::File;
use std::io::{LineWriter, Read};
use std::path::Path;
use std::sync::Arc;

/// Number of requests among which the drive chooses.
const QUEUE_DEPTH: usize = 32;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).peekable();
    let is_flash = arguments.next_if(|first| first == "--flash").is_some();
    let (Some(directory), Some(mib)) = (arguments.next(), arguments.next()) else {
        return Err("usage: slow_disk [--flash] DIRECTORY MEBIBYTES [LOG]".into());
    };
    let size_bytes = mib.parse::<u64>()? << 20;
    let model = match is_flash {
        true => DiskModel::FLASH_SLOWED,
        false => DiskModel {
            capacity: size_bytes,
            ..DiskModel::SERVER
        },
    };
    let mut volume = SlowDisk::new(size_bytes, Disk::new(model));
    if let Some(log) = arguments.next() {
        volume = volume.with_log(Box::new(LineWriter::new(File::create(log)?)));
    }
    let volume = Arc::new(volume);
    let files = FixedVolumes::default().with("disk", volume);
    let files = VolumeFiles::new(Arc::new(files), Arc::new(SystemClock));
    let options = MountOptions {
        name: "slow_disk".to_owned(),
        read_only: false,
        allow_other: false,
        enforce_permissions: false,
    };
    let mounted = fuse::mount(&Path::new(&directory).canonicalize()?, &options)?;
    let options = SessionOptions {
        threads: QUEUE_DEPTH,
        ..SessionOptions::default()
    };
    let session = Session::start(mounted.device, Arc::new(files), &options)?;
    println!("ready");
    let unmounter = mounted.unmounter;
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        if let Err(e) = unmounter.unmount(true) {
            eprintln!("slow_disk: {e}");
        }
    });
    Ok(session.wait()?)
}
