use super::*;
use crate::filesystem::capture::Directory;
use rustix::fs::Advice;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

const MIB: u64 = 1 << 20;

/// A file of so many bytes in a directory below the checkout, not in memory, and a handle that
/// brings in only what is read with it. `None`, aloud, where pages cannot be dropped.
fn cold(top: &Path, len: u64) -> Option<(Vec<u8>, File, OpenFile)> {
    let path = top.join("file");
    let bytes: Vec<u8> = (0..len).map(|n| (n * 7 + n / 4096) as u8).collect();
    fs::write(&path, &bytes).unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, Advice::Random).unwrap();
    let dropped = machine::release(&file, 0, None).unwrap_or(0);
    if !machine::tells(&file).unwrap() || dropped < len / PAGE_BYTES {
        println!("SKIPPED: pages of this file system cannot be dropped");
        return None;
    }
    let opened = Directory::open(top).unwrap().open_file(c"file").unwrap();
    Some((bytes, file, opened))
}

/// Reads pieces of so many bytes to the end.
fn read_all(opened: &OpenFile, memory: &SourceMemory, piece: usize) -> Vec<u8> {
    let mut reader = CachedFirst::new(opened, Pace::NONE, memory, true);
    let mut all = Vec::new();
    let mut into = vec![0; piece];
    loop {
        let count = reader.read(all.len() as u64, &mut into).unwrap();
        all.extend_from_slice(&into[..count]);
        assert!(reader.runs.len() < 11_000, "{}", reader.runs.len());
        if count < piece {
            break;
        }
    }
    reader.finish();
    all
}

fn cached_runs(file: &File, len: u64) -> Vec<(u64, u64)> {
    let runs = machine::runs(file, &(0..len)).unwrap();
    let cached = runs.iter().filter(|run| run.cached);
    cached.map(|run| (run.start, run.end)).collect()
}

#[test]
fn what_was_in_memory_stays_and_what_was_not_leaves() {
    let top = tempfile::tempdir_in(".").unwrap();
    let len = 33 * MIB + 5;
    let Some((bytes, file, opened)) = cold(top.path(), len) else {
        return;
    };
    let mut hot = vec![0; 2 * MIB as usize];
    file.read_exact_at(&mut hot, 7 * MIB).unwrap();
    file.read_exact_at(&mut hot[..4096], 21 * MIB).unwrap();
    file.read_exact_at(&mut hot[..5], 33 * MIB).unwrap();
    let before = cached_runs(&file, len);
    assert_eq!(before.len(), 3);
    let memory = SourceMemory::default();
    // A piece that is no multiple of a page, with and without the kernel's read-ahead.
    assert!(read_all(&opened, &memory, 3_000_001) == bytes);
    assert_eq!(cached_runs(&file, len), before);
    let outcome = memory.outcome(0);
    assert_eq!(outcome.bytes_found, 2 * MIB + 4096 + 5);
    assert_eq!(outcome.bytes_dropped, 31 * MIB - 4096);
}

#[test]
fn every_second_page_in_memory() {
    let top = tempfile::tempdir_in(".").unwrap();
    let len = MIB + 100;
    let Some((bytes, file, opened)) = cold(top.path(), len) else {
        return;
    };
    for page in (0..256).step_by(2) {
        file.read_exact_at(&mut [0], page * PAGE_BYTES).unwrap();
    }
    let before = cached_runs(&file, len);
    assert_eq!(before.len(), 128);
    assert!(read_all(&opened, &SourceMemory::default(), 2 * MIB as usize) == bytes);
    assert_eq!(cached_runs(&file, len), before);
}

#[test]
fn pages_that_are_dirtied_meanwhile_stay() {
    let top = tempfile::tempdir_in(".").unwrap();
    let len = 64 * PAGE_BYTES;
    let Some((_, file, opened)) = cold(top.path(), len) else {
        return;
    };
    let memory = SourceMemory::default();
    let mut reader = CachedFirst::new(&opened, Pace::NONE, &memory, true);
    let mut into = vec![0; 10 * PAGE_BYTES as usize];
    reader.read(0, &mut into).unwrap();
    file.write_all_at(&[1; 4096], 5 * PAGE_BYTES).unwrap();
    reader.finish();
    let pages = machine::cached(&file, 0, 0).unwrap();
    assert!(pages.dirty == 1 && pages.cached >= 10, "{pages:?}");
    assert_eq!(memory.outcome(0).bytes_dropped, 0);
}

#[test]
fn files_that_grow_and_shrink_meanwhile() {
    let top = tempfile::tempdir_in(".").unwrap();
    let len = 10 * PAGE_BYTES;
    let Some((mut bytes, mut file, opened)) = cold(top.path(), len) else {
        return;
    };
    file.read_exact_at(&mut [0], 3 * PAGE_BYTES).unwrap();
    let memory = SourceMemory::default();
    let mut reader = CachedFirst::new(&opened, Pace::NONE, &memory, true);
    reader.look(0, len);
    std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0)).unwrap();
    file.write_all(b"more").unwrap();
    bytes.extend_from_slice(b"more");
    let mut into = vec![0; 2 * len as usize];
    let count = reader.read(0, &mut into).unwrap();
    assert!(into[..count] == bytes);
    file.set_len(2 * PAGE_BYTES + 9).unwrap();
    let mut reader = CachedFirst::new(&opened, Pace::NONE, &memory, true);
    assert_eq!(
        reader.read(0, &mut into).unwrap() as u64,
        2 * PAGE_BYTES + 9
    );
}
