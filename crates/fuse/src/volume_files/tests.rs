use super::{FixedVolumes, VolumeFiles};
use crate::dispatch::{Body, Outcome, dispatch};
use crate::file_system::{FileSystem, SeekTarget, Zeroing};
use crate::fuzzing::fuzz_requests;
use crate::test_kernel::{long_at, range, request, word_at, words};
use crate::wire::constants::opcode;
use crate::wire::requests;
use crate::wire::{Handle, NodeId};
use media::FixedClock;
use rustix::io::Errno;
use std::sync::Arc;
use units::UnixNanos;
use volume::{Failure, Faulty, MemoryVolume, Operation, ReadOnly, RequestContext, VolumeErrorKind};

const SIZE: u64 = 1 << 20;

fn files() -> VolumeFiles {
    let volumes = FixedVolumes::default()
        .with("disk", Arc::new(MemoryVolume::new(SIZE)))
        .with("odd", Arc::new(ReadOnly::new(MemoryVolume::new(12_345))));
    let clock = FixedClock::new(UnixNanos(5_000_000_007));
    VolumeFiles::new(Arc::new(volumes), Arc::new(clock))
}

fn open(files: &VolumeFiles, name: &str, writes: bool) -> (NodeId, Handle) {
    let node = files.lookup(NodeId::ROOT, name.as_bytes()).unwrap().node;
    (node, files.open(node, writes).unwrap().handle)
}

fn context() -> RequestContext {
    RequestContext::default()
}

#[test]
fn files_have_the_size_of_their_volume_for_ever() {
    let files = files();
    let found = files.lookup(NodeId::ROOT, b"disk").unwrap();
    assert_eq!(found.attributes.size_bytes, SIZE);
    assert_eq!(found.attributes.mode, 0o100_600);
    assert_eq!(files.set_size(found.node, SIZE), Ok(()));
    assert_eq!(files.set_size(found.node, 0), Err(Errno::PERM));
    assert_eq!(files.lookup(NodeId::ROOT, b"dis").err(), Some(Errno::NOENT));
    assert_eq!(files.lookup(found.node, b"x").err(), Some(Errno::NOTDIR));
    let odd = files.lookup(NodeId::ROOT, b"odd").unwrap();
    assert_eq!(
        (odd.attributes.size_bytes, odd.attributes.mode),
        (12_345, 0o100_400)
    );
    assert_eq!(files.open(odd.node, true).err(), Some(Errno::ROFS));
    assert_eq!(files.attributes(NodeId(99)).err(), Some(Errno::NOENT));
}

#[test]
fn reads_and_writes_end_where_the_volume_does() {
    let files = files();
    let (node, handle) = open(&files, "disk", true);
    let write = |at, data: &[u8]| files.write(context(), node, handle, at, data);
    assert_eq!(write(SIZE - 3, b"abcdef"), Ok(3));
    assert_eq!(write(SIZE, b"x"), Err(Errno::NOSPC));
    assert_eq!(write(u64::MAX, b"x"), Err(Errno::NOSPC));
    let mut into = [9; 8];
    let read = files.read(context(), node, handle, SIZE - 4, &mut into);
    assert_eq!((read, &into), (Ok(4), b"\0abc\x09\x09\x09\x09"));
    for at in [SIZE, u64::MAX] {
        assert_eq!(files.read(context(), node, handle, at, &mut into), Ok(0));
    }
    files.release(node, handle);
    let closed = files.read(context(), node, handle, 0, &mut into);
    assert_eq!(closed, Err(Errno::BADF));
}

#[test]
fn writes_give_the_file_its_time() {
    let files = files();
    let (node, handle) = open(&files, "disk", true);
    let modified = || files.attributes(node).unwrap().0.modified;
    // The time of the last write is unknown, so the start time is shown: it may have been written
    // then.
    assert_eq!((modified().seconds, modified().nanos), (5, 7));
    files.write(context(), node, handle, 0, b"x").unwrap();
    assert_eq!((modified().seconds, modified().nanos), (6, 7));
    files
        .zero(context(), node, handle, Zeroing::Hole, 0, 1)
        .unwrap();
    assert_eq!(modified().seconds, 7);
}

#[test]
fn holes() {
    let files = files();
    let (node, handle) = open(&files, "disk", true);
    let seek = |at, target| files.seek(context(), node, handle, at, target);
    assert_eq!(seek(0, SeekTarget::Data), Err(Errno::NXIO));
    assert_eq!(seek(7, SeekTarget::Hole), Ok(7));
    let data = vec![7; 8192];
    files.write(context(), node, handle, 65_536, &data).unwrap();
    assert_eq!(seek(0, SeekTarget::Data), Ok(65_536));
    assert_eq!(seek(65_537, SeekTarget::Data), Ok(65_537));
    assert_eq!(seek(65_537, SeekTarget::Hole), Ok(73_728));
    assert_eq!(seek(SIZE, SeekTarget::Hole), Err(Errno::NXIO));
    let zero = |how, at, len| files.zero(context(), node, handle, how, at, len);
    assert_eq!(zero(Zeroing::Hole, 65_536, 4096), Ok(()));
    assert_eq!(seek(0, SeekTarget::Data), Ok(69_632));
    // A hole may reach past the end, an allocation may not.
    assert_eq!(zero(Zeroing::Hole, 0, 2 * SIZE), Ok(()));
    assert_eq!(zero(Zeroing::Hole, 2 * SIZE, SIZE), Ok(()));
    assert_eq!(zero(Zeroing::Range, 0, SIZE), Ok(()));
    assert_eq!(zero(Zeroing::Range, 1, SIZE), Err(Errno::NOSPC));
    assert_eq!(zero(Zeroing::Hole, u64::MAX, 2), Err(Errno::FBIG));
    assert_eq!(seek(0, SeekTarget::Data), Err(Errno::NXIO));
    files
        .write(context(), node, handle, 0, &vec![1; SIZE as usize])
        .unwrap();
    assert_eq!(seek(0, SeekTarget::Hole), Ok(SIZE));
}

