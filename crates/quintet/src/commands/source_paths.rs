//! The paths of a backup: absolute, from the command line and from lists in files. `backup` calls
//! this.
//!
//! Invariant: a path in a snapshot is absolute and has no `.` or `..`. Symbolic links in it are
//! kept as the user wrote them, except for those before a `..`.

use anyhow::{Context, bail};
use archive::filesystem::capture::Directory;
use archive::selection::Patterns;
use command_line::BackupArgs;
use std::ffi::{CString, OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use terminal::command_context::CommandContext;
use terminal::paths::absolute;
use units::lines;

/// Maximum number of links in a message.
const LINKS_SHOWN: usize = 5;
/// Longest list of paths or patterns, bytes.
const LIST_BYTES_MAX: u64 = 256 << 20;

/// Returns all paths of a backup, sorted, none below another. At least one of them exists.
pub(super) fn collect(context: &CommandContext, args: &BackupArgs) -> anyhow::Result<Vec<PathBuf>> {
    let mut given: Vec<OsString> = args.paths.clone();
    for file in &args.files_from {
        let (bytes, fails) = (read_list(context, file)?, || shown(file));
        for line in lines::of_list(&bytes).with_context(fails)? {
            let line = line.trim_ascii();
            if !line.is_empty() && !line.starts_with(b"#") {
                expand(line, &mut given)
                    .with_context(|| format!("--files-from {}", file.display()))?;
            }
        }
    }
    for file in &args.files_from_verbatim {
        let (bytes, fails) = (read_list(context, file)?, || shown(file));
        let lines = lines::of_list(&bytes).with_context(fails)?;
        given.extend(lines.filter(|line| !line.is_empty()).map(os));
    }
    for file in &args.files_from_raw {
        let bytes = read_list(context, file)?;
        let paths = bytes.split(|b| *b == 0);
        given.extend(paths.filter(|path| !path.is_empty()).map(os));
    }
    if given.is_empty() {
        bail!("no paths given: name files or directories, or use --stdin");
    }
    let paths = normalized(&given)?;
    // The walk warns about single missing paths.
    if paths.iter().all(|path| path.symlink_metadata().is_err()) {
        let first = paths.first().map(|path| path.display().to_string());
        bail!("none of the paths exists: {}", first.unwrap_or_default());
    }
    Ok(paths)
}

/// Returns paths as a snapshot has them: absolute, sorted, none below another.
pub(super) fn normalized(given: &[impl AsRef<OsStr>]) -> anyhow::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for path in given {
        if path.as_ref().is_empty() {
            bail!("an empty path cannot be backed up");
        }
        paths.push(absolute(Path::new(path))?);
    }
    paths.sort();
    paths.dedup();
    // A path includes everything below it.
    let all = paths.clone();
    paths.retain(|path| {
        !all.iter()
            .any(|other| path != other && path.starts_with(other))
    });
    Ok(paths)
}

