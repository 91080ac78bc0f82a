//! The log of a disk: writes with their bytes, and flushes. `disk` writes it, `replay` reads it.
//!
//! Invariant: what stands before a flush was complete before the flush was requested. A record is
//! whole, or the last one.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

/// Tag, offset, length: little-endian. The bytes follow.
const HEADER_BYTES: usize = 24;
const WRITE: u64 = 1;
const FLUSH: u64 = 2;

/// A request that changes the disk.
pub enum Record {
    Write { offset: u64, bytes: Vec<u8> },
    Flush,
}

/// Appends a write.
pub fn append_write(log: &mut File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    append(log, WRITE, offset, bytes)
}

/// Appends a flush.
pub fn append_flush(log: &mut File) -> io::Result<()> {
    append(log, FLUSH, 0, &[])
}

/// By one system call: readers of the length see whole records.
fn append(log: &mut File, tag: u64, offset: u64, bytes: &[u8]) -> io::Result<()> {
    let mut record = Vec::with_capacity(HEADER_BYTES + bytes.len());
    for number in [tag, offset, bytes.len() as u64] {
        record.extend_from_slice(&number.to_le_bytes());
    }
    record.extend_from_slice(bytes);
    log.write_all(&record)
}

/// Calls `visit` with each record and the length of the log with it, until it answers `false`.
pub fn read(path: &Path, visit: &mut dyn FnMut(Record, u64) -> io::Result<bool>) -> io::Result<()> {
    let mut log = BufReader::new(File::open(path)?);
    let mut position = 0;
    let mut header = [0; HEADER_BYTES];
    loop {
        match log.read_exact(&mut header) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            read => read?,
        }
        let number =
            |n: usize| u64::from_le_bytes(header[8 * n..][..8].try_into().expect("8 bytes"));
        let mut bytes = vec![0; number(2) as usize];
        log.read_exact(&mut bytes)?;
        position += (HEADER_BYTES + bytes.len()) as u64;
        let record = match number(0) {
            WRITE => Record::Write {
                offset: number(1),
                bytes,
            },
            FLUSH => Record::Flush,
            _ => return Err(io::Error::other("the log is damaged")),
        };
        if !visit(record, position)? {
            return Ok(());
        }
    }
}

/// Returns the lengths of the log with each flush before which something was written.
pub fn flushes(path: &Path) -> io::Result<Vec<u64>> {
    let (mut flushes, mut has_written) = (Vec::new(), false);
    read(path, &mut |record, position| {
        match record {
            Record::Write { .. } => has_written = true,
            Record::Flush if has_written => {
                flushes.push(position);
                has_written = false;
            }
            Record::Flush => {}
        }
        Ok(true)
    })?;
    Ok(flushes)
}
