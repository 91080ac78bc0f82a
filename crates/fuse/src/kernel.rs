//! Sends notices about the page cache to the kernel, and queries it. Background tasks call this.
//!
//! Invariant: a query is answered once, or fails when the session ends. The methods of a
//! [`crate::FileSystem`] must not call this: the answer comes as a request, and the kernel may hold
//! locks of the node while it waits for us.

use crate::device::Device;
use crate::wire::{NodeId, notices};
use parking_lot::Mutex;
use rustix::io::Errno;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

/// The kernel's side of a session.
pub struct Kernel {
    device: Arc<Device>,
    questions: Mutex<Questions>,
}

#[derive(Default)]
struct Questions {
    waiting: HashMap<u64, SyncSender<Vec<u8>>>,
    last: u64,
    ended: bool,
}

impl Kernel {
    pub(crate) fn new(device: Arc<Device>) -> Self {
        Self {
            device,
            questions: Mutex::default(),
        }
    }

    /// Drops attributes of a node and its cached pages in a range; `len_bytes` 0 means to the end.
    /// Fails with `NOENT` when the kernel does not know the node.
    pub fn invalidate(&self, node: NodeId, offset: u64, len_bytes: u64) -> Result<(), Errno> {
        let notice = notices::invalidate_node(node, offset, len_bytes);
        self.device.send(&[&notice])
    }

    /// Drops a name, so that it is looked up again.
    pub fn invalidate_name(&self, directory: NodeId, name: &[u8]) -> Result<(), Errno> {
        let notice = notices::invalidate_name(directory, name);
        self.device.send(&[&notice])
    }

    /// Puts bytes into the page cache of a node, as if they had been read. Fails with `NOENT` when
    /// the kernel does not know the node.
    pub fn store(&self, node: NodeId, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let len = u32::try_from(data.len()).map_err(|_| Errno::INVAL)?;
        let notice = notices::store(node, offset, len);
        self.device.send(&[&notice, data])
    }

    /// Returns the cached bytes of a range, up to the first missing page, at most as much as the
    /// kernel may write at once.
    ///
    /// Fails with `NOENT` when the kernel does not know the node, and with `NOTCONN` when the
    /// session has ended.
    pub fn retrieve(&self, node: NodeId, offset: u64, len_bytes: u32) -> Result<Vec<u8>, Errno> {
        let (answer, answered) = sync_channel(1);
        let mut questions = self.questions.lock();
        if questions.ended {
            return Err(Errno::NOTCONN);
        }
        questions.last += 1;
        let number = questions.last;
        questions.waiting.insert(number, answer);
        drop(questions);
        let notice = notices::retrieve(number, node, offset, len_bytes);
        if let Err(error) = self.device.send(&[&notice]) {
            self.questions.lock().waiting.remove(&number);
            return Err(error);
        }
        answered.recv().map_err(|_| Errno::NOTCONN)
    }

    /// Delivers an answer.
    pub(crate) fn retrieved(&self, number: u64, data: &[u8]) {
        let waiting = self.questions.lock().waiting.remove(&number);
        if let Some(answer) = waiting {
            // The channel has space for one answer. A receiver that gave up ignores it.
            let _ = answer.send(data.to_vec());
        }
    }

    /// Notes that no more answers will come.
    pub(crate) fn ended(&self) {
        let mut questions = self.questions.lock();
        questions.ended = true;
        questions.waiting.clear();
    }
}
