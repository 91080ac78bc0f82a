//! Arguments of `import` and `export`. [`super::Command`] includes them.
//!
//! Invariant: see [`super`].

use clap::{Args, ValueEnum};
use std::path::PathBuf;
use terminal::sizes;

/// Format of a disk image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ImageFormat {
    /// Plain bytes; import also reads block devices
    Raw,
    /// QEMU
    Qcow2,
    /// VMware
    Vmdk,
    /// Hyper-V
    Vhdx,
    /// VirtualBox
    Vdi,
    /// Virtual PC and Azure
    Vhd,
}

impl ImageFormat {
    /// Returns the name of the format on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Qcow2 => "qcow2",
            Self::Vmdk => "vmdk",
            Self::Vhdx => "vhdx",
            Self::Vdi => "vdi",
            Self::Vhd => "vhd",
        }
    }

    /// Returns the name of the format for qemu-img.
    pub fn of_qemu(self) -> &'static str {
        match self {
            Self::Vhd => "vpc",
            other => other.name(),
        }
    }
}

/// Store a disk image.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet import -f raw /dev/vg/disk disk
  quintet import -p disk.qcow2 disk --tag before-upgrade
  quintet import -f qcow2 overlay.qcow2 disk        (reads its backing file too)
  quintet import nbd://server/disk disk             (an export of an NBD server)
  quintet import 'nbd+unix:///disk?socket=/run/nbd.sock' disk
  ssh host cat /dev/vg/disk | quintet import - disk
  quintet import disk.img old --region-size 1536K   (smaller, slower to run)")]
pub struct ImportArgs {
    /// Image file or block device; nbd://HOST[:PORT]/EXPORT or nbd+unix:///EXPORT?socket=PATH; - is
    /// standard input
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// Name of the image in the pool
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Its format. By default what its first bytes tell. -f raw stores the bytes of the file as
    /// they are. Needed for images that read other files, such as a backing file
    #[arg(short = 'f', long, value_name = "FORMAT")]
    pub format: Option<ImageFormat>,
    /// Store what is left of a truncated or damaged image. The snapshot is marked as incomplete,
    /// and the exit code is 3
    #[arg(long)]
    pub allow_damaged: bool,
    /// Store zeroes for what the disk cannot read, and list it. The snapshot is marked as
    /// incomplete, and the exit code is 3
    #[arg(long)]
    pub skip_bad_sectors: bool,
    /// Show progress, also when standard error is not a terminal
    #[arg(short, long)]
    pub progress: bool,
    /// Maximum bytes read each second (10M), without holes; no more are stored either. 0: no limit
    #[arg(long, value_name = "RATE", value_parser = sizes::parse)]
    pub limit: Option<u64>,
    /// Read everything again, even if the source reports no change
    #[arg(long)]
    pub force: bool,
    /// Save no snapshot if contents, names, metadata and tags are those of the last one. One that
    /// lacks something is saved
    #[arg(long, conflicts_with = "dry_run")]
    pub skip_if_unchanged: bool,
    /// Tag of the new snapshot; several with commas or repeated
    #[arg(long, value_name = "TAG", value_delimiter = ',')]
    pub tag: Vec<String>,
    /// Host of the new snapshot; by default this one
    #[arg(short = 'H', long, value_name = "NAME")]
    pub host: Option<String>,
    /// Time of the new snapshot; by default now
    #[arg(long, value_name = "TIME")]
    pub time: Option<String>,
    /// Compression of new data: zstd, zstd:LEVEL, lz4, none, auto or max
    #[arg(long, value_name = "METHOD")]
    pub compression: Option<String>,
    /// Region size of new data, the unit of compression and of reads: 64 KiB to 1536 KiB. By
    /// default 128 KiB. Larger regions take less space; machines run slower from them
    #[arg(long, value_name = "SIZE", value_parser = super::backup::region_size)]
    pub region_size: Option<usize>,
    /// Show what would be stored, and store nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
}

/// Write a stored disk image, or the state of a volume, to a file.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet export -f raw disk@latest disk.raw
  quintet export -f qcow2 -p disk@3f2a91c4 disk.qcow2
  quintet export web1 web1.raw                          (a volume, as it is now)
  quintet export web1@monday - | ssh host 'cat >/dev/vg/disk'")]
pub struct ExportArgs {
    /// Name of the image or volume; with @SNAPSHOT that state of it, else the newest of an image,
    /// and the present contents of a volume
    #[arg(value_name = "SOURCE")]
    pub image: String,
    /// File to write. A block device is refused. - is standard output
    #[arg(value_name = "OUT")]
    pub out: PathBuf,
    /// Its format
    #[arg(short = 'f', long, value_name = "FORMAT", default_value = "raw")]
    pub format: ImageFormat,
    /// Show progress, also when standard error is not a terminal
    #[arg(short, long)]
    pub progress: bool,
    /// Maximum bytes read from the pool each second (10M), compressed as they are stored; of a
    /// volume's present contents, bytes of the volume without zeroes. 0: no limit
    #[arg(long, value_name = "RATE", value_parser = sizes::parse)]
    pub limit: Option<u64>,
    /// Overwrite an existing file
    #[arg(long)]
    pub force: bool,
    /// For the newest: only snapshots of this host
    #[arg(short = 'H', long, value_name = "NAME")]
    pub host: Vec<String>,
}
