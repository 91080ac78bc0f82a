//! What a session tells the kernel, and asks it, about its page cache.
//!
//! Invariant: a question is answered once, or fails when the session ends. Nothing here may be called
//! from within a [`crate::FileSystem`]'s methods: the answer comes as a request, and the kernel may hold
//! locks of the node while it waits for us. Background tasks call this.

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

    /// Drops attributes of a node and what the page cache has of a range; `len_bytes` 0 means to the
    /// end. `NOENT` when the kernel does not know the node.
    pub fn invalidate(&self, node: NodeId, offset: u64, len_bytes: u64) -> Result<(), Errno> {
        let notice = notices::invalidate_node(node, offset, len_bytes);
        self.device.send(&[&notice])
    }

    /// Drops a name, so that it is looked up again.
    pub fn invalidate_name(&self, directory: NodeId, name: &[u8]) -> Result<(), Errno> {
        let notice = notices::invalidate_name(directory, name);
        self.device.send(&[&notice])
    }

    /// Puts bytes into the page cache of a node, as if they had been read. `NOENT` when the kernel
    /// does not know it.
    pub fn store(&self, node: NodeId, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let len = u32::try_from(data.len()).map_err(|_| Errno::INVAL)?;
        let notice = notices::store(node, offset, len);
        self.device.send(&[&notice, data])
    }

    /// What the page cache has of a range, up to the first page that it has not; at most as much as
    /// the kernel may write at once. `NOENT` when it does not know the node, `NOTCONN` when the
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

    /// An answer has come.
    pub(crate) fn retrieved(&self, number: u64, data: &[u8]) {
        let waiting = self.questions.lock().waiting.remove(&number);
        if let Some(answer) = waiting {
            // Room for one was made; whoever gave up does not mind.
            let _ = answer.send(data.to_vec());
        }
    }

    /// No answers come any more.
    pub(crate) fn ended(&self) {
        let mut questions = self.questions.lock();
        questions.ended = true;
        questions.waiting.clear();
    }
}
