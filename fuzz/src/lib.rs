//! Functions of the fuzz targets. The decoders and the crafted pools are those of the seeded tests,
//! so both judge the same bytes alike.

#[path = "../../crates/store/tests/crafted/mod.rs"]
pub mod crafted;
#[path = "../../crates/volumes/tests/crafted_journal/mod.rs"]
mod crafted_journal;
#[path = "../../crates/format/tests/decoders/mod.rs"]
pub mod decoders;

use chunking::{Compression, Compressor, Decompressor, Packed, x86_branches};
use classes::{Facts, Policy};
use media::Disk;
use qos::lease::{Ask, Hello, LEASE_BYTES_MAX, LeaseAnswer};
use sim::{Image, SimDisk};
use std::sync::LazyLock;
use store::OpenMode;

/// Largest raw length that decompression is asked for here, bytes.
const RAW_BYTES_MAX: usize = 1 << 20;

/// Runs a target with one input.
pub type Target = fn(&[u8]);

/// All targets by the names of their files. `./test fuzz` runs them on the stable compiler.
pub const TARGETS: &[(&str, Target)] = &[
    ("collect", decoders::collect),
    ("compression", compression),
    ("config", decoders::config),
    ("container", decoders::container),
    ("crafted_pool", crafted_pool),
    ("damage_hints", decoders::damage_hints),
    ("defrag", decoders::defrag),
    ("directory", decoders::directory),
    ("fuse_requests", fuse::fuzzing::fuzz_requests),
    ("host_scrub", decoders::host_scrub),
    ("host_trace", decoders::host_trace),
    ("index_bucket", decoders::index_bucket),
    ("index_header", decoders::index_header),
    ("index_tail", decoders::index_tail),
    ("index_stamp", decoders::index_stamp),
    ("iscsi_commands", iscsi::fuzzing::fuzz_commands),
    ("iscsi_login", iscsi::fuzzing::fuzz_login),
    ("iscsi_session", iscsi::fuzzing::fuzz_session),
    ("journal", journal),
    ("journal_record", decoders::journal_record),
    ("journal_slot", decoders::journal_slot),
    ("key_slot", decoders::key_slot),
    ("known", decoders::known),
    ("layout", layout),
    ("layout_hostile", layout_hostile),
    ("journal_place", decoders::journal_place),
    ("leases", leases),
    ("map_node", decoders::map_node),
    ("mirrored", decoders::mirrored_blob),
    ("moved", decoders::moved),
    ("nbd_client", nbd::fuzzing::fuzz_client),
    ("nbd_options", nbd::fuzzing::fuzz_options),
    ("nbd_requests", nbd::fuzzing::fuzz_requests),
    ("nbd_session", nbd::fuzzing::fuzz_session),
    ("parity", decoders::parity),
    ("policy", policy),
    ("pool", pool),
    ("failed_streams", decoders::failed_streams),
    ("reach", decoders::reach),
    ("reader_hold", decoders::reader_hold),
    ("recipe_node", decoders::recipe_node),
    ("replaced_file", replaced_file),
    ("reservations", decoders::reservations),
    ("root", decoders::root),
    ("scrub", decoders::scrub),
    ("snapshot", decoders::snapshot),
    ("task_progress", task_progress),
    ("tier_block", decoders::tier_block),
    ("trace", decoders::trace),
    ("trash_minimum", decoders::trash_minimum),
    ("volume", decoders::volume),
    ("tree", decoders::tree),
];

/// A volume with a file system, and writes to it.
pub fn layout(data: &[u8]) {
    disk_layout::fuzzing::fuzz_volume(data);
}

/// A well-formed disk with hostile numbers, and writes to it.
pub fn layout_hostile(data: &[u8]) {
    disk_layout::fuzzing::fuzz_hostile(data);
}

/// A policy file: what is read is written, and read again as the same.
pub fn policy(data: &[u8]) {
    let Ok(policy) = Policy::parse(&String::from_utf8_lossy(data)) else {
        return;
    };
    let written = policy.to_csv();
    let again = Policy::parse(&written).expect("its own");
    assert_eq!(again.to_csv(), written);
    assert_eq!(again.all_settings(), policy.all_settings());
    assert_eq!(again.all_fast_settings(), policy.all_fast_settings());
    let facts = Facts::default();
    assert_eq!(policy.explain(&facts).class, policy.classify(&facts));
}

