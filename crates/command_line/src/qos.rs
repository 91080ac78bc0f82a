//! Arguments of `qos`. [`super::Command`] includes them.
//!
//! Invariant: see [`super`].

use clap::{Args, Subcommand};

/// Show or set the shares of a server's device, and what the server begins by itself.
#[derive(Debug, Subcommand)]
pub enum QosCommand {
    /// Show the shares, and what each flow has had so far
    #[command(after_help = "\
Examples:
  quintet qos show
  quintet qos show --json")]
    Show,
    /// Set shares until the server ends
    Set(QosSetArgs),
}

/// Arguments of `set`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet qos set random=40
  quintet qos set floor.scrub=5 floor.collect=10
  quintet qos set gc=off
  quintet qos set device=disk weight.backup=1 latency.random=50

Keys:
  device         auto, disk or ssd: the cost of requests; auto learns it from
                 the time that reads take
  in-flight      requests at the device at once: auto (8 on a disk, 32 on an
                 ssd) or 2 to 4096; an array needs one for each of its disks
  random         percent of a busy device for random reads of clients (20)
  weight.FLOW    weights. sequential, restore and backup share the rest of a
                 busy device; replication, collect, scrub and defragment share
                 the time without clients
  floor.FLOW     percent of a busy device for replication, collect, scrub or
                 defragment
  floors         percent for these four together when a deadline is near
  latency.FLOW   mean latency in milliseconds above which less important
                 requests are delayed; any: never
  delay          maximum delay of a request in milliseconds
  TASK-within    deadline for a run of copy, gc, scrub or defrag (0: none). Its
                 share of a busy device rises as needed. scrub-within: 30d; then
                 the next scrub begins
  scrub          auto: the server begins scrubs by itself; off: it does not
  hot-chunks     percent of what is read at random that the server copies by
                 itself in a week into small regions, so that cold reads of hot
                 chunks are short (3); off: only quintet defrag does
  gc             auto: the server collects space by itself; off: it does not
  gc-free        percent of the disk; with less free space the server collects
                 at once (10) ...
  gc-free-max    ... but never above this much free space (16G)
  gc-unused      percent of the pool that may be unused before the server
                 collects while no client asks for anything (20)

A server begins with the shares of `quintet serve --qos`.")]
pub struct QosSetArgs {
    /// The shares to set
    #[arg(value_name = "KEY=VALUE", required = true)]
    pub shares: Vec<String>,
}
