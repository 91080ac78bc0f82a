//! A volume whose requests have the classes of the policy. Front ends call it as a [`Volume`].
//!
//! Invariant: see [`super`]. The class that the client sent with a read or write reaches the volume
//! only through the policy (`wire:N`).

use crate::classifiers::Classifiers;
use crate::served::Served;
use std::sync::Arc;
use volume::{
    Capabilities, Durability, FastPath, Layer, Operation, Prefetch, RequestContext, Volume,
    VolumeError, VolumeRequest,
};

/// See the module's head.
pub struct Classified<V> {
    all: Arc<Classifiers>,
    served: Arc<Served>,
    below: Arc<V>,
}

impl<V: Volume> Classified<V> {
    /// Puts a classifier before a volume. `key` is its identity: two names of one volume have the
    /// same. `name` is for `volume:` in policies. Handles of one key share what is learned, so all
    /// writes to the volume must come through here.
    pub fn new(all: &Arc<Classifiers>, key: &str, name: &str, volume: V) -> Self
    where
        V: 'static,
    {
        let below = Arc::new(volume);
        let source: Arc<dyn Volume> = Arc::<V>::clone(&below);
        Self {
            all: Arc::clone(all),
            served: all.serve(key, name, &source),
            below,
        }
    }

    fn volume(&self) -> &V {
        &self.below
    }

    /// Returns the context with what is judged of a request: offset and length, and whether it
    /// writes.
    fn judged(&self, context: RequestContext, asked: (u64, u64), is_write: bool) -> RequestContext {
        self.all.judged(&self.served, context, asked, is_write)
    }

    /// Tells of a write that was done, or may have been done in part.
    fn wrote(&self, offset_bytes: u64, len_bytes: u64, bytes: Option<&[u8]>) {
        if self.all.is_active() {
            self.served.wrote(offset_bytes, len_bytes, bytes);
        }
    }

    fn wrote_data<T>(&self, result: &Result<T, VolumeError>, offset_bytes: u64, data: &[u8]) {
        let bytes = result.is_ok().then_some(data);
        self.wrote(offset_bytes, data.len() as u64, bytes);
    }
}

impl<V: Volume> Layer for Classified<V> {
    type Inner = V;

    fn below(&self) -> &V {
        &self.below
    }

    /// Zeroes take no place in a cache, so they need no class; but blocks have other contents.
    fn around(
        &self,
        request: VolumeRequest,
        go: impl FnOnce(&V) -> Result<(), VolumeError>,
    ) -> Result<(), VolumeError> {
        let result = go(self.volume());
        if let Operation::Discard | Operation::WriteZeroes = request.operation {
            self.wrote(request.offset_bytes, request.len_bytes, None);
        }
        result
    }

    fn read(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        into: &mut [u8],
    ) -> Result<(), VolumeError> {
        let len_bytes = into.len() as u64;
        let context = self.judged(context, (offset_bytes, len_bytes), false);
        self.all.count(context.class, false, len_bytes);
        self.volume().read(context, offset_bytes, into)
    }

    fn write(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        data: &[u8],
        durability: Durability,
    ) -> Result<(), VolumeError> {
        let len_bytes = data.len() as u64;
        let context = self.judged(context, (offset_bytes, len_bytes), true);
        self.all.count(context.class, true, len_bytes);
        let result = self.volume().write(context, offset_bytes, data, durability);
        self.wrote_data(&result, offset_bytes, data);
        result
    }

    fn capabilities<'a>(&'a self, below: Capabilities<'a>) -> Capabilities<'a> {
        Capabilities {
            fast_path: below.fast_path.map(|_| self as &dyn FastPath),
            prefetch: below.prefetch.map(|_| self as &dyn Prefetch),
            ..below
        }
    }
}

impl<V: Volume> FastPath for Classified<V> {
    fn is_cached(&self, context: RequestContext, offset_bytes: u64, len_bytes: u64) -> bool {
        let below = self.volume().capabilities();
        below.is_cached(context, offset_bytes, len_bytes)
    }

    fn write_now(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        data: &[u8],
    ) -> Result<bool, VolumeError> {
        let asked = (offset_bytes, data.len() as u64);
        let context = self.judged(context, asked, true);
        let below = self.volume().capabilities();
        let result = below.write_now(context, offset_bytes, data);
        // A write that was not done comes again as an ordinary one, and counts there.
        if matches!(result, Ok(false)) {
            if self.all.is_active() {
                self.served.comes_again(asked.0, asked.1);
            }
            return result;
        }
        self.all.count(context.class, true, asked.1);
        self.wrote_data(&result, offset_bytes, data);
        result
    }
}

impl<V: Volume> Prefetch for Classified<V> {
    fn prefetch(&self, context: RequestContext, offset_bytes: u64, len_bytes: u64) {
        let context = self.judged(context, (offset_bytes, len_bytes), false);
        let below = self.volume().capabilities();
        below.prefetch(context, offset_bytes, len_bytes);
    }

    fn announce(&self, context: RequestContext, offset_bytes: u64, len_bytes: u64) -> bool {
        // The read that follows gets its class when it comes.
        let below = self.volume().capabilities();
        below.announce(context, offset_bytes, len_bytes)
    }
}
