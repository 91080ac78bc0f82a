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

Volumes are in volumes/NAME, to be written, and their snapshots in volumes/NAME@LABEL; images in images/NAME
and images/NAME@SNAPSHOT; all snapshots in snapshots/TIME, where ids/, hosts/ and tags/ lead. What is made or
removed later appears and disappears. Runs until it is unmounted or interrupted (Ctrl-C). If the pool has a
server, the server serves the files; if not, this holds the pool and runs the commands of others, as serve does.")]
pub struct MountArgs {
    /// Empty directory to show them in
    #[arg(value_name = "MOUNTPOINT")]
    pub mountpoint: PathBuf,
    /// Only look: the pool as it is now, without volumes, without holding it
    #[arg(long)]
    pub read_only: bool,
    /// Other users may look too, as far as the files' owners and modes allow
    #[arg(long)]
    pub allow_other: bool,
    /// With --allow-other: other users may read everything; nobody can write
    #[arg(long, requires = "allow_other")]
    pub no_default_permissions: bool,
    /// Filter for snapshots.
    #[command(flatten)]
    pub filter: FilterArgs,
}

/// Unmount what a program that has ended has left mounted. The program starts this for itself.
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
