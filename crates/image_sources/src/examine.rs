//! Examines the file that `import` is to read: whether it is a disk image at all, its format, the
//! files that it consists of, and its damage. `quintet import` calls this.
//!
//! Invariant: what an image's own bytes say makes this program read no other file unless the user
//! named the format: a guest can write any head to a raw disk. Files that are not all known are
//! `None`, so that nobody takes the image for unchanged.

use crate::mounted;
use crate::nbd_export::{self, Address};
use crate::qemu;
use anyhow::{anyhow, bail};
use archive::filesystem::PathError;
use archive::image::{Head, ImageKind, head_of};
use command_line::{ImageFormat, ImportArgs};
use serde_json::Value;
use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use terminal::shell::Shell;

/// Where the bytes of an image come from.
pub enum From {
    /// A file or device, directly.
    File,
    /// A file, through qemu.
    Qemu,
    /// An export of an NBD server.
    Nbd(Address),
    /// Standard input.
    Input,
}

/// The image to import.
pub struct Original {
    /// Where its bytes come from.
    pub from: From,
    /// How it is read.
    pub format: ImageFormat,
    /// All files that its bytes are in, itself first. `None` if they are not all known.
    pub files: Option<Vec<PathBuf>>,
    /// The reason why it is damaged.
    pub damage: Option<String>,
}

/// Examines the image. Says what the user should know of it.
pub fn examine(shell: &Shell, args: &ImportArgs) -> anyhow::Result<Original> {
    let path = &args.image;
    if let Some(from) = not_a_file(args)? {
        return Ok(Original {
            from,
            format: ImageFormat::Raw,
            files: None,
            damage: None,
        });
    }
    let meta = expect_disk(path)?;
    let (is_device, shown) = (meta.file_type().is_block_device(), path.display());
    if is_device && let Some(point) = mounted::point_of(meta.rdev()) {
        shell.console.warn(format_args!(
            "{shown} is mounted for writing on {}, so the stored image may mix several states of it; unmount it, or \
             import a snapshot of the volume below it",
            point.display()
        ));
    }
    let head = head_of(path)?;
    let format = format_of(path, head.map(|head| head.kind), args.format, is_device)?;
    if format == ImageFormat::Raw {
        say_raw(shell, path, head.map(|head| head.kind));
        return Ok(Original {
            from: From::File,
            format,
            files: Some(vec![path.clone()]),
            damage: None,
        });
    }
    if let Some(why) = head.and_then(|head| head.unreadable) {
        let name = format.name();
        bail!(
            "cannot read the {name} image {shown}: {why}; convert it with qemu-img, or store its own bytes with -f raw"
        );
    }
    let info = qemu::info(&shell.context, path, format)?;
    let files = files_of(&info);
    if args.format.is_none() && files.as_ref().is_none_or(|files| files.len() > 1) {
        let others = files.iter().flatten().skip(1);
        let others: Vec<String> = others.map(|file| file.display().to_string()).collect();
        let others = match others.as_slice() {
            [] => "files that are not local".to_owned(),
            others => others.join(", "),
        };
        let name = format.name();
        bail!(
            "{shown} is a {name} image that reads other files ({others}); allow that with -f {name}, or store its own \
             bytes with -f raw"
        );
    }
    let damage = damage_of(shell, head, &info)?;
    Ok(Original {
        from: From::Qemu,
        format,
        files,
        damage,
    })
}

/// Returns where the bytes come from if the user named no file.
fn not_a_file(args: &ImportArgs) -> anyhow::Result<Option<From>> {
    let from = match nbd_export::address(&args.image)? {
        Some(address) => From::Nbd(address),
        None if args.image == Path::new("-") => From::Input,
        None => return Ok(None),
    };
    let asked = args.format.filter(|format| *format != ImageFormat::Raw);
    match (&from, asked.map(ImageFormat::name)) {
        (From::Input, Some(name)) => bail!(
            "standard input cannot be read as {name}, whose parts are in no order; save it in a file and import \
             that, or store its own bytes with -f raw"
        ),
        (_, Some(name)) => {
            bail!("an NBD export is a disk already, whatever it is stored in; leave out -f {name}")
        }
        (From::Input, None) if args.dry_run => {
            bail!("--dry-run is not possible for standard input; remove it")
        }
        (_, None) => Ok(Some(from)),
    }
}

