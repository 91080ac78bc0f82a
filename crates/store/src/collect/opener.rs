//! Checks regions that were read and will be packed, large ones in another thread. `copy` calls
//! this.
//!
//! Invariant: regions come out in the order in which they went in. The thread affects only time: it
//! accesses neither device nor pool. Small regions stay with the caller, because passing them on
//! takes as long as checking them. Without large regions no thread is started.

use super::region::{LookedRegion, ReadRegion};
use chunk_store::container::ContainerReader;
use chunk_store::{Result, StoreError, StoreErrorKind};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// Stored size from which a region goes to the thread, bytes.
const LARGE_BYTES: usize = 128 << 10;

/// See the module's head.
pub(super) struct Opener {
    containers: Arc<ContainerReader>,
    helper: Option<Helper>,
    /// Regions in order, the oldest first.
    waiting: VecDeque<Waiting>,
}

enum Waiting {
    Here(ReadRegion),
    AtHelper,
}

struct Helper {
    /// Dropped to end the thread.
    read: Option<Sender<ReadRegion>>,
    looked: Receiver<LookedRegion>,
    thread: Option<JoinHandle<()>>,
}

impl Opener {
    pub fn new(containers: &Arc<ContainerReader>) -> Self {
        Self {
            containers: Arc::clone(containers),
            helper: None,
            waiting: VecDeque::new(),
        }
    }

    /// Returns how many regions went in and have not come out.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Drops all regions and ends the thread.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.helper = None;
    }

    /// Takes a region. The caller limits their number.
    pub fn push(&mut self, region: ReadRegion) {
        if region.len() < LARGE_BYTES {
            return self.waiting.push_back(Waiting::Here(region));
        }
        let helper = match self.helper.take() {
            Some(helper) => Some(helper),
            None => Helper::start(&self.containers).ok(),
        };
        let refused = match helper.as_ref().and_then(|helper| helper.read.as_ref()) {
            Some(read) => read.send(region).err().map(|back| back.0),
            None => Some(region),
        };
        self.helper = helper;
        self.waiting.push_back(match refused {
            Some(region) => Waiting::Here(region),
            None => Waiting::AtHelper,
        });
    }

    /// Returns the oldest region, checked, or `None` if there is none.
    pub fn pop(&mut self) -> Result<Option<LookedRegion>> {
        match self.waiting.pop_front() {
            None => Ok(None),
            Some(Waiting::Here(region)) => Ok(Some(region.look(&self.containers))),
            Some(Waiting::AtHelper) => {
                let looked = self.helper.as_ref().and_then(|h| h.looked.recv().ok());
                let why = "the thread that looks into regions has ended";
                looked
                    .map(Some)
                    .ok_or_else(|| StoreError::new(StoreErrorKind::Invalid, why))
            }
        }
    }
}

impl Helper {
    fn start(containers: &Arc<ContainerReader>) -> std::io::Result<Self> {
        let (read, to_look) = channel::<ReadRegion>();
        let (say, looked) = channel();
        let containers = Arc::clone(containers);
        let work = move || {
            for region in to_look {
                if say.send(region.look(&containers)).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("gc-open".to_owned());
        Ok(Self {
            read: Some(read),
            looked,
            thread: Some(thread.spawn(work)?),
        })
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.read = None;
        if let Some(thread) = self.thread.take() {
            // A panicking thread has already been reported by the panic itself.
            let _ = thread.join();
        }
    }
}
