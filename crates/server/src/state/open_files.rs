//! Volumes that are open as files of mounts. Mounts open them. Commands that delete or roll back
//! volumes count and disconnect them.
//!
//! Invariant: an open file counts as a client of its volume until it is closed. When `disconnect`
//! returns, every request of the file fails and none is in progress.

use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::Arc;
use volume::{
    Capabilities, FastPath, Layer, RequestContext, Volume, VolumeError, VolumeErrorKind,
    VolumeRequest,
};

/// Requests hold this for reading. True after a disconnect.
type Gate = Arc<RwLock<bool>>;

/// All open files.
#[derive(Default)]
pub struct OpenFiles(Mutex<Table>);

#[derive(Default)]
struct Table {
    last: u64,
    open: BTreeMap<u64, (String, Gate)>,
}

impl OpenFiles {
    /// Opens `volume`, called `name`, as a file.
    pub fn open<V>(files: &Arc<Self>, name: &str, volume: V) -> OpenFile<V> {
        let gate = Gate::default();
        let mut table = files.0.lock();
        table.last += 1;
        let number = table.last;
        let of_table = (name.to_owned(), Arc::clone(&gate));
        table.open.insert(number, of_table);
        drop(table);
        OpenFile {
            volume,
            gate,
            files: Arc::clone(files),
            number,
        }
    }

    /// Returns the number of open files of a volume.
    pub fn count(&self, name: &str) -> usize {
        let table = self.0.lock();
        table.open.values().filter(|(of, _)| of == name).count()
    }

    /// Fails all later requests to a volume's files. Waits for the requests in progress, then
    /// returns the number of files.
    pub fn disconnect(&self, name: &str) -> usize {
        let table = self.0.lock();
        let gates = table.open.values().filter(|(of, _)| of == name);
        let gates: Vec<Gate> = gates.map(|(_, gate)| Arc::clone(gate)).collect();
        drop(table);
        for gate in &gates {
            *gate.write() = true;
        }
        gates.len()
    }
}

/// A volume that is open as a file. Dropping it closes the file.
pub struct OpenFile<V> {
    volume: V,
    gate: Gate,
    files: Arc<OpenFiles>,
    number: u64,
}

impl<V> OpenFile<V> {
    fn pass<T>(
        &self,
        request: impl FnOnce(&V) -> Result<T, VolumeError>,
    ) -> Result<T, VolumeError> {
        let shut = self.gate.read();
        match *shut {
            true => Err(VolumeErrorKind::Failed.into()),
            false => request(&self.volume),
        }
    }
}

impl<V> Drop for OpenFile<V> {
    fn drop(&mut self) {
        self.files.0.lock().open.remove(&self.number);
    }
}

impl<V: Volume> Layer for OpenFile<V> {
    type Inner = V;

    fn below(&self) -> &V {
        &self.volume
    }

    fn around(
        &self,
        _request: VolumeRequest,
        go: impl FnOnce(&V) -> Result<(), VolumeError>,
    ) -> Result<(), VolumeError> {
        self.pass(go)
    }

    /// Lists every capability, so that a new one does not bypass the gate by default. `changes` is
    /// not offered: its objects would outlive a disconnect.
    fn capabilities<'a>(&'a self, below: Capabilities<'a>) -> Capabilities<'a> {
        Capabilities {
            fast_path: below.fast_path.map(|_| self as &dyn FastPath),
            changes: None,
            prefetch: below.prefetch,
        }
    }
}

impl<V: Volume> FastPath for OpenFile<V> {
    fn is_cached(&self, context: RequestContext, offset_bytes: u64, len_bytes: u64) -> bool {
        let below = self.volume.capabilities();
        below.is_cached(context, offset_bytes, len_bytes)
    }

    fn write_now(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        data: &[u8],
    ) -> Result<bool, VolumeError> {
        self.pass(|v| v.capabilities().write_now(context, offset_bytes, data))
    }
}

#[cfg(test)]
mod tests {
    use super::OpenFiles;
    use std::sync::Arc;
    use testkit::conformance::volume::abilities_suite;
    use volume::{MemoryVolume, RequestContext, Volume, VolumeErrorKind};

    #[test]
    fn clients_are_counted_and_sent_away() {
        let files = Arc::new(OpenFiles::default());
        let open = |name| OpenFiles::open(&files, name, MemoryVolume::new(100));
        let (one, two, other) = (open("a"), open("a"), open("b"));
        let context = RequestContext::default();
        assert_eq!((files.count("a"), files.count("b")), (2, 1));
        assert!(one.capabilities().write_now(context, 0, b"x").is_ok());
        assert_eq!(files.disconnect("a"), 2);
        let refused = two.read(context, 0, &mut [0]).unwrap_err();
        assert_eq!(refused.kind, VolumeErrorKind::Failed);
        assert!(one.capabilities().write_now(context, 0, b"x").is_err());
        assert!(other.flush(context).is_ok());
        drop((one, two));
        assert_eq!((files.count("a"), files.count("b")), (0, 1));
    }

    #[test]
    fn files_have_no_history_and_else_what_their_volume_has() {
        let files = Arc::new(OpenFiles::default());
        let open = |volume| OpenFiles::open(&files, "a", volume);
        abilities_suite(&|volume| Box::new(open(volume)), &["changes"]);
    }
}