/// Returns the metadata of a regular file or a block device. Opens nothing: opening a pipe waits
/// for its writer.
fn expect_disk(path: &Path) -> anyhow::Result<Metadata> {
    const STREAM: &str = "store a stream with `quintet backup --stdin-filename NAME --stdin-from-command -- COMMAND`";
    let shown = path.display();
    let mut inputs = ["/dev/stdin", "/dev/fd", "/proc/self/fd"].iter();
    if inputs.any(|input| path.starts_with(input)) {
        bail!("{shown} is no disk image: name the file itself, or give - for standard input");
    }
    let meta = path
        .metadata()
        .map_err(|e| PathError::new("open", path, e))?;
    let kind = meta.file_type();
    match kind {
        _ if kind.is_file() || kind.is_block_device() => Ok(meta),
        _ if kind.is_dir() => {
            bail!("{shown} is a directory; store it with `quintet backup {shown}`")
        }
        _ if kind.is_char_device() => bail!(
            "{shown} is a character device and no disk; name the block device (of an NVMe disk /dev/nvme0n1, not \
             /dev/nvme0; see lsblk)"
        ),
        _ => bail!("{shown} is a pipe or socket and no disk image; {STREAM}"),
    }
}

/// Returns the format to read.
fn format_of(
    path: &Path,
    found: Option<ImageKind>,
    asked: Option<ImageFormat>,
    is_device: bool,
) -> anyhow::Result<ImageFormat> {
    let shown = path.display();
    let name = found.map_or("", ImageKind::name);
    let found = match found {
        None => return Ok(asked.unwrap_or(ImageFormat::Raw)),
        // The bytes of an encrypted device are a raw image.
        Some(ImageKind::Luks) => Some(ImageFormat::Raw),
        Some(ImageKind::Qcow2) => Some(ImageFormat::Qcow2),
        Some(ImageKind::Vmdk) => Some(ImageFormat::Vmdk),
        Some(ImageKind::Vdi) => Some(ImageFormat::Vdi),
        Some(ImageKind::Vhdx) => Some(ImageFormat::Vhdx),
        Some(ImageKind::Vhd) => Some(ImageFormat::Vhd),
        Some(ImageKind::Foreign(_)) => None,
    };
    match (found, asked) {
        (_, Some(ImageFormat::Raw)) => Ok(ImageFormat::Raw),
        (Some(found), Some(asked)) if found == asked => Ok(asked),
        (_, Some(asked)) => Err(anyhow!(
            "{shown} is a {name} image and not {}; correct -f, or leave it out",
            asked.name()
        )),
        (Some(found), None) if is_device && found != ImageFormat::Raw => Err(anyhow!(
            "{shown} begins like a {name} image; read it so with -f {name}, or store the device as it is with -f raw"
        )),
        (Some(found), None) => Ok(found),
        (None, None) => Err(anyhow!(
            "{shown} is a {name} image, which cannot be imported; convert it with qemu-img convert -O qcow2, or store \
             its own bytes with -f raw"
        )),
    }
}

/// Says what the bytes that are stored as they are look like.
fn say_raw(shell: &Shell, path: &Path, found: Option<ImageKind>) {
    let shown = path.display();
    match found {
        None => {}
        Some(ImageKind::Luks) => shell.console.note(format_args!(
            "{shown} is encrypted with LUKS; it is stored as it is, so it neither compresses nor deduplicates"
        )),
        Some(found) => {
            let name = found.name();
            shell.console.note(format_args!(
                "{shown} is a {name} image; -f raw stores its own bytes and not those of its disk"
            ));
        }
    }
}

/// Returns all files that `qemu-img info` names, the image first. `None` if one is not a local
/// file, or is not there.
fn files_of(info: &Value) -> Option<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> = Vec::new();
    for image in info.as_array()? {
        let own = local(image.get("filename")?.as_str()?, Path::new("/"))?;
        let directory = own.parent()?.to_owned();
        let mut named = Vec::new();
        names(image, &mut named);
        for name in named {
            let file = local(name, &directory)?;
            if !files.contains(&file) {
                files.push(file);
            }
        }
    }
    let are_there = files.iter().all(|file| file.metadata().is_ok());
    (are_there && !files.is_empty()).then_some(files)
}

/// Collects the file names in an answer, from the outside in.
fn names<'v>(value: &'v Value, into: &mut Vec<&'v str>) {
    const KEYS: [&str; 3] = ["filename", "full-backing-filename", "data-file"];
    match value {
        Value::Object(fields) => {
            let of_keys = KEYS.iter().filter_map(|key| fields.get(*key)?.as_str());
            into.extend(of_keys);
            fields.values().for_each(|field| names(field, into));
        }
        Value::Array(items) => items.iter().for_each(|item| names(item, into)),
        _ => {}
    }
}

/// Returns the path that qemu opens for this name. `None` for a protocol, such as "nbd:".
fn local(name: &str, directory: &Path) -> Option<PathBuf> {
    let name = name.strip_prefix("file:").unwrap_or(name);
    let first = name.split('/').next().unwrap_or_default();
    (!name.is_empty() && !first.contains(':')).then(|| directory.join(name))
}