/// Messages between a server and a process that reads beside it.
pub fn leases(data: &[u8]) {
    if let Ok(bytes) = data.try_into()
        && let Ok(hello) = Hello::decode(bytes)
    {
        assert_eq!(hello.encode(), data);
    }
    if let Ok(bytes) = data.try_into()
        && let Ok(ask) = Ask::decode(bytes)
    {
        assert!(ask.wanted <= LEASE_BYTES_MAX && ask.used.seeks <= ask.used.reads);
        assert_eq!(ask.encode(), data);
    }
    if let Ok(bytes) = data.try_into()
        && let Ok(answer) = LeaseAnswer::decode(bytes)
    {
        assert_eq!(answer.encode(), data);
    }
}

/// The progress of a maintenance task, behind a right checksum.
pub fn task_progress(data: &[u8]) {
    let body = [b"QNTTPRGR\x01\0".as_slice(), data].concat();
    let bytes = duet::TaskProgress::seal(body);
    if let Ok(progress) = duet::TaskProgress::decode(&bytes, 0) {
        let again = progress.encode(0);
        let read = duet::TaskProgress::decode(&again, 0).expect("its own");
        assert_eq!(read.encode(0), again);
    }
}

/// Decompresses `data` as if it claimed the length in its first three bytes, and compresses it.
pub fn compression(data: &[u8]) {
    let Some(([codec, a, b], rest)) = data.split_first_chunk::<3>() else {
        return;
    };
    let raw_len = (usize::from(*a) << 12 | usize::from(*b)).min(RAW_BYTES_MAX);
    let mut decompressor = Decompressor::new().expect("memory");
    for packed in [Packed::Zstd, Packed::ZstdX86, Packed::Lz4] {
        if let Ok(raw) = decompressor.unpack(packed, rest, raw_len, vec![7; 9]) {
            assert_eq!(raw.len(), raw_len);
        }
    }
    for with in [
        Compression::Lz4,
        Compression::Default,
        match codec % 3 {
            0 => Compression::Zstd(1),
            1 => Compression::Zstd(-5),
            _ => Compression::Zstd(5),
        },
    ] {
        let (mut raw, mut stored) = (rest.to_vec(), Vec::new());
        let mut compressor = Compressor::new(with, true).expect("memory");
        let Some(packed) = compressor.compress(&mut raw, &mut stored) else {
            assert_eq!(raw, rest);
            continue;
        };
        assert!(stored.len() < rest.len());
        let mut back = |len| decompressor.unpack(packed, &stored, len, Vec::new());
        assert_eq!(back(rest.len()).as_deref(), Ok(rest));
        assert!(rest.is_empty() || back(rest.len() - 1).is_err());
    }
    // Code or not, the filter is exact.
    let mut raw = rest.to_vec();
    let converted = x86_branches::absolute(&mut raw);
    assert_eq!(x86_branches::relative(&mut raw), converted);
    assert_eq!(raw, rest);
}

/// A small pool with files damaged as `data` says.
pub fn pool(data: &[u8]) {
    static SMALL: LazyLock<Image> = LazyLock::new(crafted::small);
    let Some((mode, steps)) = data.split_first() else {
        return;
    };
    let mode = match mode % 2 {
        0 => OpenMode::Read,
        _ => OpenMode::Write,
    };
    crafted::exercise(&crafted::mutated(&SMALL, steps), mode);
}

/// A pool whose nodes `data` made: every checksum is right.
pub fn crafted_pool(data: &[u8]) {
    static EMPTY: LazyLock<Image> = LazyLock::new(crafted::empty);
    let disk = SimDisk::unrecorded(EMPTY.clone());
    let _ = crafted::craft(&disk, data);
    crafted::exercise(&disk, OpenMode::Read);
}

/// A journal whose slots `data` made: every checksum is right.
pub fn journal(data: &[u8]) {
    crafted_journal::exercise(data);
}

/// The whole of `data` as the bytes of one file of a small pool: its first byte says which.
pub fn replaced_file(data: &[u8]) {
    static SMALL: LazyLock<Image> = LazyLock::new(crafted::small);
    let Some((number, bytes)) = data.split_first() else {
        return;
    };
    let files = SMALL.files();
    let disk = SimDisk::unrecorded(SMALL.clone());
    disk.plant(&files[usize::from(*number) % files.len()].0, bytes);
    assert!(disk.list("").is_ok());
    crafted::exercise(&disk, OpenMode::Read);
}
