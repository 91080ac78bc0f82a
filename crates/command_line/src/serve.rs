//! Arguments of `serve`. [`super::Command`] includes them.
//!
//! Invariant: see [`super`].

use super::replica::ReplicaArgs;
use clap::{ArgGroup, Args, ValueEnum};
use classes::Share;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use terminal::sizes;

/// Serve the contents of the pool until a signal.
#[derive(Args, Debug, Default)]
#[command(
    group = ArgGroup::new("nbd").args(["nbd_socket", "nbd_listen"]).multiple(true),
    after_help = "\
Examples:
  quintet serve --nbd-socket /run/quintet/nbd.sock
  quintet serve --nbd-listen 127.0.0.1:10809 --memory 4G
  quintet serve --iscsi-listen 192.0.2.7:3260 --iscsi-access /etc/quintet/iscsi
  quintet serve --mount /mnt
  quintet serve --read-only --nbd-listen --export disk
  quintet serve --replica /mnt/pool --replica-password-file /root/other
  systemd-run --property Type=notify quintet serve --nbd-socket /run/nbd.sock
  nbdinfo --list 'nbd+unix:///?socket=/run/quintet/nbd.sock'

The server exports volumes under their names, their snapshots as VOLUME@NAME, and images as NAME and
NAME@SNAPSHOT. New ones appear at once. While there is a server, it runs all commands that change the
pool (backup, copy, defrag, forget, gc, import, key, parity, repair, scrub, tag, undelete, volume) and
answers status, top, qos and policy status. Most dry runs, and commands that only read, read the pool
themselves. SIGTERM, SIGINT and SIGHUP end the server cleanly.

With --read-only it holds nothing: it exports the images and the snapshots of volumes that are in the
pool when it starts, and other commands go on as if it were not there.

The file of --iscsi-access says who may use which iSCSI target (chmod 600). It begins with those who may
use all that have no section of their own; a section that is empty lets no initiator in:

  user = web
  secret = at least 12 bytes
  initiator = iqn.1993-08.org.debian:01:d35f
  [discovery]
  user = look
  secret = another 12 bytes
  initiator = iqn.1993-08.org.debian:01:d35f
  [export db]
  user = db
  secret = 12 bytes of the database
  mutual-user = quintet
  mutual-secret = 12 bytes of this server
  initiator = iqn.1993-08.org.debian:01:77aa"
)]
pub struct ServeArgs {
    /// Serve images and snapshots of volumes as they are now, over NBD, without holding the pool
    #[arg(
        long,
        requires = "nbd",
        conflicts_with_all = [
            "iscsi_listen", "iscsi_access", "iscsi_write_cache", "mount", "metrics", "journal",
            "journal_on", "journal_mirror", "journal_lost", "fast", "fast_size", "policy", "without", "no_trace", "qos",
            "replica",
        ],
    )]
    pub read_only: bool,
    /// With --read-only: export only these: NAME, NAME@SNAPSHOT, or SNAPSHOT:/PATH for a file of a
    /// tree; by default all images and snapshots of volumes
    #[arg(long, value_name = "NAME[@SNAPSHOT]", num_args = 1.., requires = "read_only")]
    pub export: Vec<String>,
    /// Unix socket for NBD clients; only this user can connect
    #[arg(long, value_name = "PATH")]
    pub nbd_socket: Option<PathBuf>,
    /// Loopback address for NBD clients
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:10809")]
    pub nbd_listen: Option<SocketAddr>,
    /// Address for iSCSI initiators; each volume and image is a target. Off loopback it needs
    /// --iscsi-access with a secret and a list of initiators
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:3260")]
    pub iscsi_listen: Option<SocketAddr>,
    /// File that says who may use which iSCSI target: CHAP users, secrets and initiators; only this
    /// user may read it
    #[arg(long, value_name = "FILE")]
    pub iscsi_access: Option<PathBuf>,
    /// Acknowledge iSCSI writes before they are durable: faster, but an initiator that reconnects
    /// after a crash of the server does not learn which writes are lost
    #[arg(long)]
    pub iscsi_write_cache: bool,
    /// Empty directory in which volumes, images and snapshots appear as files
    #[arg(long, value_name = "DIRECTORY")]
    pub mount: Option<PathBuf>,
    /// With --mount: mount even over a directory that has files, which are hidden meanwhile
    #[arg(long, requires = "mount")]
    pub over: bool,
    /// With --mount: let other users read too, as far as owners and modes allow
    #[arg(long, requires = "mount")]
    pub allow_other: bool,
    /// Loopback address that serves /metrics for Prometheus
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub metrics: Option<SocketAddr>,
    /// Size of the journal, which holds acknowledged writes until they are in containers
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = sizes::parse)]
    pub journal: u64,
    /// Where the journal is: in the pool, or in the directory of --fast. Without this it stays
    /// where it was. It moves when a server starts, after everything in it was stored
    #[arg(long, value_name = "PLACE", value_enum)]
    pub journal_on: Option<JournalOn>,
    /// With --journal-on fast: also in the pool, so that losing the device loses nothing. Flushes
    /// then wait for both disks
    #[arg(long, requires = "journal_on")]
    pub journal_mirror: bool,
    /// The fast device with the journal is lost: go on without the acknowledged writes that were
    /// only there, and report them as lost
    #[arg(long, hide_short_help = true)]
    pub journal_lost: bool,
    /// Maximum number of connections of each socket; over iSCSI one address gets seven eighths
    #[arg(long, value_name = "N", default_value = "128")]
    pub connections: u16,
    /// Directory on a faster device that caches chunks (the fast tier); may vanish at any time
    #[arg(long, value_name = "DIRECTORY", requires = "fast_size")]
    pub fast: Option<PathBuf>,
    /// With --fast: bytes that the fast tier may take
    #[arg(long, value_name = "SIZE", requires = "fast", value_parser = sizes::parse)]
    pub fast_size: Option<u64>,
    /// With --fast: how the fingerprint index, data, recipes and container directories divide it,
    /// in percent; what the index does not need is the others'
    #[arg(
        long,
        value_name = "INDEX,DATA,RECIPES,DIRECTORIES",
        requires = "fast",
        default_value = "50,35,10,5",
        hide_short_help = true
    )]
    pub fast_shares: FastShares,
    /// Policy for I/O classes: the name of one that ships, or a file; see quintet policy show
    #[arg(long, value_name = "POLICY")]
    pub policy: Option<String>,
    /// Switch decisions off, to measure their gain: prefetch, direct-regions, shared-reads,
    /// unprobed-writes, fast-surroundings, fast-modified, fast-by-class; see docs/operations.md
    #[arg(
        long,
        value_name = "DECISION",
        value_delimiter = ',',
        hide_short_help = true
    )]
    pub without: Vec<String>,
    /// Record no trace of reads; defrag then knows no hot ranges
    #[arg(long)]
    pub no_trace: bool,
    /// Shares of the device, and what the server begins by itself (gc=off scrub=off hot-chunks=off:
    /// nothing); see quintet qos set --help
    #[arg(long, value_name = "KEY=VALUE", num_args = 1..)]
    pub qos: Vec<String>,
    /// The replica for all scrubs, including those that the server begins by itself.
    #[command(flatten)]
    pub replica: ReplicaArgs,
}

