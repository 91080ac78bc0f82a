//! Delays a volume's requests. Tests and examples of front ends use this to count requests in
//! flight, to delay them, and to see which requests overtake them.
//!
//! Invariant: every request of the core is reported before it reaches the volume behind, and waits
//! until the callback returns.

use crate::{
    Capabilities, FastPath, Layer, Operation, Prefetch, RequestContext, Volume, VolumeError,
    VolumeRequest,
};

type OnRequest = Box<dyn Fn(VolumeRequest) + Send + Sync>;
type Asked = Box<dyn Fn(VolumeRequest) -> bool + Send + Sync>;

/// Reports each request before it begins.
pub struct Slow<V> {
    inner: V,
    before: OnRequest,
    ready: Asked,
    announces: bool,
}

impl<V: Volume> Slow<V> {
    /// Wraps `inner`. `before` may block, count or panic. No range counts as cached and no write is
    /// done at once.
    pub fn new(inner: V, before: impl Fn(VolumeRequest) + Send + Sync + 'static) -> Self {
        Self {
            inner,
            before: Box::new(before),
            ready: Box::new(|_| false),
            announces: false,
        }
    }

    /// Makes exceptions: reads for which `ready` is true count as cached, and such writes need not
    /// wait. They are not reported.
    pub fn except(self, ready: impl Fn(VolumeRequest) -> bool + Send + Sync + 'static) -> Self {
        Self {
            ready: Box::new(ready),
            ..self
        }
    }

    /// Claims of every announced read that the device has begun.
    pub fn announcing(self) -> Self {
        Self {
            announces: true,
            ..self
        }
    }
}

impl<V: Volume> Layer for Slow<V> {
    type Inner = V;

    fn below(&self) -> &V {
        &self.inner
    }

    fn around(
        &self,
        request: VolumeRequest,
        go: impl FnOnce(&V) -> Result<(), VolumeError>,
    ) -> Result<(), VolumeError> {
        (self.before)(request);
        go(&self.inner)
    }

    fn capabilities<'a>(&'a self, below: Capabilities<'a>) -> Capabilities<'a> {
        Capabilities {
            fast_path: Some(self),
            prefetch: Some(self),
            ..below
        }
    }
}

impl<V: Volume> FastPath for Slow<V> {
    fn is_cached(&self, _: RequestContext, offset_bytes: u64, len_bytes: u64) -> bool {
        (self.ready)(VolumeRequest::new(Operation::Read, offset_bytes, len_bytes))
    }

    fn write_now(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        data: &[u8],
    ) -> Result<bool, VolumeError> {
        let request = VolumeRequest::new(Operation::Write, offset_bytes, data.len() as u64);
        let below = self.inner.capabilities();
        Ok((self.ready)(request) && below.write_now(context, offset_bytes, data)?)
    }
}

impl<V: Volume> Prefetch for Slow<V> {
    fn prefetch(&self, context: RequestContext, offset_bytes: u64, len_bytes: u64) {
        let below = self.inner.capabilities();
        below.prefetch(context, offset_bytes, len_bytes);
    }

    fn announce(&self, context: RequestContext, offset_bytes: u64, len_bytes: u64) -> bool {
        let below = self.inner.capabilities();
        self.announces || below.announce(context, offset_bytes, len_bytes)
    }
}
