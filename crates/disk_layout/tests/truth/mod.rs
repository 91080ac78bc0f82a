//! Every block of an ext image as `dumpe2fs` and `debugfs` see it, to compare a layout with.
//!
//! Invariant: nothing here decodes the file system; only e2fsprogs does.

use disk_layout::Contents;
use disk_layout::{Layout, Unreadable, VolumeSource};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Contents of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expected {
    /// In use, and no inode or group has it: the rest of a cluster.
    Unowned,
    /// As the classifier must call it.
    Is(Contents),
}

/// Every block of a file system.
pub struct Truth {
    pub block_bytes: u64,
    pub blocks: Vec<Expected>,
}

/// Blocks of one kind, and those called wrongly.
#[derive(Default)]
pub struct Score {
    /// By kind: blocks, unknown, wrong.
    pub kinds: BTreeMap<&'static str, (u64, u64, u64)>,
    /// The first few that differ.
    pub examples: Vec<String>,
}

impl Score {
    pub fn blocks(&self) -> u64 {
        self.kinds.values().map(|kind| kind.0).sum()
    }

    pub fn unknown(&self) -> u64 {
        self.kinds.values().map(|kind| kind.1).sum()
    }

    pub fn wrong(&self) -> u64 {
        self.kinds.values().map(|kind| kind.2).sum()
    }

    /// Percentage of blocks called rightly.
    pub fn accuracy(&self) -> f64 {
        100.0 - 100.0 * (self.unknown() + self.wrong()) as f64 / self.blocks().max(1) as f64
    }

    /// The same without free blocks: an image that is mostly empty does not flatter.
    pub fn accuracy_in_use(&self) -> f64 {
        let used = self.kinds.iter().filter(|(name, _)| **name != "free");
        let (all, bad) = used.fold((0, 0), |sum, (_, kind)| {
            (sum.0 + kind.0, sum.1 + kind.1 + kind.2)
        });
        100.0 - 100.0 * bad as f64 / all.max(1) as f64
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.4} % ({:.4} % in use)",
            self.accuracy(),
            self.accuracy_in_use()
        )?;
        for (name, (blocks, unknown, wrong)) in &self.kinds {
            write!(f, ", {name} {blocks} (unknown {unknown}, wrong {wrong})")?;
        }
        Ok(())
    }
}

/// An image in a file.
pub struct Image(pub File);

impl VolumeSource for Image {
    fn read(&self, offset_bytes: u64, bytes: &mut [u8]) -> Result<(), Unreadable> {
        self.0
            .read_exact_at(bytes, offset_bytes)
            .map_err(|_| Unreadable)
    }
}

/// Returns the output of a tool; `None` if it is not on this machine.
pub fn output(tool: &str, arguments: &[&str], input: &str) -> Option<String> {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let child = Command::new("env")
        .arg(format!("PATH={path}"))
        .args(["LC_ALL=C", tool])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.ok()?;
    let mut stdin = child.stdin.take()?;
    let input = input.to_owned();
    let feeder = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().ok()?;
    let _ = feeder.join();
    // `env` says 127 for a missing command.
    (output.status.code() != Some(127))
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn range(text: &str) -> Option<(u64, u64)> {
    let text = text.trim();
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some((first.parse().ok()?, last.parse().ok()?))
}

fn ranges(text: &str) -> Vec<(u64, u64)> {
    text.split(',').filter_map(range).collect()
}

/// The text between `before` and the next character that cannot be part of a range.
fn after<'a>(line: &'a str, before: &str) -> Option<&'a str> {
    let start = line.find(before)? + before.len();
    let rest = line[start..].trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '-');
    Some(&rest[..end.unwrap_or(rest.len())])
}

