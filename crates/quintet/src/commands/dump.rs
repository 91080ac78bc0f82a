//! `dump`: writes a file, stream or image to standard output or a file, and a directory as a tar
//! archive. [`super::run`] calls this.
//!
//! Invariant: output is in order and verified. Damage ends the output with an error, never with
//! other bytes. An output file gets its name when it is complete.

use super::invocation::{Invocation, done_or_partly};
use super::known_snapshots::KnownSnapshots;
use crate::progress::ArchiveProgress;
use anyhow::bail;
use archive::image::{UnfinishedFile, stream_object};
use archive::tar::{self, Member};
use browsing::choice::{LATEST, SnapshotFilter, choose, split_path};
use browsing::tree::{TreePath, WalkOn, lookup, normal, top, walk};
use command_line::DumpArgs;
use format::recipe::ObjectRoot;
use format::snapshot::{OwnerNames, SnapshotKind};
use format::tree::{Entry, EntryKind};
use std::collections::HashMap;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use store::Reader;
use terminal::exit::Exit;

const BUFFER_BYTES: usize = 256 << 10;

pub(super) fn run(invocation: &Invocation, args: &DumpArgs) -> anyhow::Result<Exit> {
    let filter = SnapshotFilter::new(&args.filter)?;
    let pool = invocation.open_with_tier()?;
    let snapshots = KnownSnapshots::of(invocation, &pool)?;
    let (name, base) = match args.snapshot.to_str() {
        // The name of an image or stream may have a colon.
        Some(whole) if snapshots.named(whole, &filter).is_ok() => (whole.to_owned(), None),
        _ => split_path(&args.snapshot)?,
    };
    let inside = base.is_some() || args.inside.is_some();
    let snapshot = match choose(&snapshots, &name, &filter) {
        Err(_) if !inside && name != LATEST => snapshots.found(snapshots.named(&name, &filter))?,
        _ => {
            let wanted = (name.as_str(), base.as_deref());
            snapshots.at_path(invocation, pool.reader(), wanted, &filter)?
        }
    };
    let mut output = Output::open(args.target.as_deref(), args.force)?;
    let progress = invocation.progress("dumping");
    if !inside && snapshot.kind != SnapshotKind::Tree {
        output.object(pool.reader(), &snapshot.root, &progress)?;
        output.finish()?;
        return Ok(snapshots.exit_of(&name, Exit::Done));
    }
    let inside = args.inside.as_deref().unwrap_or_default().as_bytes();
    let path = normal(&[&base.unwrap_or_default(), &b"/"[..], inside].concat());
    match lookup(pool.reader(), top(snapshot)?, &path)? {
        TreePath::Entry(entry) => {
            match entry.kind {
                EntryKind::File { content, .. } => {
                    output.object(pool.reader(), &content, &progress)?;
                }
                EntryKind::Directory { content } => {
                    Archive::new(pool.reader(), &mut output, &progress, &snapshot.owners)
                        .directory(&entry.name, Some(&entry), content)?;
                }
                _ => bail!(
                    "{} is not a file or directory",
                    String::from_utf8_lossy(&path)
                ),
            }
        }
        TreePath::Top(root) => {
            Archive::new(pool.reader(), &mut output, &progress, &snapshot.owners)
                .directory(b"", None, root)?;
        }
    }
    output.finish()?;
    Ok(snapshots.exit_of(&name, done_or_partly(progress.warnings())))
}

/// Standard output or a new file.
struct Output {
    to: BufWriter<Box<dyn Write>>,
    file: Option<UnfinishedFile>,
}

impl Output {
    fn open(target: Option<&Path>, force: bool) -> anyhow::Result<Self> {
        let file = match target {
            None => None,
            Some(path) => Some(UnfinishedFile::create(path, false)?),
        };
        let to: Box<dyn Write> = match &file {
            Some(unfinished) => Box::new(unfinished.file().try_clone()?),
            None if io::stdout().is_terminal() && !force => Box::new(TextOnly(io::stdout())),
            None => Box::new(io::stdout()),
        };
        let to = BufWriter::with_capacity(BUFFER_BYTES, to);
        Ok(Self { to, file })
    }

    fn object(
        &mut self,
        reader: &Reader,
        root: &ObjectRoot,
        progress: &ArchiveProgress,
    ) -> anyhow::Result<()> {
        progress.add_total(1, root.len);
        stream_object(reader, root, &mut self.to, progress)?;
        progress.add_files(1);
        Ok(())
    }

    fn finish(mut self) -> anyhow::Result<()> {
        self.to.flush()?;
        if let Some(unfinished) = self.file.take() {
            unfinished.file().sync_all()?;
            unfinished.finish()?;
        }
        Ok(())
    }
}

/// A terminal. Binary data would change its settings, so it is refused.
struct TextOnly<W>(W);

impl<W: Write> Write for TextOnly<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.contains(&0) {
            let why = "it is binary data, and standard output is a terminal; redirect it, give a \
                       file with --target, or use --force";
            return Err(io::Error::other(why));
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// A tar archive that is being written.
struct Archive<'a> {
    reader: &'a Reader,
    output: &'a mut Output,
    progress: &'a ArchiveProgress,
    owners: &'a OwnerNames,
    /// First paths of files with hard links, by device and inode.
    first_names: HashMap<(u64, u64), Vec<u8>>,
}

impl<'a> Archive<'a> {
    fn new(
        reader: &'a Reader,
        output: &'a mut Output,
        progress: &'a ArchiveProgress,
        owners: &'a OwnerNames,
    ) -> Self {
        Self {
            reader,
            output,
            progress,
            owners,
            first_names: HashMap::new(),
        }
    }

    /// Writes a directory called `name` and everything below it.
    fn directory(
        mut self,
        name: &[u8],
        entry: Option<&Entry>,
        content: ObjectRoot,
    ) -> anyhow::Result<()> {
        if let Some(entry) = entry {
            self.member(name, entry)?;
        }
        let reader = self.reader;
        let interrupt = self.progress.interrupt().clone();
        walk(reader, content, name, &interrupt, &mut |path, entry| {
            let path = path.strip_prefix(b"/").unwrap_or(path);
            self.member(path, entry)?;
            Ok(WalkOn::Enter)
        })?;
        self.output.to.write_all(&tar::end())?;
        Ok(())
    }

    fn member(&mut self, path: &[u8], entry: &Entry) -> anyhow::Result<()> {
        let is_directory = matches!(entry.kind, EntryKind::Directory { .. });
        let file = (entry.device, entry.inode);
        let earlier = self.first_names.get(&file).filter(|_| entry.links > 1);
        let member = Member {
            path,
            entry,
            hard_link_to: earlier.filter(|_| !is_directory).map(Vec::as_slice),
            owners: self.owners,
        };
        let Some(header) = member.header() else {
            let path = String::from_utf8_lossy(path);
            self.progress.warn(format_args!(
                "{path} is a socket, and an archive cannot contain it"
            ));
            return Ok(());
        };
        self.output.to.write_all(&header)?;
        let len = member.content_len();
        if let EntryKind::File { content, .. } = &entry.kind
            && len > 0
        {
            self.output.object(self.reader, content, self.progress)?;
            self.output.to.write_all(&vec![0; tar::padding(len)])?;
        }
        if entry.links > 1 && !is_directory {
            self.first_names
                .entry(file)
                .or_insert_with(|| path.to_vec());
        }
        Ok(())
    }
}
