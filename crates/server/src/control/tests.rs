mod leases;

use super::address;
use super::commands::Commands;
use super::server::{Control, ControlSocket};
use super::view::{Shown, View};
use super::wire::{CommandAnswer, CommandRequest, Descriptors, Wish};
use device::DeviceQueue;
use qos::Plan;
use rustix::event::PollFlags;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use terminal::command_context::{ClientDescriptors, CommandContext, Streams};

/// Commands: `say` prints arguments, a variable and the directory; `wait` waits for a stop request;
/// `panic` panics.
struct Spoken(Arc<DeviceQueue>);

impl Commands for Spoken {
    fn admit(&self, request: &CommandRequest, own: &View) -> Result<(), String> {
        match request.arguments.first().and_then(|word| word.to_str()) {
            Some("say" | "wait" | "panic") => own.refusal(&request.view).map_or(Ok(()), Err),
            _ => Err("never heard of it".to_owned()),
        }
    }

    fn run(&self, context: CommandContext, request: CommandRequest) -> u8 {
        let mut out = context.output().unwrap();
        match request.arguments[0].to_str() {
            Some("say") => {
                let here = std::thread::scope(|scope| {
                    scope.spawn(std::env::current_dir).join().unwrap().unwrap()
                });
                let name = context.environment.value("NAME").unwrap();
                writeln!(out, "{:?} {name:?} {here:?}", request.arguments).unwrap();
                3
            }
            Some("wait") => {
                let (never, _other) = UnixStream::pair().unwrap();
                assert!(context.interrupt.wait_for(&never, PollFlags::IN).is_err());
                writeln!(out, "stopped").unwrap();
                130
            }
            _ => panic!("as asked"),
        }
    }

    fn device(&self) -> &DeviceQueue {
        &self.0
    }
}

const LIMIT: Duration = Duration::from_secs(60);

struct Client {
    stream: UnixStream,
    said: std::io::PipeReader,
}

fn serve(pool: &Path) -> Control {
    serve_device(pool, device())
}

fn device() -> Arc<DeviceQueue> {
    let ticks = Arc::new(media::SystemTicks::default());
    Arc::new(DeviceQueue::new(Plan::default(), ticks).unwrap())
}

fn serve_device(pool: &Path, device: Arc<DeviceQueue>) -> Control {
    let socket = ControlSocket::bind(pool).unwrap();
    socket.serve(Arc::new(Spoken(device))).unwrap()
}

fn ask(pool: &Path, line: &str, directory: &Path, view: View) -> Client {
    let stream = address::connect(pool, LIMIT).unwrap().unwrap();
    let (said, output) = std::io::pipe().unwrap();
    let output: std::os::fd::OwnedFd = output.into();
    let file = || std::fs::File::from(output.try_clone().unwrap());
    let descriptors = Descriptors {
        streams: Streams {
            input: std::fs::File::open("/dev/null").unwrap(),
            output: file(),
            error: file(),
            from_client: Some(ClientDescriptors {
                terminal: None,
                passphrase: None,
            }),
        },
        directory: std::fs::File::open(directory).unwrap().into(),
    };
    let request = CommandRequest {
        view,
        umask: 0o077,
        arguments: line.split(' ').map(Into::into).collect(),
        environment: vec![("NAME".into(), "value".into())],
    };
    request.send(&stream, &descriptors).unwrap();
    Client { stream, said }
}

impl Client {
    fn answers(&self) -> Option<CommandAnswer> {
        CommandAnswer::receive(&self.stream).unwrap()
    }

    /// Returns all output. Ends when the server has closed the descriptors of the client.
    fn rest(mut self) -> String {
        let mut text = String::new();
        self.said.read_to_string(&mut text).unwrap();
        text
    }
}

#[test]
fn a_command_has_the_clients_streams_variables_and_directory() {
    let top = tempfile::tempdir().unwrap();
    let directory = top.path().join("client");
    std::fs::create_dir(&directory).unwrap();
    let before = std::env::current_dir().unwrap();
    let control = serve(top.path());
    let client = ask(top.path(), "say x", &directory, View::own().unwrap());
    assert_eq!(client.answers(), Some(CommandAnswer::Started));
    assert_eq!(client.answers(), Some(CommandAnswer::Ended(3)));
    assert_eq!(client.answers(), None);
    let directory = directory.canonicalize().unwrap();
    let expected = format!("[\"say\", \"x\"] \"value\" {directory:?}\n");
    assert_eq!(client.rest(), expected);
    assert_eq!(std::env::current_dir().unwrap(), before);
    assert!(control.stop(LIMIT));
    assert!(address::connect(top.path(), LIMIT).unwrap().is_none());
}

#[test]
fn commands_end_when_asked_when_the_client_ends_and_when_the_server_does() {
    let top = tempfile::tempdir().unwrap();
    let own = View::own().unwrap();
    let control = serve(top.path());
    let wait = || {
        let client = ask(top.path(), "wait", top.path(), own.clone());
        assert_eq!(client.answers(), Some(CommandAnswer::Started));
        client
    };
    let (asked, closed, left) = (wait(), wait(), wait());
    assert_eq!(control.clients(), 3);
    Wish::Report.send(&asked.stream).unwrap();
    Wish::Stop.send(&asked.stream).unwrap();
    assert_eq!(asked.answers(), Some(CommandAnswer::Ended(130)));
    assert_eq!(asked.rest(), "stopped\n");
    let Client { stream, mut said } = closed;
    drop(stream);
    let mut text = String::new();
    said.read_to_string(&mut text).unwrap();
    assert_eq!(text, "stopped\n");
    assert!(control.stop(LIMIT));
    assert_eq!(left.answers(), Some(CommandAnswer::Ended(130)));
}

#[test]
fn what_is_not_run_is_said() {
    let top = tempfile::tempdir().unwrap();
    let own = View::own().unwrap();
    let control = serve(top.path());
    let refused = |line: &str, view| match ask(top.path(), line, top.path(), view).answers() {
        Some(CommandAnswer::Refused(why)) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused("dance", own.clone()), "never heard of it");
    let elsewhere = View {
        mounts: [0, 0],
        shown: Shown::new(),
        ..own.clone()
    };
    assert!(refused("say", elsewhere).contains("other files"));
    let nonsense = address::connect(top.path(), LIMIT).unwrap().unwrap();
    (&nonsense).write_all(&[b'x'; 100]).unwrap();
    let answer = CommandAnswer::receive(&nonsense).unwrap();
    assert!(matches!(answer, Some(CommandAnswer::Refused(why)) if why.contains("another version")));
    let panics = ask(top.path(), "panic", top.path(), own);
    assert_eq!(panics.answers(), Some(CommandAnswer::Started));
    assert_eq!(panics.answers(), Some(CommandAnswer::Ended(1)));
    assert!(control.stop(LIMIT));
}
