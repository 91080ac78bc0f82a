//! Asks qemu-img about images of other formats, and lets it convert them. `import` and `export`
//! call this.
//!
//! Invariant: a converted raw file is temporary, sparse and private, and is deleted afterwards.
//! File names are absolute, so that qemu-img takes none for a protocol ("nbd:").

use anyhow::{Context, bail};
use command_line::ImageFormat;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use terminal::command_context::CommandContext;
use terminal::outside_program::{Ended, OutsideProgram};

/// A private temporary file. Dropping it deletes it.
pub struct TemporaryRaw(PathBuf);

impl TemporaryRaw {
    fn new(context: &CommandContext) -> anyhow::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        let top = std::path::absolute(context.temporary_directory())?;
        let mut tries = 0u32;
        loop {
            let name = format!("quintet-{}-{tries}", std::process::id());
            let directory = top.join(name);
            match std::fs::DirBuilder::new().mode(0o700).create(&directory) {
                Ok(()) => return Ok(Self(directory)),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && tries < 1000 => {
                    tries += 1;
                }
                Err(e) => {
                    let why = format!(
                        "cannot create a temporary file in {}; set TMPDIR to a directory with space for the raw image",
                        top.display()
                    );
                    return Err(e).context(why);
                }
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

/// Converts an image to a raw file. `salvages`: what cannot be read is zeroes, and the returned
/// text says where.
pub fn to_raw(
    context: &CommandContext,
    image: &Path,
    format: ImageFormat,
    salvages: bool,
) -> anyhow::Result<(TemporaryRaw, String)> {
    let raw = TemporaryRaw::new(context)?;
    let salvage = salvages.then_some("--salvage");
    let said = convert(
        context,
        (image, format),
        (&raw.path(), ImageFormat::Raw),
        salvage,
    )?;
    Ok((raw, said))
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
    // Without this option the size becomes one of the geometries of old disks.
    let option = (format == ImageFormat::Vhd).then_some("-oforce_size=on");
    convert(
        context,
        (&raw.path(), ImageFormat::Raw),
        (out, format),
        option,
    )?;
    Ok(())
}

fn convert(
    context: &CommandContext,
    (from, format): (&Path, ImageFormat),
    (to, to_format): (&Path, ImageFormat),
    option: Option<&str>,
) -> anyhow::Result<String> {
    let formats = ["-f", format.of_qemu(), "-O", to_format.of_qemu()];
    let mut arguments: Vec<OsString> = formats.iter().map(OsString::from).collect();
    arguments.extend(option.map(OsString::from));
    arguments.push("--".into());
    for path in [from, to] {
        arguments.push(std::path::absolute(path)?.into());
    }
    let other = if format == ImageFormat::Raw {
        to_format
    } else {
        format
    };
    let (ended, _) = run(context, "convert", &arguments, other)?;
    Ok(ended.success()?)
}

/// Returns what `qemu-img info` tells of an image and the images below it, the image first.
pub fn info(
    context: &CommandContext,
    image: &Path,
    format: ImageFormat,
) -> anyhow::Result<serde_json::Value> {
    let image = std::path::absolute(image)?;
    let arguments = [
        "--backing-chain",
        "--output=json",
        "-f",
        format.of_qemu(),
        "--",
    ];
    let mut arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
    arguments.push(image.into());
    let (ended, output) = run(context, "info", &arguments, format)?;
    ended.success()?;
    serde_json::from_slice(&output).context("cannot understand the answer of qemu-img info")
}

/// Returns the damage that `qemu-img check` finds in one file, if it can check this format.
pub fn check(
    context: &CommandContext,
    image: &Path,
    format: &str,
) -> anyhow::Result<Option<String>> {
    /// It found clusters that nothing uses, which harms no data.
    const LEAKS: i32 = 3;
    /// It cannot check this format.
    const UNSUPPORTED: i32 = 63;
    let arguments = ["--output=json", "-f", format, "--"].map(OsString::from);
    let mut arguments = arguments.to_vec();
    arguments.push(image.into());
    let (ended, _) = run(context, "check", &arguments, ImageFormat::Qcow2)?;
    Ok(match ended.status.code() {
        Some(0 | LEAKS | UNSUPPORTED) => None,
        _ => Some(ended.failure().to_string()),
    })
}

/// Runs qemu-img. `format` is the format that needs it, for messages. Returns its end and its
/// output.
fn run(
    context: &CommandContext,
    verb: &str,
    arguments: &[OsString],
    format: ImageFormat,
) -> anyhow::Result<(Ended, Vec<u8>)> {
    let mut command = context.program(OsStr::new("qemu-img"))?;
    command.arg(verb).args(arguments).stdout(Stdio::piped());
    let started = OutsideProgram::start(context, &mut command, &format!("qemu-img {verb}"), false);
    let mut helper = match started {
        Ok(helper) => helper,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let name = format.name();
            bail!("{name} needs qemu-img; install it (package qemu-utils)")
        }
        Err(e) => return Err(e).context("cannot run qemu-img"),
    };
    let mut output = Vec::new();
    let read = match context.input_from(&mut helper.child) {
        Some(mut from) => from.read_to_end(&mut output),
        None => Ok(0),
    };
    let ended = helper.wait(context)?;
    read.context("cannot read the answer of qemu-img")?;
    Ok((ended, output))
}
