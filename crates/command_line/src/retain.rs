//! Arguments of `forget`, `tag` and `rewrite`. [`super::Command`] includes them.
//!
//! Invariant: see [`super`].

use super::inspect::FilterArgs;
use super::patterns::ExcludeArgs;
use clap::Args;
use retention::{GroupBy, Keep};
use terminal::calendar::Within;

/// Forget snapshots: those you name, or those that a policy does not keep.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet forget 3f2a91c4
  quintet forget --keep-daily 7 --keep-weekly 5 --keep-monthly 12 --dry-run
  quintet forget --keep-within 30d --keep-tag release --host web1

A snapshot stays if any rule keeps it. The rules apply to each host and set of paths separately. Rules
that would keep nothing are refused. For seven days `quintet undelete` restores forgotten snapshots. Then
`quintet gc` frees their space.")]
pub struct ForgetArgs {
    /// Snapshots to forget: latest, or beginnings of their names
    #[arg(value_name = "SNAPSHOT", conflicts_with = "rules")]
    pub snapshots: Vec<String>,
    /// Rules of the policy.
    #[command(flatten)]
    pub keep: KeepArgs,
    /// Filter for the snapshots that the rules see.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Properties that make a group: any of host, paths, tags, with commas
    #[arg(long, value_name = "WHAT", default_value = "host,paths", value_parser = GroupBy::parse)]
    pub group_by: GroupBy,
    /// Show which snapshots would be forgotten and why the others stay, and change nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
}

/// Rules of a policy.
#[derive(Args, Debug, Default)]
#[group(id = "rules", multiple = true)]
#[command(next_help_heading = "Rules")]
pub struct KeepArgs {
    /// Keep the newest N
    #[arg(long, value_name = "N", value_parser = Keep::parse)]
    pub keep_last: Option<Keep>,
    /// Keep the newest snapshot of each of the last N hours that have one
    #[arg(long, value_name = "N", value_parser = Keep::parse)]
    pub keep_hourly: Option<Keep>,
    /// The same for days
    #[arg(long, value_name = "N", value_parser = Keep::parse)]
    pub keep_daily: Option<Keep>,
    /// The same for weeks
    #[arg(long, value_name = "N", value_parser = Keep::parse)]
    pub keep_weekly: Option<Keep>,
    /// The same for months
    #[arg(long, value_name = "N", value_parser = Keep::parse)]
    pub keep_monthly: Option<Keep>,
    /// The same for years
    #[arg(long, value_name = "N", value_parser = Keep::parse)]
    pub keep_yearly: Option<Keep>,
    /// Keep all within this span before the newest, or before now if that is earlier (1y6mo, 30d,
    /// 12h; m and mo are months)
    #[arg(long, value_name = "SPAN", value_parser = Within::parse)]
    pub keep_within: Option<Within>,
    /// Keep the newest of each hour within this span
    #[arg(long, value_name = "SPAN", value_parser = Within::parse)]
    pub keep_within_hourly: Option<Within>,
    /// Keep the newest of each day within this span
    #[arg(long, value_name = "SPAN", value_parser = Within::parse)]
    pub keep_within_daily: Option<Within>,
    /// Keep the newest of each week within this span
    #[arg(long, value_name = "SPAN", value_parser = Within::parse)]
    pub keep_within_weekly: Option<Within>,
    /// Keep the newest of each month within this span
    #[arg(long, value_name = "SPAN", value_parser = Within::parse)]
    pub keep_within_monthly: Option<Within>,
    /// Keep the newest of each year within this span
    #[arg(long, value_name = "SPAN", value_parser = Within::parse)]
    pub keep_within_yearly: Option<Within>,
    /// Keep snapshots with these tags (comma: all of them; repeated: any)
    #[arg(long, value_name = "TAG[,TAG]")]
    pub keep_tag: Vec<String>,
}

/// Change the tags of snapshots.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet tag --add release 3f2a91c4
  quintet tag --remove nightly --host web1
  quintet tag --set a,b latest")]
#[command(group(clap::ArgGroup::new("change").required(true).multiple(true)))]
pub struct TagArgs {
    /// Snapshots: latest, or beginnings of their names; without any, all that pass the filters
    #[arg(value_name = "SNAPSHOT")]
    pub snapshots: Vec<String>,
    /// Add these tags
    #[arg(long, value_name = "TAG", value_delimiter = ',', group = "change")]
    pub add: Vec<String>,
    /// Remove these tags
    #[arg(long, value_name = "TAG", value_delimiter = ',', group = "change")]
    pub remove: Vec<String>,
    /// Replace all tags by these; an empty text removes all
    #[arg(long, value_name = "TAG", value_delimiter = ',', conflicts_with_all = ["add", "remove"], group = "change")]
    pub set: Option<Vec<String>>,
    /// Filter for snapshots, by their present tags.
    #[command(flatten)]
    pub filter: FilterArgs,
}

/// Make a snapshot again without some files, or with another host or time.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quintet rewrite latest --exclude /home/alice/secret.key --dry-run
  quintet rewrite --all --exclude '*.iso' --forget
  quintet rewrite 3f2a91c4 --host web2 --time '2026-11-20 02:30'

Contents are neither read nor stored again. The new snapshot comes just behind the old one, which stays
unless you give --forget. Forgotten snapshots go to the trash: what was left out is deleted when `quintet
gc` has emptied it, and the snapshots in other pools keep it.")]
pub struct RewriteArgs {
    /// Snapshots: latest, or beginnings of their names
    #[arg(value_name = "SNAPSHOT", required_unless_present = "all")]
    pub snapshots: Vec<String>,
    /// All snapshots of files
    #[arg(long, conflicts_with = "snapshots")]
    pub all: bool,
    /// Patterns of excluded files.
    #[command(flatten)]
    pub excludes: ExcludeArgs,
    /// Host of the new snapshots
    #[arg(short = 'H', long, visible_alias = "new-host", value_name = "NAME")]
    pub host: Option<String>,
    /// Time of the new snapshot; by default that of the old one
    #[arg(long, visible_alias = "new-time", value_name = "TIME")]
    pub time: Option<String>,
    /// Forget the old snapshots
    #[arg(long)]
    pub forget: bool,
    /// Show what would be left out, and change nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
}
