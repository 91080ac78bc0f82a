//! Shows a volume in memory as a file, for tests and measurements.
//!
//! Run `fuse_memory [--size BYTES] [--read-only] [--threads N] MOUNTPOINT`.
//! The file is `disk`. It prints `ready` and runs until it is unmounted.

use fuse::{FixedVolumes, MountOptions, Session, SessionOptions, VolumeFiles, mount};
use media::SystemClock;
use std::path::PathBuf;
use std::sync::Arc;
use volume::{MemoryVolume, ReadOnly, Volume};

type Failed = Box<dyn std::error::Error>;

fn main() -> Result<(), Failed> {
    let mut arguments = std::env::args().skip(1);
    let mut options = SessionOptions::default();
    let (mut size, mut read_only, mut place) = (64 << 20, false, None);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or("a value is missing");
        match argument.as_str() {
            "--size" => size = value()?.parse()?,
            "--read-only" => read_only = true,
            "--threads" => options.threads = value()?.parse()?,
            _ => place = Some(PathBuf::from(argument)),
        }
    }
    let place = place.ok_or("where to mount is missing")?.canonicalize()?;
    let mut volume: Arc<dyn Volume> = Arc::new(MemoryVolume::new(size));
    if read_only {
        volume = Arc::new(ReadOnly::new(volume));
    }
    let volumes = Arc::new(FixedVolumes::default().with("disk", volume));
    let files = Arc::new(VolumeFiles::new(volumes, Arc::new(SystemClock)));
    let mounted = mount(
        &place,
        &MountOptions {
            name: "memory".to_owned(),
            read_only,
            allow_other: false,
            enforce_permissions: false,
        },
    )?;
    let session = Session::start(mounted.device, files, &options)?;
    println!("ready");
    session.wait()?;
    println!("unmounted");
    Ok(())
}