#[test]
fn names_with_slashes_are_directories() {
    let volume = || Arc::new(MemoryVolume::new(SIZE));
    let volumes = FixedVolumes::default()
        .with("a", volume())
        .with("a/b/c", volume());
    let files = VolumeFiles::new(Arc::new(volumes), Arc::new(FixedClock::default()));
    let look = |parent, name: &str| files.lookup(parent, name.as_bytes()).unwrap();
    let a = look(NodeId::ROOT, "a");
    let b = look(a.node, "b");
    let c = look(b.node, "c");
    let modes = [a, b, c, look(NodeId::ROOT, "a@")].map(|node| node.attributes.mode >> 12);
    assert_eq!(modes, [4, 4, 8, 8]);
    for node in [a, b, c] {
        assert_eq!(files.attributes(node.node).unwrap().0, node.attributes);
    }
    assert_eq!(look(a.node, "b").node, b.node);
    assert_eq!(files.open(b.node, false).err(), Some(Errno::ISDIR));
    assert_eq!(files.lookup(c.node, b"x").err(), Some(Errno::NOTDIR));
    assert_eq!(files.lookup(b.node, b"a").err(), Some(Errno::NOENT));
    let (_, handle) = (c.node, files.open(c.node, true).unwrap().handle);
    assert_eq!(files.write(context(), c.node, handle, 0, b"x"), Ok(1));
}

#[test]
fn errors_of_the_volume_reach_the_process() {
    for (kind, error) in [
        (VolumeErrorKind::Io, Errno::IO),
        (VolumeErrorKind::NoSpace, Errno::NOSPC),
        (VolumeErrorKind::Failed, Errno::IO),
    ] {
        let operations = [Operation::Read, Operation::Write, Operation::Flush];
        let failures = operations.map(|operation| Failure::always(operation, kind));
        let faulty = Faulty::new(MemoryVolume::new(SIZE), failures.to_vec());
        let volumes = FixedVolumes::default().with("disk", Arc::new(faulty));
        let files = VolumeFiles::new(Arc::new(volumes), Arc::new(FixedClock::default()));
        let (node, handle) = open(&files, "disk", true);
        let read = files.read(context(), node, handle, 0, &mut [0; 8]);
        let written = files.write(context(), node, handle, 0, b"x");
        assert_eq!((read, written), (Err(error), Err(error)));
        assert_eq!(files.sync(context(), node, handle), Err(error));
    }
}

/// Executes the request `bytes` and returns the body of the reply.
fn answered(files: &VolumeFiles, bytes: &[u8]) -> Vec<u8> {
    let (header, operation) = requests::decode(bytes).unwrap();
    let mut body = Body::default();
    let outcome = dispatch(files, &header, &operation, &mut body);
    assert_eq!(outcome, Outcome::Reply(Ok(())));
    body.as_bytes().to_vec()
}

#[test]
fn no_reply_is_longer_than_the_longest() {
    let volume = Arc::new(MemoryVolume::new(4 << 20));
    let volumes = FixedVolumes::default().with("disk", volume);
    let files = VolumeFiles::new(Arc::new(volumes), Arc::new(FixedClock::default()));
    let (node, Handle(handle)) = open(&files, "disk", false);
    let read = request(opcode::READ, node, 1, &range(handle, 0, u32::MAX));
    assert_eq!(answered(&files, &read).len(), 1 << 20);
}

#[test]
fn listings_go_on_where_they_ended() {
    let files = files();
    let mut names = Vec::new();
    let mut from = 0;
    loop {
        // The buffer has space for one line.
        let body = range(0, from, 40);
        let bytes = request(opcode::READDIR, NodeId::ROOT, 1, &body);
        let line = answered(&files, &bytes);
        if line.is_empty() {
            break;
        }
        from = long_at(&line, 8);
        let len = word_at(&line, 16) as usize;
        names.push(String::from_utf8_lossy(&line[24..24 + len]).into_owned());
    }
    assert_eq!(names, [".", "..", "disk", "odd"]);
}

/// Runs the fuzzer's own entry, seeded, with mutated requests of every kind.
#[test]
fn nonsense_does_no_harm() {
    let mut state = 1u64;
    let mut next = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as u32
    };
    for _ in 0..20_000 {
        let mut session = Vec::new();
        for unique in 0..4 {
            let code = next() % 52;
            let node = NodeId(u64::from(next() % 4));
            let mut body = words(&[next() % 4, 0, next() % 4096, 0, next() % 4096, 0]);
            body.extend(words(&[next() % 32, next() % 32, 0, 0]));
            body.extend(b"disk\0");
            body.truncate(next() as usize % (body.len() + 1));
            session.extend(request(code, node, unique, &body));
        }
        for _ in 0..next() % 4 {
            let at = next() as usize % session.len();
            session[at] = next() as u8;
        }
        fuzz_requests(&session);
    }
}
