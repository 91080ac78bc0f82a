//! Arguments of `serve`.

use clap::{Args, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Serve stored images in place.
#[derive(Debug, Subcommand)]
pub enum ServeCommand {
    /// As network block devices
    Nbd(NbdArgs),
}

/// As network block devices.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet serve nbd --read-only --socket /run/quintet.sock
  quintet serve nbd --read-only --listen 127.0.0.1:10809 --export disk --memory 1G
  nbdinfo --list nbd+unix:///?socket=/run/quintet.sock
  qemu-system-x86_64 -drive file=nbd:unix:/run/quintet.sock:exportname=disk,format=raw,snapshot=on

Every image is exported under its NAME (its newest state) and as NAME@SNAPSHOT.")]
pub struct NbdArgs {
    /// Clients may only read; required, as this version serves snapshots only
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
