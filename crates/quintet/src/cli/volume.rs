//! Arguments of `volume`. [`super::Command`] includes them.
//!
//! Invariant: see [`super`].

use clap::{Args, Subcommand};
use server::sizes;

/// Writable disks in the pool.
#[derive(Debug, Subcommand)]
pub enum VolumeCommand {
    /// Make a disk of zeroes
    #[command(after_help = "\
Examples:
  quintet volume create web1 --size 100G
  quintet volume create db --size 2T --chunk-size 16K

A small chunk serves small random writes; a large one compresses better and needs less memory.")]
    Create(VolumeCreateArgs),
    /// List volumes
    #[command(after_help = "\
Examples:
  quintet volume list
  quintet volume list --json")]
    List,
    /// Make a volume with the contents of another one, of a snapshot or of an image
    #[command(after_help = "\
Examples:
  quintet volume clone web1 web2
  quintet volume clone web1@monday web1-of-monday
  quintet volume clone disk@3f2a91c4 rescued

Takes the same time whatever the size; what both hold is stored once.")]
    Clone(VolumeCloneArgs),
    /// Freeze a moment of a volume under a name
    #[command(after_help = "\
Examples:
  quintet volume snapshot web1@before-upgrade
  quintet forget web1@before-upgrade

Everything acknowledged before is in it; nobody has to stop writing.")]
    Snapshot {
        /// The volume, and what to call this moment of it
        #[arg(value_name = "VOLUME@NAME")]
        snapshot: String,
    },
    /// Put a volume back to a snapshot; what was written since is lost
    #[command(after_help = "\
Examples:
  quintet volume rollback web1@before-upgrade --dry-run
  quintet volume rollback web1@before-upgrade --force")]
    Rollback(VolumeRollbackArgs),
    /// Make a volume larger, by zeroes, or smaller
    #[command(after_help = "\
Examples:
  quintet volume resize web1 200G
  quintet volume resize web1 50G --shrink")]
    Resize(VolumeResizeArgs),
    /// Remove a volume; its snapshots stay
    #[command(after_help = "\
Examples:
  quintet volume delete web2 --dry-run
  quintet volume delete web2")]
    Delete(VolumeDeleteArgs),
}

/// Make a disk of zeroes.
#[derive(Args, Debug)]
pub struct VolumeCreateArgs {
    /// Name of the volume
    pub name: String,
    /// How large it looks; it takes space as it is written
    #[arg(short, long, value_name = "SIZE", value_parser = sizes::parse)]
    pub size: u64,
    /// Unit of storing and deduplicating: 4K, 8K, 16K, 32K or 64K
    #[arg(long, value_name = "SIZE", default_value = "4K", value_parser = sizes::parse)]
    pub chunk_size: u64,
}

/// Make a volume with contents.
#[derive(Args, Debug)]
pub struct VolumeCloneArgs {
    /// A volume as it is now, VOLUME@NAME, or an image as NAME or NAME@SNAPSHOT
    pub source: String,
    /// Name of the new volume
    pub name: String,
}

/// Put a volume back.
#[derive(Args, Debug)]
pub struct VolumeRollbackArgs {
    /// The snapshot
    #[arg(value_name = "VOLUME@NAME")]
    pub snapshot: String,
    /// Also when clients use it: they are disconnected
    #[arg(short, long)]
    pub force: bool,
    /// Say what would be done, and do nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
}

/// Change a volume's size.
#[derive(Args, Debug)]
pub struct VolumeResizeArgs {
    /// The volume
    pub name: String,
    /// The new size
    #[arg(value_parser = sizes::parse)]
    pub size: u64,
    /// Smaller is meant: what is cut off is lost
    #[arg(long)]
    pub shrink: bool,
    /// Shrink also when clients use it: they are disconnected
    #[arg(short, long)]
    pub force: bool,
    /// Say what would be done, and do nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
}

/// Remove a volume.
#[derive(Args, Debug)]
pub struct VolumeDeleteArgs {
    /// The volume
    pub name: String,
    /// Also when clients use it: they are disconnected
    #[arg(short, long)]
    pub force: bool,
    /// Say what would be done, and do nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
}
