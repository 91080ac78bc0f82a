//! `tag`: changes the tags of snapshots. [`super::run`] calls this.
//!
//! Invariant: contents and ids of the snapshots stay. One commit changes all of them.

use super::invocation::Invocation;
use anyhow::bail;
use browsing::choice::{SnapshotFilter, choose_several, expect_latest_known};
use command_line::TagArgs;
use format::snapshot::Snapshot;
use std::collections::BTreeSet;
use store::OpenMode;
use terminal::exit::Exit;
use terminal::json::Object;
use terminal::names::short_id;

pub(super) fn run(invocation: &Invocation, args: &TagArgs) -> anyhow::Result<Exit> {
    let filter = SnapshotFilter::new(&args.filter)?;
    if args.snapshots.is_empty() && filter.is_empty() {
        bail!("no snapshots chosen: name them, or use --host, --tag or --path");
    }
    let pool = invocation.open(OpenMode::Write)?;
    let all = pool.snapshots()?;
    expect_latest_known(&pool, &args.snapshots)?;
    let meant = choose_several(&all, &args.snapshots, &filter)?;
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for snapshot in meant {
        let tags = changed(&snapshot.tags, args);
        if tags != snapshot.tags {
            after.push(Snapshot {
                tags,
                ..snapshot.clone()
            });
            before.push(snapshot.clone());
        }
    }
    if !after.is_empty() {
        pool.change_snapshots(&after, &before)?;
    }
    let console = &invocation.console;
    for snapshot in &after {
        console.message(
            Object::message("changed")
                .text("id", &snapshot.id.to_string())
                .texts("tags", &snapshot.tags),
        )?;
        console.line(format!(
            "{}: {}",
            short_id(snapshot),
            snapshot.tags.join(",")
        ))?;
    }
    console.message(Object::message("summary").integer("changed_snapshots", after.len() as u64))?;
    console.line(format!(
        "{} changed",
        units::count(after.len() as u64, "snapshot")
    ))?;
    Ok(Exit::Done)
}

fn changed(tags: &[String], args: &TagArgs) -> Vec<String> {
    let mut tags: BTreeSet<String> = match &args.set {
        Some(set) => set.iter().cloned().collect(),
        None => tags.iter().cloned().collect(),
    };
    tags.extend(args.add.iter().cloned());
    for tag in &args.remove {
        tags.remove(tag);
    }
    tags.remove("");
    tags.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use command_line::{Cli, Command};

    #[test]
    fn sets_of_tags() {
        let tags = |line: &str| {
            let words = ["quintet", "tag", "latest"];
            let cli = Cli::try_parse_from(words.into_iter().chain(line.split(' '))).unwrap();
            let Command::Tag(args) = cli.command else {
                panic!("not tag");
            };
            changed(&["b".to_owned(), "a".to_owned()], &args)
        };
        assert_eq!(tags("--add c,a"), ["a", "b", "c"]);
        assert_eq!(tags("--remove b --remove x"), ["a"]);
        assert_eq!(tags("--add c --remove a"), ["b", "c"]);
        assert_eq!(tags("--set z,y"), ["y", "z"]);
        assert!(tags("--set=").is_empty());
    }
}
