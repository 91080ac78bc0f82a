//! Disks that an NBD server shows, as sources of an import: addresses, connections, and the bytes.
//! `quintet import` calls this, for addresses that users give and for `qemu-nbd`.
//!
//! Invariant: a wait for a server ends on a stop request. A server of the network must also finish
//! each reply in time. What a server says is checked by [`nbd::client`].

use anyhow::{Context, bail};
use archive::image::{ImageBytes, Segment};
use nbd::client::{Client, ClientError};
use rustix::event::PollFlags;
use rustix::io::Errno;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use terminal::interrupt::Interrupt;

/// Port of NBD.
const PORT: u16 = 10809;
/// Time for a connection.
const CONNECT_TIME: Duration = Duration::from_secs(20);
/// Time for a whole reply.
pub const REPLY_TIME: Duration = Duration::from_secs(120);
/// Segments of an image. A server that has more is read without regard to its zeroes from there on.
const SEGMENTS_MAX: usize = 1 << 20;

/// Address of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    place: Place,
    export: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

/// Returns the address that the user gave as an image. `None` if it is a file.
pub fn address(image: &Path) -> anyhow::Result<Option<Address>> {
    const FORMS: &str = "write nbd://HOST[:PORT]/EXPORT or nbd+unix:///EXPORT?socket=PATH";
    let Some((scheme, rest)) = image.to_str().and_then(|text| text.split_once("://")) else {
        return Ok(None);
    };
    let shown = image.display();
    match scheme {
        "nbd" | "nbd+unix" => {}
        "nbds" | "nbds+unix" => bail!(
            "{shown}: TLS is not supported; connect through a tunnel, such as `ssh -L`, and give nbd://"
        ),
        _ if scheme.starts_with("nbd") => bail!("{shown}: unknown kind of address; {FORMS}"),
        _ => return Ok(None),
    }
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (host, export) = rest.split_once('/').unwrap_or((rest, ""));
    let export = decoded(export).with_context(|| format!("{shown}: {FORMS}"))?;
    let place = if scheme == "nbd" {
        let (host, port) = host_and_port(host).with_context(|| format!("{shown}: {FORMS}"))?;
        Place::Tcp { host, port }
    } else {
        let mut options = query.split('&');
        let socket = options.find_map(|option| option.strip_prefix("socket="));
        let socket = socket.context("the socket is missing").and_then(decoded);
        Place::Unix(socket.with_context(|| format!("{shown}: {FORMS}"))?.into())
    };
    Ok(Some(Address { place, export }))
}

fn host_and_port(text: &str) -> anyhow::Result<(String, u16)> {
    let (host, port) = match text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':')),
        None => match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() {
        bail!("the host is missing");
    }
    let port = port.map_or(Ok(PORT), str::parse);
    Ok((host.to_owned(), port.context("the port is no number")?))
}

/// Replaces `%XX` by its byte.
fn decoded(text: &str) -> anyhow::Result<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let Some((digits, rest)) = part.split_at_checked(2) else {
            bail!("% needs two hexadecimal digits");
        };
        let byte = u8::from_str_radix(digits, 16);
        bytes.push(byte.context("% needs two hexadecimal digits")?);
        bytes.extend(rest.as_bytes());
    }
    String::from_utf8(bytes).context("the name is no text")
}

/// Opens an export of a server that the user named. Returns its bytes and its size.
pub fn open(
    address: &Address,
    interrupt: &Interrupt,
) -> anyhow::Result<(Box<dyn ImageBytes>, u64)> {
    const REMEDY: &str = "check the address and the server (nbdinfo)";
    let Address { place, export } = address;
    let limit = Some(REPLY_TIME);
    match place {
        Place::Unix(path) => {
            let connected = UnixStream::connect(path);
            let stream = connected.with_context(|| {
                format!(
                    "cannot connect to the NBD server at {}; {REMEDY}",
                    path.display()
                )
            })?;
            NbdBytes::open(stream, export, (interrupt, limit)).map(NbdBytes::boxed)
        }
        Place::Tcp { host, port } => {
            let stream = connect(host, *port).with_context(|| {
                format!("cannot connect to the NBD server at {host} port {port}; {REMEDY}")
            })?;
            stream.set_nodelay(true)?;
            NbdBytes::open(stream, export, (interrupt, limit)).map(NbdBytes::boxed)
        }
    }
    .with_context(|| format!("cannot open the NBD export {export:?}; {REMEDY}"))
}

fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIME) {
            Ok(stream) => return Ok(stream),
            Err(e) => last = e,
        }
    }
    Err(last)
}

/// A stream whose waits end.
pub struct Patient<S> {
    stream: S,
    interrupt: Interrupt,
    /// Time for the answer to what was written last. `None`: any.
    limit: Option<Duration>,
    asked: Instant,
}

impl<S: AsFd> Patient<S> {
    fn wait(&self, ready: PollFlags) -> io::Result<()> {
        let Some(limit) = self.limit else {
            return self.interrupt.wait_for(&self.stream, ready);
        };
        let left = limit.saturating_sub(self.asked.elapsed());
        match self.interrupt.wait_for_within(&self.stream, ready, left)? {
            true => Ok(()),
            false => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!(
                    "the server did not finish its answer within {} s; see whether it hangs, and import again",
                    limit.as_secs()
                ),
            )),
        }
    }
}