/// How the kinds of metadata and data divide the fast device. Together 100 hundredths. The default
/// is DDFS's (ATC'18, section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastShares {
    /// The fingerprint index.
    pub index: Share,
    /// Data chunks.
    pub data: Share,
    /// Recipe nodes.
    pub recipes: Share,
    /// Container directories.
    pub directories: Share,
}

impl Default for FastShares {
    fn default() -> Self {
        Self {
            index: Share::percent::<50>(),
            data: Share::percent::<35>(),
            recipes: Share::percent::<10>(),
            directories: Share::percent::<5>(),
        }
    }
}

impl FromStr for FastShares {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let usage = "four numbers of percent that add up to 100, such as 50,35,10,5";
        let part = |part: &str| {
            let number: Option<u8> = part.trim().parse().ok();
            number.and_then(Share::from_hundredths).ok_or(usage)
        };
        let parts: Vec<Share> = text.split(',').map(part).collect::<Result<_, _>>()?;
        let sum: u32 = parts.iter().map(|part| u32::from(part.hundredths())).sum();
        match parts[..] {
            [index, data, recipes, directories] if sum == 100 => Ok(Self {
                index,
                data,
                recipes,
                directories,
            }),
            _ => Err(usage.to_owned()),
        }
    }
}

/// Where the journal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum JournalOn {
    /// In the pool
    Pool,
    /// In the directory of --fast
    Fast,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_the_fast_tier_add_up() {
        assert_eq!("50,35,10,5".parse(), Ok(FastShares::default()));
        let other: FastShares = " 0, 100,0 ,0".parse().expect("shares");
        assert_eq!((other.index, other.data), (Share::NONE, Share::ALL));
        for wrong in [
            "",
            "50,35,10",
            "50,35,10,5,0",
            "60,35,10,5",
            "x,35,10,5",
            "-1,91,5,5",
        ] {
            assert!(FastShares::from_str(wrong).is_err(), "{wrong}");
        }
    }
}
