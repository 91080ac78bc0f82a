//! `upgrade`: adds the features of new pools to one that an older version made. [`super::run`]
//! calls this.
//!
//! Invariant: it names these features, and says that older versions then refuse the pool. No stored
//! data changes.

use super::invocation::Invocation;
use command_line::UpgradeArgs;
use format::config::{FEATURE_INCOMPAT_OWNERS, FEATURE_INCOMPAT_PACKED, FEATURE_INCOMPAT_X86};
use store::OpenMode;
use terminal::exit::Exit;
use terminal::json::Object;

/// The features that a pool can lack, in words.
const FEATURES: [(u64, &str); 3] = [
    (
        FEATURE_INCOMPAT_X86,
        "machine code of x86 is compressed better",
    ),
    (
        FEATURE_INCOMPAT_PACKED,
        "small regions take no padding, so that random reads are short",
    ),
    (
        FEATURE_INCOMPAT_OWNERS,
        "backups keep the names of users and groups, and rewritten snapshots their original",
    ),
];

pub(super) fn run(invocation: &Invocation, args: &UpgradeArgs) -> anyhow::Result<Exit> {
    let mode = match args.dry_run {
        true => OpenMode::Read,
        false => OpenMode::Write,
    };
    let pool = invocation.open(mode)?;
    let lacking = pool.features_lacking();
    if !args.dry_run {
        pool.upgrade()?;
    }
    let console = &invocation.console;
    console.message(
        Object::message("upgrade")
            .boolean("dry_run", args.dry_run)
            .integer("features", lacking),
    )?;
    if lacking == 0 {
        console.line("the pool has all features of this version")?;
        return Ok(Exit::Done);
    }
    let (adds, refuse) = match args.dry_run {
        true => ("would be added", "would not"),
        false => ("added", "do not"),
    };
    for (bit, words) in FEATURES {
        if lacking & bit != 0 {
            console.line(format!("feature {bit} {adds}: {words}"))?;
        }
    }
    console.line(format!(
        "older versions of quintet {refuse} open this pool any more; restart those that read it now"
    ))?;
    Ok(Exit::Done)
}
