//! Arguments of `mount`.

use super::inspect::FilterArgs;
use clap::Args;
use std::path::PathBuf;

/// Show snapshots as files.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet mount /mnt
  cp -a /mnt/snapshots/latest/home/alice/work /tmp
  mount -o loop,ro /mnt/snapshots/2026-11-20T03:00:00+00:00/disk /media
  fusermount3 -u /mnt

Snapshots are in snapshots/TIME; ids/, hosts/ and tags/ lead there. The pool is shown as it is now:
what is stored later is not seen. Runs until it is unmounted or interrupted (Ctrl-C).")]
pub struct MountArgs {
    /// Empty directory to show them in
    #[arg(value_name = "MOUNTPOINT")]
    pub mountpoint: PathBuf,
    /// Other users may look too, as far as the files' owners and modes allow
    #[arg(long)]
    pub allow_other: bool,
    /// With --allow-other: other users may read everything
    #[arg(long, requires = "allow_other")]
    pub no_default_permissions: bool,
    /// Which snapshots are shown.
    #[command(flatten)]
    pub filter: FilterArgs,
}
