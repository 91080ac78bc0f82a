//! Arguments of `qos`. [`super::Command`] includes them.
//!
//! Invariant: see [`super`].

use clap::{Args, Subcommand};

/// Show or set who gets how much of a server's device, and what it begins by itself.
#[derive(Debug, Subcommand)]
pub enum QosCommand {
    /// Show the shares, and what each kind of request had so far
    #[command(after_help = "\
Examples:
  quintet qos show
  quintet qos show --json")]
    Show,
    /// Set shares, until the server ends
    Set(QosSetArgs),
}

/// Which shares.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet qos set random=40
  quintet qos set floor.scrub=5 floor.collect=10
  quintet qos set gc=off
  quintet qos set device=disk weight.backup=1 latency.random=50

Keys:
  device         auto, disk or ssd: what requests cost; auto follows what reads take
  random         percent of a busy device for clients that read here and there (20)
  weight.FLOW    how sequential, restore and backup share the rest, and replication, collect, scrub
                 and defragment the time in which no client asks for anything
  floor.FLOW     percent of a busy device for replication, collect, scrub, defragment
  floors         percent for all of them together when a deadline is near
  latency.FLOW   mean milliseconds from which on requests that matter no more are held back; any: none
  delay          milliseconds that a request is held back at most
  TASK-within    time in which a run of copy, gc, scrub or defrag should be through (0: whenever; scrub
                 30d, and then the next one begins): its share of a busy device rises as that needs
  scrub          auto: the server begins scrubs by itself; off: it does not
  gc             auto: the server collects space by itself; off: it does not
  gc-free        percent of the disk below which free space is little: then it collects at once (10) ...
  gc-free-max    ... or this, if that is less (16G)
  gc-unused      percent of the pool that may be there in vain before it collects when nobody asks for
                 anything (20)

A server begins with what `quintet serve --qos` says.")]
pub struct QosSetArgs {
    /// The shares to set
    #[arg(value_name = "KEY=VALUE", required = true)]
    pub shares: Vec<String>,
}
