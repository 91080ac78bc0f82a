//! Asks qemu about images of other formats: qemu-nbd shows their bytes, qemu-img describes, checks
//! and converts them. `import` and `export` call this.
//!
//! Invariant: the raw file that an export converts is temporary, sparse and private, and is deleted
//! afterwards; an import makes none. File names are absolute, so that qemu takes none for a
//! protocol ("nbd:"). No qemu-nbd outlives its connection.

use crate::nbd_export::NbdBytes;
use anyhow::{Context, anyhow};
use archive::image::ImageBytes;
use command_line::ImageFormat;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use terminal::command_context::CommandContext;
use terminal::outside_program::{Ended, OutsideProgram};

/// A private temporary directory. Dropping it deletes it.
struct PrivateDirectory(PathBuf);

impl PrivateDirectory {
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
                        "cannot create a temporary directory in {}; set TMPDIR to another one",
                        top.display()
                    );
                    return Err(e).context(why);
                }
            }
        }
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A disk that a qemu-nbd shows to this process alone.
pub struct ShownDisk {
    program: OutsideProgram,
    format: ImageFormat,
}

impl ShownDisk {
    /// Waits for the program after the bytes were dropped. Returns how it failed, if it did.
    pub fn failure(self, context: &CommandContext) -> Option<anyhow::Error> {
        /// The shell did not find the program.
        const NOT_FOUND: i32 = 127;
        let ended = match self.program.wait(context) {
            Ok(ended) => ended,
            Err(e) => return Some(e.into()),
        };
        match ended.status.code() {
            Some(NOT_FOUND) => Some(missing("qemu-nbd", self.format)),
            _ => ended.success().err().map(Into::into),
        }
    }
}

/// Starts a qemu-nbd that reads an image in place. Returns it with the disk's bytes and their
/// number.
///
/// It gets a socket in which a connection waits already, and ends with this connection: however
/// this process ends, it ends too. The socket has no name by then.
pub fn show(
    context: &CommandContext,
    image: &Path,
    format: ImageFormat,
) -> anyhow::Result<(ShownDisk, Box<dyn ImageBytes>, u64)> {
    // Sockets come to a program as descriptor 3 and by its own number, which is that of the shell.
    const SCRIPT: &str = "LISTEN_PID=$$ LISTEN_FDS=1; export LISTEN_PID LISTEN_FDS; \
                          exec qemu-nbd \"$@\" 3<&0 </dev/null";
    let (listener, stream) = socket(context).context("cannot make a socket for qemu-nbd")?;
    let mut command = context.program(OsStr::new("sh"))?;
    command.args([
        "-c",
        SCRIPT,
        "qemu-nbd",
        "--read-only",
        "-f",
        format.of_qemu(),
        "--",
    ]);
    command.arg(std::path::absolute(image)?);
    command.stdin(OwnedFd::from(listener)).stdout(Stdio::null());
    let program = OutsideProgram::start(context, &mut command, "qemu-nbd", false);
    let program = program.context("cannot run qemu-nbd")?;
    // It has the socket of its own.
    drop(command);
    let shown = ShownDisk { program, format };
    match NbdBytes::open(stream, "", (&context.interrupt, None)) {
        Ok(mut bytes) => {
            bytes.all_errors_are_bad = true;
            let (bytes, len) = bytes.boxed();
            Ok((shown, bytes, len))
        }
        Err(e) => Err(shown.failure(context).unwrap_or_else(|| e.into())),
    }
}

/// Makes a listening socket and a connection to it. Its name is deleted.
fn socket(context: &CommandContext) -> anyhow::Result<(UnixListener, UnixStream)> {
    let directory = PrivateDirectory::new(context)?;
    // Names of sockets are short, those of directories may be long.
    let open = std::fs::File::open(&directory.0)?;
    let name = format!("/proc/self/fd/{}/nbd", open.as_raw_fd());
    let listener = UnixListener::bind(&name)?;
    let stream = UnixStream::connect(&name)?;
    Ok((listener, stream))
}

/// Lets `write` make a raw file and converts it to `out`, which is overwritten.
pub fn from_raw(
    context: &CommandContext,
    out: &Path,
    format: ImageFormat,
    write: impl FnOnce(&Path) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let directory = PrivateDirectory::new(context)?;
    let raw = directory.0.join("disk.raw");
    write(&raw)?;
    // Without this option the size becomes one of the geometries of old disks.
    let option = (format == ImageFormat::Vhd).then_some("-oforce_size=on");
    convert(context, (&raw, ImageFormat::Raw), (out, format), option)?;
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

fn missing(program: &str, format: ImageFormat) -> anyhow::Error {
    let name = format.name();
    anyhow!("{name} needs {program}; install it (package qemu-utils)")
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
            return Err(missing("qemu-img", format));
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