impl<S: Read + AsFd> Read for Patient<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.wait(PollFlags::IN)?;
        self.stream.read(into)
    }
}

impl<S: Write + AsFd> Write for Patient<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.asked = Instant::now();
        self.wait(PollFlags::OUT)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// The bytes of an export.
pub struct NbdBytes<S: Read + Write> {
    client: Client<S>,
    /// Whatever a request fails with, its bytes cannot be read.
    pub all_errors_are_bad: bool,
}

impl<S: Read + Write + AsFd + 'static> NbdBytes<Patient<S>> {
    /// Opens an export at the other end of a new connection.
    pub fn open(
        stream: S,
        export: &str,
        (interrupt, limit): (&Interrupt, Option<Duration>),
    ) -> io::Result<Self> {
        let stream = Patient {
            stream,
            interrupt: interrupt.clone(),
            limit,
            asked: Instant::now(),
        };
        Ok(Self {
            client: Client::connect(stream, export).map_err(io_error)?,
            all_errors_are_bad: false,
        })
    }

    /// Returns them and their number.
    pub fn boxed(self) -> (Box<dyn ImageBytes>, u64) {
        let size = self.client.size();
        (Box::new(self), size)
    }
}

/// The error of a request keeps its number, by which bytes are known that cannot be read, and the
/// stream's error its cause, by which a stop request is known.
fn io_error(error: ClientError) -> io::Error {
    match error {
        ClientError::Stream(e) => e,
        ClientError::Request(errno) => io::Error::from_raw_os_error(errno),
        other => io::Error::other(other),
    }
}

impl<S: Read + Write> ImageBytes for NbdBytes<S> {
    fn read_at(&mut self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = self.client.size().saturating_sub(offset);
        let len = usize::try_from(left).map_or(into.len(), |left| left.min(into.len()));
        let Some(into) = into.get_mut(..len).filter(|into| !into.is_empty()) else {
            return Ok(0);
        };
        match self.client.read(offset, into) {
            Ok(()) => Ok(len),
            Err(ClientError::Request(_)) if self.all_errors_are_bad => Err(Errno::IO.into()),
            Err(e) => Err(io_error(e)),
        }
    }

    fn segments(&mut self, len: u64) -> io::Result<Vec<Segment>> {
        let mut segments: Vec<Segment> = Vec::new();
        let mut add = |len, hole| match segments.last_mut() {
            Some(last) if last.hole == hole => last.len += len,
            last => {
                let offset = last.map_or(0, |last| last.offset + last.len);
                segments.push(Segment { offset, len, hole });
            }
        };
        let (mut at, mut asked) = (0, 0);
        while at < len {
            let extents = match self.client.extents(at) {
                Ok(extents) if asked < SEGMENTS_MAX => extents,
                // Reading tells which bytes cannot be read.
                Ok(_) | Err(ClientError::Request(_)) => {
                    add(len - at, false);
                    break;
                }
                Err(e) => return Err(io_error(e)),
            };
            asked += extents.len();
            for extent in extents {
                let found = extent.len.min(len - at);
                if found > 0 {
                    add(found, extent.zero);
                }
                at += found;
            }
        }
        Ok(segments)
    }
}

impl<S: Read + Write> Drop for NbdBytes<S> {
    fn drop(&mut self) {
        self.client.disconnect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Option<Address>, String> {
        address(Path::new(text)).map_err(|e| format!("{e:#}"))
    }

    #[test]
    fn addresses_are_those_of_the_nbd_project() {
        let tcp = |host: &str, port, export: &str| {
            let (host, export) = (host.to_owned(), export.to_owned());
            let place = Place::Tcp { host, port };
            Ok(Some(Address { place, export }))
        };
        assert_eq!(of("nbd://server"), tcp("server", 10809, ""));
        assert_eq!(of("nbd://server:99/a%20b/c"), tcp("server", 99, "a b/c"));
        assert_eq!(of("nbd://[::1]:99/x"), tcp("::1", 99, "x"));
        assert_eq!(of("nbd://[::1]/"), tcp("::1", 10809, ""));
        let unix = Address {
            place: Place::Unix("/run/a b".into()),
            export: "x".to_owned(),
        };
        assert_eq!(of("nbd+unix:///x?socket=/run/a%20b"), Ok(Some(unix)));
        for file in ["disk.raw", "/x/nbd:", "nbd:x/a:b.qcow2", "file://x"] {
            assert_eq!(of(file), Ok(None), "{file}");
        }
        for (wrong, why) in [
            ("nbd:///x", "the host is missing"),
            ("nbd://server:x/", "the port is no number"),
            ("nbd://server/%4", "two hexadecimal digits"),
            ("nbd+unix:///x", "the socket is missing"),
            ("nbds://server", "ssh -L"),
            ("nbd+vsock://1", "nbd+unix:///EXPORT"),
        ] {
            let error = of(wrong).unwrap_err();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_silent_server_is_given_up() {
        let (near, _far) = UnixStream::pair().unwrap();
        let interrupt = Interrupt::detached();
        let limit = Some(Duration::from_millis(20));
        let silent = NbdBytes::open(near, "", (&interrupt, limit)).err().unwrap();
        assert_eq!(silent.kind(), io::ErrorKind::TimedOut);
        assert!(silent.to_string().contains("import again"), "{silent}");
    }
}
