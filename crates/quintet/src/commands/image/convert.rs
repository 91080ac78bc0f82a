//! Converts other image formats with qemu-img, if it is installed. `image` calls this.
//!
//! Invariant: the converted raw file is temporary, sparse and private, and is deleted afterwards.

use crate::cli::ImageFormat;
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use terminal::command_context::CommandContext;

/// A private temporary file. Dropping it deletes it.
pub struct TemporaryRaw(PathBuf);

impl TemporaryRaw {
    fn new(context: &CommandContext) -> anyhow::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        let mut tries = 0u32;
        loop {
            let name = format!("quintet-{}-{tries}", std::process::id());
            let directory = context.temporary_directory().join(name);
            match std::fs::DirBuilder::new().mode(0o700).create(&directory) {
                Ok(()) => return Ok(Self(directory)),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && tries < 1000 => {
                    tries += 1;
                }
                Err(e) => return Err(e).with_context(|| directory.display().to_string()),
            }
        }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> PathBuf {
        self.0.join("disk.raw")
    }
}

impl Drop for TemporaryRaw {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Converts an image to a raw file. `None` if it is raw already.
pub fn to_raw(
    context: &CommandContext,
    image: &Path,
    format: ImageFormat,
) -> anyhow::Result<Option<RawPath>> {
    if format == ImageFormat::Raw {
        return Ok(None);
    }
    let raw = TemporaryRaw::new(context)?;
    convert(context, image, format, &raw.path(), ImageFormat::Raw)?;
    Ok(Some(RawPath {
        path: raw.path(),
        _owner: raw,
    }))
}

/// A converted file and its owner.
pub struct RawPath {
    path: PathBuf,
    _owner: TemporaryRaw,
}

impl RawPath {
    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Lets `write` make a raw file and converts it to `out`, which is overwritten.
pub fn from_raw(
    context: &CommandContext,
    out: &Path,
    format: ImageFormat,
    write: impl FnOnce(&Path) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let raw = TemporaryRaw::new(context)?;
    write(&raw.path())?;
    convert(context, &raw.path(), ImageFormat::Raw, out, format)
}

fn convert(
    context: &CommandContext,
    from: &Path,
    format: ImageFormat,
    to: &Path,
    to_format: ImageFormat,
) -> anyhow::Result<()> {
    let mut command = context.program("qemu-img".as_ref())?;
    command
        .args(["convert", "-f", format.name(), "-O", to_format.name()])
        .arg("--")
        .args([from, to]);
    match command.spawn() {
        Ok(mut child) => match context.wait(&mut child)? {
            status if status.success() => Ok(()),
            status => bail!("qemu-img convert failed ({status})"),
        },
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let other = if format == ImageFormat::Raw {
                to_format
            } else {
                format
            };
            let name = other.name();
            bail!("{name} needs qemu-img; install it (package qemu-utils)")
        }
        Err(e) => Err(e).context("cannot run qemu-img"),
    }
}
