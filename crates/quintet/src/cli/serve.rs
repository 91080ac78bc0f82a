//! Arguments of `serve`. [`super::Command`] includes them.
//!
//! Invariant: see [`super`].

use super::replica::ReplicaArgs;
use clap::{Args, Subcommand};
use server::sizes;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Hold the pool and serve what is in it, until a signal.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  quintet serve --nbd-socket /run/quintet/nbd.sock
  quintet serve --nbd-listen 127.0.0.1:10809 --memory 4G
  quintet serve --mount /mnt
  quintet serve --replica /mnt/other/pool --replica-password-file /root/other.password
  systemd-run --property Type=notify quintet -r /srv/pool serve --nbd-socket /run/nbd.sock
  nbdinfo --list 'nbd+unix:///?socket=/run/quintet/nbd.sock'

Volumes are exported under their names, their snapshots as VOLUME@NAME, images as NAME and
NAME@SNAPSHOT, those that are made later too. Commands that write to the pool (backup, forget, import,
key, repair, tag, volume) are run by the server while there is one; the others read the pool themselves.
SIGTERM and SIGINT end it in good order."
)]
pub struct ServeArgs {
    /// The subcommand, which serves without holding the pool for writing.
    #[command(subcommand)]
    pub command: Option<ServeCommand>,
    /// Settings of a server that holds the pool.
    #[command(flatten)]
    pub server: ServePoolArgs,
}

/// Where a server that holds its pool serves it.
#[derive(Args, Debug)]
pub struct ServePoolArgs {
    /// Unix socket for NBD clients; only this user can connect
    #[arg(long, value_name = "PATH")]
    pub nbd_socket: Option<PathBuf>,
    /// Loopback address for NBD clients
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:10809")]
    pub nbd_listen: Option<SocketAddr>,
    /// Empty directory to show volumes, images and snapshots in, as files
    #[arg(long, value_name = "DIRECTORY")]
    pub mount: Option<PathBuf>,
    /// With --mount: other users may look too, as far as owners and modes allow
    #[arg(long, requires = "mount")]
    pub allow_other: bool,
    /// Loopback address where Prometheus may ask for /metrics
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub metrics: Option<SocketAddr>,
    /// Size of the journal: what volumes acknowledge before it is in containers
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = sizes::parse)]
    pub journal: u64,
    /// NBD connections at the same time
    #[arg(long, value_name = "N", default_value = "128")]
    pub connections: u16,
    /// Do not remember what is read: defrag will not know it
    #[arg(long)]
    pub no_trace: bool,
    /// Shares of the device, and what the server begins by itself (gc=off scrub=off: nothing); see
    /// quintet qos set --help
    #[arg(long, value_name = "KEY=VALUE", num_args = 1..)]
    pub qos: Vec<String>,
    /// The replica for all scrubs, including those that the server begins by itself.
    #[command(flatten)]
    pub replica: ReplicaArgs,
}

/// Serve stored images in place.
#[derive(Debug, Subcommand)]
pub enum ServeCommand {
    /// Serve what is in the pool now, read-only, as network block devices
    Nbd(NbdArgs),
}

/// Serve what is in the pool now, read-only, as network block devices.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet serve nbd --read-only --socket /run/quintet.sock
  quintet serve nbd --read-only --listen 127.0.0.1:10809 --export disk --memory 1G
  nbdinfo --list nbd+unix:///?socket=/run/quintet.sock
  qemu-system-x86_64 -drive file=nbd:unix:/run/quintet.sock:exportname=disk,format=raw,snapshot=on

Every image is exported under its NAME (its newest state) and as NAME@SNAPSHOT, every snapshot of a
volume as VOLUME@NAME.")]
pub struct NbdArgs {
    /// Clients may only read; required, as this way serves snapshots only
    #[arg(long, required = true)]
    pub read_only: bool,
    /// Unix socket to listen on; only this user can connect
    #[arg(long, value_name = "PATH", required_unless_present = "listen")]
    pub socket: Option<PathBuf>,
    /// Loopback address to listen on
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "socket", num_args = 0..=1, default_missing_value = "127.0.0.1:10809")]
    pub listen: Option<SocketAddr>,
    /// Only these: NAME, NAME@SNAPSHOT, or SNAPSHOT:/PATH for a file of a tree; by default all
    /// images
    #[arg(long, value_name = "NAME[@SNAPSHOT]", num_args = 1..)]
    pub export: Vec<String>,
    /// Connections at the same time
    #[arg(long, value_name = "N", default_value = "128")]
    pub connections: u16,
}