/// Returns what to tell of paths that are links to anything but directories: a backup stores such
/// a link as it is. `None` if what they lead to is backed up too.
pub(super) fn links_warning(paths: &[PathBuf]) -> Option<String> {
    let lonely = paths.iter().filter(|path| {
        let leads_to = path.canonicalize();
        let is_stored = |to: &PathBuf| paths.iter().any(|path| to.starts_with(path));
        path.is_symlink() && !path.is_dir() && !leads_to.is_ok_and(|to| is_stored(&to))
    });
    let lonely: Vec<_> = lonely.collect();
    let shown = lonely.iter().take(LINKS_SHOWN);
    let shown: Vec<_> = shown.map(|path| path.display().to_string()).collect();
    let more = match lonely.len().saturating_sub(LINKS_SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (is_link, leads) = match lonely.len() {
        0 => return None,
        1 => ("is a symbolic link", "it leads"),
        _ => ("are symbolic links", "they lead"),
    };
    Some(format!(
        "{}{more} {is_link}: only the link is stored; to store the content, back up what {leads} to",
        shown.join(", ")
    ))
}

fn shown(file: &Path) -> String {
    file.display().to_string()
}

/// Reads a list that the user named; `-` is standard input.
pub(super) fn read_list(context: &CommandContext, file: &Path) -> anyhow::Result<Vec<u8>> {
    let input = match file == Path::new("-") {
        true => context.input(),
        false => context.open(file),
    };
    let mut bytes = Vec::new();
    input
        .and_then(|input| input.take(LIST_BYTES_MAX + 1).read_to_end(&mut bytes))
        .with_context(|| shown(file))?;
    if bytes.len() as u64 > LIST_BYTES_MAX {
        bail!("{}: a list of more than 256 MiB; divide it", shown(file));
    }
    Ok(bytes)
}

/// Expands a line of `--files-from`: a path, or a pattern for paths that match now.
fn expand(line: &[u8], out: &mut Vec<OsString>) -> anyhow::Result<()> {
    if !line.iter().any(|b| b"*?[".contains(b)) || Path::new(&os(line)).exists() {
        out.push(os(line));
        return Ok(());
    }
    let (mut found, mut rest) = match line.strip_prefix(b"/") {
        Some(rest) => (vec![PathBuf::from("/")], rest),
        None => (vec![PathBuf::from(".")], line),
    };
    while !rest.is_empty() {
        let mut parts = rest.splitn(2, |b| *b == b'/');
        let name = parts.next().unwrap_or_default();
        rest = parts.next().unwrap_or_default();
        if name.is_empty() {
            continue;
        }
        let mut pattern = Patterns::default();
        pattern.add(&[b"/", name].concat(), false)?;
        let mut next = Vec::new();
        for directory in found {
            // A path that is not a directory has no matches below it.
            let names: Vec<CString> = Directory::open(&directory)
                .and_then(|directory| directory.names())
                .unwrap_or_default();
            let fitting = names.iter().filter(|candidate| {
                // As in a shell, a pattern matches hidden files only if it begins with a dot.
                let hidden = candidate.to_bytes().starts_with(b".") && !name.starts_with(b".");
                let path = [b"/", candidate.to_bytes()].concat();
                !hidden && pattern.matches(&path, true) == Some(true)
            });
            next.extend(fitting.map(|n| directory.join(OsStr::from_bytes(n.to_bytes()))));
        }
        found = next;
    }
    if found.is_empty() {
        bail!("no file matches {}", String::from_utf8_lossy(line));
    }
    out.extend(found.into_iter().map(PathBuf::into_os_string));
    Ok(())
}

fn os(bytes: &[u8]) -> OsString {
    OsStr::from_bytes(bytes).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn collected(line: &[&str]) -> anyhow::Result<Vec<PathBuf>> {
        let words = ["quintet", "backup"].iter().chain(line);
        let cli = command_line::Cli::try_parse_from(words).unwrap();
        let command_line::Command::Backup(args) = cli.command else {
            panic!("not a backup");
        };
        collect(&CommandContext::detached().unwrap(), &args)
    }

    #[test]
    fn links_to_files_are_reported_unless_their_files_are_stored() {
        let top = tempfile::tempdir().unwrap();
        let at = |name: &str| top.path().join(name);
        std::fs::create_dir(at("directory")).unwrap();
        std::fs::write(at("directory/file"), b"").unwrap();
        for (link, to) in [
            ("a", "directory"),
            ("b", "directory/file"),
            ("c", "nowhere"),
        ] {
            std::os::unix::fs::symlink(to, at(link)).unwrap();
        }
        assert_eq!(links_warning(&[at("a"), at("directory/file")]), None);
        assert_eq!(links_warning(&[at("b"), at("directory")]), None);
        let reported = links_warning(&[at("b"), at("c")]).unwrap();
        let named = format!("{}, {} are", at("b").display(), at("c").display());
        assert!(reported.starts_with(&named), "{reported}");
    }

    #[test]
    fn lists_in_files() {
        let top = tempfile::tempdir().unwrap();
        let at = |name: &str| top.path().join(name);
        for name in ["a1", "a2", ".a3", "b", "a["] {
            std::fs::write(at(name), b"").unwrap();
        }
        let here = top.path().display();
        let list = at("list");
        std::fs::write(
            &list,
            format!("# not\n\n {here}/a?  \n{here}/a[\n{here}/b\n"),
        )
        .unwrap();
        let list = list.to_str().unwrap();
        let found = collected(&["--files-from", list, at("b").to_str().unwrap()]).unwrap();
        assert_eq!(found, [at("a1"), at("a2"), at("a["), at("b")]);
        std::fs::write(list, format!("{here}/nothing*\n")).unwrap();
        assert!(collected(&["--files-from", list]).is_err());
        std::fs::write(list, format!("{here}/b\n# z\n{here}/x y \n")).unwrap();
        let found = collected(&["--files-from-verbatim", list]).unwrap();
        assert_eq!(found.len(), 3);
        let marked = format!("\u{feff}# z\r\n{here}/b\r\n{here}/a1\r\n");
        std::fs::write(list, &marked).unwrap();
        for option in ["--files-from", "--files-from-verbatim"] {
            let found = collected(&[option, list]).unwrap();
            assert!(
                found.contains(&at("b")) && found.contains(&at("a1")),
                "{found:?}"
            );
        }
        let wide = marked.encode_utf16().flat_map(u16::to_le_bytes);
        std::fs::write(list, wide.collect::<Vec<u8>>()).unwrap();
        assert!(collected(&["--files-from", list]).is_err());
        std::fs::write(list, format!("{here}/x\ny\0/\0{here}/z\0")).unwrap();
        let found = collected(&["--files-from-raw", list]).unwrap();
        assert_eq!(found, [Path::new("/")]);
        assert!(collected(&[]).is_err());
        assert!(collected(&[at("missing/x").to_str().unwrap()]).is_err());
    }
}