impl Truth {
    /// Asks the tools; `None` if they are missing.
    pub fn of(image: &Path) -> Option<Self> {
        let image = image.to_str()?;
        let dump = output("dumpe2fs", &[image], "")?;
        let header = |name: &str| {
            let line = dump.lines().find(|line| line.starts_with(name))?;
            line.rsplit(' ').next()?.parse::<u64>().ok()
        };
        let mut truth = Self {
            block_bytes: header("Block size:")?,
            blocks: vec![Expected::Unowned; header("Block count:")? as usize],
        };
        let inodes = header("Inode count:")?;
        let hidden = [
            "User quota inode:",
            "Group quota inode:",
            "Project quota inode:",
            "Orphan file inode:",
        ]
        .map(header);
        let cluster = header("Cluster size:").unwrap_or(truth.block_bytes) / truth.block_bytes;
        let mut is_free = vec![false; inodes as usize + 1];
        let free = Expected::Is(Contents::Free);
        let metadata = Expected::Is(Contents::Metadata);
        truth.set((0, header("First block:")?.max(1) - 1), metadata);
        let mut fixed = Vec::new();
        for line in dump.lines() {
            if let Some(rest) = line.strip_prefix("  Free blocks: ") {
                // It names clusters by their first blocks.
                for (first, last) in ranges(rest) {
                    truth.set((first, last + cluster - 1), free);
                }
            } else if let Some(rest) = line.strip_prefix("  Free inodes: ") {
                for (first, last) in ranges(rest) {
                    is_free[first as usize..=last as usize].fill(true);
                }
            } else {
                let places = [
                    "superblock at ",
                    "Group descriptors at ",
                    "Group descriptor at ",
                    "Reserved GDT blocks at ",
                    "Block bitmap at ",
                    "Inode bitmap at ",
                    "Inode table at ",
                    "MMP block number: ",
                ];
                fixed.extend(places.iter().filter_map(|place| range(after(line, place)?)));
            }
        }
        let used: Vec<u64> = (1..=inodes).filter(|n| !is_free[*n as usize]).collect();
        let commands: String = used.iter().map(|n| format!("stat <{n}>\n")).collect();
        let stats = output("debugfs", &["-f", "/dev/stdin", image], &commands)?;
        let first = header("First inode:").unwrap_or(11);
        for stat in stats.split("debugfs: stat <").skip(1) {
            truth.stat(stat, &hidden, first)?;
        }
        for part in fixed {
            truth.set(part, metadata);
        }
        Some(truth)
    }

    fn set(&mut self, (first, last): (u64, u64), expected: Expected) {
        for block in first..=last {
            if let Some(slot) = self.blocks.get_mut(block as usize) {
                *slot = expected;
            }
        }
    }

    /// Enters the blocks that one `stat` lists.
    fn stat(&mut self, stat: &str, hidden: &[Option<u64>], first_inode: u64) -> Option<()> {
        let number: u64 = stat[..stat.find('>')?].parse().ok()?;
        let word = |name: &str| {
            let rest = &stat[stat.find(name)? + name.len()..];
            rest.split_whitespace().next().map(str::to_owned)
        };
        let Some(kind) = word("Type: ") else {
            return Some(());
        };
        let size_bytes: u64 = word(" Size: ")?.parse().ok()?;
        let acl = word("File ACL: ")?.parse().ok().filter(|acl| *acl != 0);
        let metadata = Expected::Is(Contents::Metadata);
        let is_hidden = hidden.contains(&Some(number)) || (number < first_inode && number != 2);
        let lists = stat.find("\nEXTENTS:\n").or(stat.find("\nBLOCKS:\n"));
        let list = lists.map_or("", |at| {
            stat[at + 1..].split('\n').nth(1).unwrap_or_default()
        });
        for item in list.split(", ") {
            let Some((logical, blocks)) = item.split_once("):") else {
                continue;
            };
            let (from, to) = range(blocks)?;
            let Some((logical, _)) = range(logical.trim_start_matches('(').trim_end_matches("[u]"))
            else {
                self.set((from, to), metadata);
                continue;
            };
            for block in from..=to {
                let offset_bytes = (logical + block - from) * self.block_bytes;
                let contents = match kind.as_str() {
                    _ if number == 8 => Contents::Journal,
                    _ if is_hidden => Contents::Metadata,
                    "directory" => Contents::Directory,
                    "regular" => Contents::File {
                        size_bytes,
                        offset_bytes,
                    },
                    _ => Contents::Metadata,
                };
                self.set((block, block), Expected::Is(contents));
            }
        }
        if let Some(acl) = acl {
            self.set((acl, acl), metadata);
        }
        Some(())
    }

    /// Compares every block, from `start_bytes` of the volume.
    pub fn compare(&self, layout: &Layout, start_bytes: u64) -> Score {
        let mut score = Score::default();
        for (block, expected) in self.blocks.iter().enumerate() {
            let offset = start_bytes + block as u64 * self.block_bytes;
            let found = layout.at(offset).contents;
            let (name, wanted) = match expected {
                Expected::Unowned => ("rest of cluster", Contents::Unknown),
                Expected::Is(contents) => {
                    let name = match contents {
                        Contents::Unknown => unreachable!("not expected"),
                        Contents::Metadata => "metadata",
                        Contents::Journal => "journal",
                        Contents::Directory => "directory",
                        Contents::File { .. } => "file",
                        Contents::Free => "free",
                        #[allow(unreachable_patterns)]
                        _ => "other",
                    };
                    (name, *contents)
                }
            };
            let kind = score.kinds.entry(name).or_default();
            kind.0 += 1;
            if found == wanted {
                continue;
            }
            if found == Contents::Unknown {
                kind.1 += 1;
            } else {
                kind.2 += 1;
            }
            if score.examples.len() < 8 {
                let example = format!("block {block}: {found:?}, must be {wanted:?}");
                score.examples.push(example);
            }
        }
        score
    }
}