/// Returns what is wrong with the image, or with one below it.
fn damage_of(shell: &Shell, head: Option<Head>, info: &Value) -> anyhow::Result<Option<String>> {
    if let Some(why) = head.and_then(|head| head.damage) {
        return Ok(Some(why.to_owned()));
    }
    for image in info.as_array().into_iter().flatten() {
        let text = |key: &str| image.get(key).and_then(Value::as_str);
        let (Some(name), Some(format)) = (text("filename"), text("format")) else {
            continue;
        };
        let Some(path) = local(name, Path::new("/")) else {
            continue;
        };
        if format == "raw" {
            continue;
        }
        if let Some(damage) = head_of(&path)?.and_then(|h| h.damage) {
            return Ok(Some(format!("{}: {damage}", path.display())));
        }
        if let Some(damage) = qemu::check(&shell.context, &path, format)? {
            return Ok(Some(damage));
        }
        if let Some(short) = short_file(image, path.parent().unwrap_or(&path)) {
            let short = short.display();
            return Ok(Some(format!("the end of {short} is missing")));
        }
    }
    Ok(None)
}

/// Returns a file that is shorter than the part of the disk in it. Of flat extents of VMware disks
/// and of raw data files each byte of the disk is a byte of the file.
fn short_file(image: &Value, directory: &Path) -> Option<PathBuf> {
    let data = image.get("format-specific")?.get("data")?;
    let is_short = |name: &Value, len: &Value| {
        let file = local(name.as_str()?, directory)?;
        let meta = file.metadata().ok().filter(Metadata::is_file)?;
        (meta.len() < len.as_u64()?).then_some(file)
    };
    let extents = data.get("extents").and_then(Value::as_array);
    let flat = extents
        .into_iter()
        .flatten()
        .filter(|extent| extent.get("format").and_then(Value::as_str) == Some("FLAT"));
    let mut short =
        flat.filter_map(|extent| is_short(extent.get("filename")?, extent.get("virtual-size")?));
    short.next().or_else(|| {
        let is_raw = data.get("data-file-raw").and_then(Value::as_bool);
        is_raw.filter(|raw| *raw)?;
        is_short(data.get("data-file")?, image.get("virtual-size")?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_decides_unless_the_user_says_raw() {
        use ImageFormat::{Qcow2, Raw, Vhd, Vmdk};
        let of = |found, asked, is_device| {
            let format = format_of(Path::new("x"), found, asked, is_device);
            format.map_err(|e| e.to_string())
        };
        assert_eq!(of(None, None, false), Ok(Raw));
        assert_eq!(of(None, Some(Qcow2), false), Ok(Qcow2));
        assert_eq!(of(Some(ImageKind::Qcow2), None, false), Ok(Qcow2));
        assert_eq!(of(Some(ImageKind::Vhd), None, false), Ok(Vhd));
        assert_eq!(of(Some(ImageKind::Luks), None, true), Ok(Raw));
        assert_eq!(of(Some(ImageKind::Qcow2), Some(Raw), true), Ok(Raw));
        let foreign = Some(ImageKind::Foreign("qed"));
        assert_eq!(of(foreign, Some(Raw), false), Ok(Raw));
        for (found, asked, is_device) in [
            (Some(ImageKind::Qcow2), Some(Vmdk), false),
            (Some(ImageKind::Luks), Some(Vmdk), false),
            (Some(ImageKind::Qcow2), None, true),
            (foreign, None, false),
            (foreign, Some(Qcow2), false),
        ] {
            assert!(of(found, asked, is_device).is_err(), "{found:?} {asked:?}");
        }
    }

    #[test]
    fn names_of_files_and_of_what_is_elsewhere() {
        let at = |name| local(name, Path::new("/d")).map(|p| p.display().to_string());
        assert_eq!(at("a").as_deref(), Some("/d/a"));
        assert_eq!(at("file:a").as_deref(), Some("/d/a"));
        assert_eq!(at("./a:b").as_deref(), Some("/d/./a:b"));
        assert_eq!(at("/x/a:b").as_deref(), Some("/x/a:b"));
        for elsewhere in ["nbd://host/x", "json:{}", "nbd:unix:/s", ""] {
            assert_eq!(at(elsewhere), None, "{elsewhere}");
        }
    }

    #[test]
    fn every_file_that_is_named_counts() {
        let top = tempfile::tempdir().unwrap();
        let path = |name: &str| top.path().join(name).display().to_string();
        for name in ["a", "data", "b"] {
            std::fs::write(path(name), b"").unwrap();
        }
        let info = |backing: &str| {
            serde_json::json!([
                {"filename": path("a"), "full-backing-filename": backing,
                 "format-specific": {"data": {"data-file": "data"}}},
            ])
        };
        let files = files_of(&info(&path("b"))).unwrap();
        let expected = ["a", "b", "data"].map(|name| top.path().join(name));
        assert_eq!(files, expected);
        assert_eq!(files_of(&info(&path("missing"))), None);
        assert_eq!(files_of(&info("nbd://host/x")), None);
        assert_eq!(files_of(&serde_json::json!([])), None);
    }
}
