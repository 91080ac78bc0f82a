//! Arguments of `mount`. [`super::Command`] includes them.
//!
//! Invariant: see [`super`].

use super::inspect::FilterArgs;
use clap::Args;
use std::path::PathBuf;

/// Show volumes, images and snapshots as files.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet mount /mnt &
  mkfs.ext4 /mnt/volumes/web1 && mount -o loop /mnt/volumes/web1 /srv/web1
  mount -o loop,ro /mnt/images/disk /media
  cp -a /mnt/snapshots/latest/home/alice/work /tmp
  umount /mnt

Volumes are in volumes/NAME and can be written. Their snapshots are in volumes/NAME@LABEL. Images are in
images/NAME and images/NAME@SNAPSHOT. All snapshots are in snapshots/TIME; ids/, hosts/ and tags/ link to
them. New objects appear and removed ones disappear. The command runs until it is unmounted or interrupted
(Ctrl-C). If the pool has a server, the server serves the files. Otherwise this command is the server and
runs the commands of others, as `quintet serve` does.")]
pub struct MountArgs {
    /// Empty directory for the mount
    #[arg(value_name = "MOUNTPOINT")]
    pub mountpoint: PathBuf,
    /// Mount even over a directory that has files, which are hidden meanwhile
    #[arg(long)]
    pub over: bool,
    /// Show the current snapshots read-only, without volumes; another process may write to the pool
    #[arg(long)]
    pub read_only: bool,
    /// Let other users read too, as far as the files' owners and modes allow
    #[arg(long)]
    pub allow_other: bool,
    /// With --allow-other: let other users read everything; nobody can write
    #[arg(long, requires = "allow_other")]
    pub no_default_permissions: bool,
    /// Filter for snapshots.
    #[command(flatten)]
    pub filter: FilterArgs,
}

/// Remove the mount of a program that has ended. The program starts this by itself.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet mount-guard /mnt 4711")]
pub struct MountGuardArgs {
    /// The mountpoint
    pub mountpoint: PathBuf,
    /// The process that serves it
    pub process: i32,
}
