//! Arguments of `volume`. [`super::Command`] includes them.
//!
//! Invariant: see [`super`].

use clap::{Args, Subcommand};
use terminal::sizes;

/// Writable disks in the pool.
#[derive(Debug, Subcommand)]
pub enum VolumeCommand {
    /// Create a volume full of zeroes
    #[command(after_help = "\
Examples:
  quintet volume create web1 --size 100G
  quintet volume create db --size 2T --chunk-size 16K

Small chunks suit small random writes. Large chunks compress better and need less memory.")]
    Create(VolumeCreateArgs),
    /// List volumes
    #[command(after_help = "\
Examples:
  quintet volume list
  quintet volume list --json")]
    List,
    /// Show a volume, its snapshots, and whether it is served
    #[command(after_help = "\
Examples:
  quintet volume info web1
  quintet volume info web1 --json")]
    Info(VolumeInfoArgs),
    /// Rename a volume; its snapshots follow
    #[command(after_help = "\
Examples:
  quintet volume rename web1 web-old

Clients connect by name, so a volume in use is refused. Snapshots in the trash keep the old name.")]
    Rename(VolumeRenameArgs),
    /// Create a volume with the contents of another volume, a snapshot or an image
    #[command(after_help = "\
Examples:
  quintet volume clone web1 web2
  quintet volume clone web1@monday web1-of-monday
  quintet volume clone disk@3f2a91c4 rescued

The time does not depend on the size. Common data is stored once.")]
    Clone(VolumeCloneArgs),
    /// Take a snapshot of a volume
    #[command(after_help = "\
Examples:
  quintet volume snapshot web1@before-upgrade
  quintet forget web1@before-upgrade

The snapshot contains every write that was acknowledged before. Writers need not stop.")]
    Snapshot {
        /// The volume, and the name of the snapshot
        #[arg(value_name = "VOLUME@NAME")]
        snapshot: String,
    },
    /// Reset a volume to a snapshot; later writes go to the trash
    #[command(after_help = "\
Examples:
  quintet volume rollback web1@before-upgrade --dry-run
  quintet volume rollback web1@before-upgrade --force")]
    Rollback(VolumeRollbackArgs),
    /// Make a volume larger or smaller; new space reads as zeroes
    #[command(after_help = "\
Examples:
  quintet volume resize web1 200G
  quintet volume resize web1 50G --shrink")]
    Resize(VolumeResizeArgs),
    /// Remove a volume; its snapshots stay, and `undelete` takes it back for a while
    #[command(after_help = "\
Examples:
  quintet volume delete web2 --dry-run
  quintet volume delete web2")]
    Delete(VolumeDeleteArgs),
}

/// Create a volume full of zeroes.
#[derive(Args, Debug)]
pub struct VolumeCreateArgs {
    /// Name of the volume
    pub name: String,
    /// Size that clients see; only written data takes space
    #[arg(short, long, value_name = "SIZE", value_parser = sizes::parse)]
    pub size: u64,
    /// Unit of storing and deduplicating: 4K, 8K, 16K, 32K or 64K
    #[arg(long, value_name = "SIZE", default_value = "4K", value_parser = sizes::parse)]
    pub chunk_size: u64,
}

/// Create a volume with contents.
#[derive(Args, Debug)]
pub struct VolumeCloneArgs {
    /// A volume in its current state, VOLUME@NAME, or an image as NAME or NAME@SNAPSHOT
    pub source: String,
    /// Name of the new volume
    pub name: String,
}

/// Show a volume.
#[derive(Args, Debug)]
pub struct VolumeInfoArgs {
    /// The volume
    #[arg(value_name = "VOLUME")]
    pub name: String,
}

/// Rename a volume.
#[derive(Args, Debug)]
pub struct VolumeRenameArgs {
    /// The volume
    #[arg(value_name = "VOLUME")]
    pub name: String,
    /// Its new name
    #[arg(value_name = "NEW")]
    pub new: String,
}

/// Reset a volume.
#[derive(Args, Debug)]
pub struct VolumeRollbackArgs {
    /// The snapshot
    #[arg(value_name = "VOLUME@NAME")]
    pub snapshot: String,
    /// See there.
    #[command(flatten)]
    pub loss: VolumeLossArgs,
    /// Show what would be done, and change nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
}

/// Change a volume's size.
#[derive(Args, Debug)]
pub struct VolumeResizeArgs {
    /// The volume
    #[arg(value_name = "VOLUME")]
    pub name: String,
    /// The new size
    #[arg(value_parser = sizes::parse)]
    pub size: u64,
    /// Allow a smaller size; the data beyond it go to the trash
    #[arg(long)]
    pub shrink: bool,
    /// See there.
    #[command(flatten)]
    pub loss: VolumeLossArgs,
    /// Show what would be done, and change nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
}

/// Remove a volume.
#[derive(Args, Debug)]
pub struct VolumeDeleteArgs {
    /// The volume
    #[arg(value_name = "VOLUME")]
    pub name: String,
    /// See there.
    #[command(flatten)]
    pub loss: VolumeLossArgs,
    /// Show what would be done, and change nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
}

/// How contents are taken away.
#[derive(Args, Debug)]
pub struct VolumeLossArgs {
    /// Proceed even if clients use it; this disconnects them, and asks nothing
    #[arg(short, long)]
    pub force: bool,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
    /// Do not keep the contents in the trash: they cannot be undeleted
    #[arg(long)]
    pub purge: bool,
}
