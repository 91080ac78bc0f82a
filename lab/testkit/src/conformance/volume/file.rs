//! Serves a plain file as a disk, to compare with peers that do so. The examples of `nbd` and
//! `iscsi` call this. It knows no holes.

use std::fs::{File, OpenOptions};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use volume::{
    Capabilities, Durability, Extent, RequestContext, Volume, VolumeError, VolumeErrorKind,
    VolumeInfo,
};

/// A file as a volume.
pub struct FileVolume {
    file: File,
    size: u64,
    read_only: bool,
}

impl FileVolume {
    /// Opens an existing file.
    pub fn open(path: &str, read_only: bool) -> std::io::Result<Self> {
        let file = OpenOptions::new().read(true).write(!read_only).open(path)?;
        let size = file.metadata()?.len();
        Ok(Self {
            file,
            size,
            read_only,
        })
    }
}

fn io(error: std::io::Error) -> VolumeError {
    VolumeError::new(VolumeErrorKind::Io, error)
}

impl Volume for FileVolume {
    fn info(&self) -> VolumeInfo {
        VolumeInfo {
            size_bytes: self.size,
            read_only: self.read_only,
            block_bytes_min: 1,
            block_bytes_preferred: 4096,
            description: "a file".to_owned(),
        }
    }
    fn size_bytes(&self) -> u64 {
        self.size
    }
    fn read(&self, _: RequestContext, at: u64, into: &mut [u8]) -> Result<(), VolumeError> {
        self.file.read_exact_at(into, at).map_err(io)
    }
    fn write(
        &self,
        context: RequestContext,
        at: u64,
        data: &[u8],
        durability: Durability,
    ) -> Result<(), VolumeError> {
        self.file.write_all_at(data, at).map_err(io)?;
        match durability {
            Durability::Volatile => Ok(()),
            Durability::Durable => self.flush(context),
        }
    }
    fn flush(&self, _: RequestContext) -> Result<(), VolumeError> {
        self.file.sync_data().map_err(io)
    }
    fn discard(&self, context: RequestContext, at: u64, len: u64) -> Result<(), VolumeError> {
        self.write_zeroes(context, at, len, true, Durability::Volatile)
    }
    fn write_zeroes(
        &self,
        context: RequestContext,
        at: u64,
        len: u64,
        _may_free: bool,
        durability: Durability,
    ) -> Result<(), VolumeError> {
        let zeroes = vec![0; len.min(1 << 20) as usize];
        let mut done = 0;
        while done < len {
            let now = (len - done).min(1 << 20);
            let piece = &zeroes[..now as usize];
            self.write(context, at + done, piece, Durability::Volatile)?;
            done += now;
        }
        match durability {
            Durability::Volatile => Ok(()),
            Durability::Durable => self.flush(context),
        }
    }
    fn extents(
        &self,
        _: RequestContext,
        offset_bytes: u64,
        len_bytes: u64,
        visit: &mut dyn FnMut(Extent) -> ControlFlow<()>,
    ) -> Result<(), VolumeError> {
        let _ = visit(Extent {
            offset_bytes,
            len_bytes,
            hole: false,
            zero: false,
        });
        Ok(())
    }
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::NONE
    }
}
