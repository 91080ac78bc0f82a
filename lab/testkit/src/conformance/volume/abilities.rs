//! Checks that a decorator keeps the abilities of the volume below, except those that it withholds
//! on purpose.
//!
//! Invariant: [`Able`] has every ability there is. A new ability does not compile until it is added
//! here; then every decorator that runs the suite is tested for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use volume::{
    Capabilities, Changes, FastPath, Layer, MemoryVolume, Prefetch, RequestContext, TrackChanges,
    Volume, VolumeError,
};

/// A volume in memory with every ability. Counts the calls that reach it through them.
#[derive(Clone)]
pub struct Able {
    memory: MemoryVolume,
    asked: Arc<AtomicU64>,
}

/// The only state that [`Able`] knows.
const STATE: &str = "then";

impl Able {
    fn new() -> Self {
        let memory = MemoryVolume::new(1 << 20);
        memory.mark(STATE);
        Self {
            memory,
            asked: Arc::default(),
        }
    }

    fn asked(&self) {
        self.asked.fetch_add(1, Relaxed);
    }
}

impl Layer for Able {
    type Inner = MemoryVolume;

    fn below(&self) -> &MemoryVolume {
        &self.memory
    }

    fn capabilities<'a>(&'a self, _: Capabilities<'a>) -> Capabilities<'a> {
        Capabilities {
            fast_path: Some(self),
            changes: Some(self),
            prefetch: Some(self),
        }
    }
}

impl FastPath for Able {
    fn is_cached(&self, _: RequestContext, _: u64, _: u64) -> bool {
        self.asked();
        true
    }

    fn write_now(
        &self,
        context: RequestContext,
        at: u64,
        data: &[u8],
    ) -> Result<bool, VolumeError> {
        self.asked();
        self.memory.write_now(context, at, data)
    }
}

impl TrackChanges for Able {
    fn baselines(&self, count_max: usize) -> Vec<String> {
        self.asked();
        self.memory.baselines(count_max)
    }

    fn changes_since(&self, baseline: &str) -> Option<Arc<dyn Changes>> {
        self.asked();
        self.memory.changes_since(baseline)
    }
}

impl Prefetch for Able {
    fn prefetch(&self, _: RequestContext, _: u64, _: u64) {
        self.asked();
    }

    fn announce(&self, _: RequestContext, _: u64, _: u64) -> bool {
        self.asked();
        true
    }
}

/// Runs the suite on a decorator. `wrap` puts it around a volume with every ability. `withheld`
/// names those that it does not pass on, on purpose.
pub fn abilities_suite(wrap: &dyn Fn(Able) -> Box<dyn Volume>, withheld: &[&str]) {
    let below = Able::new();
    let volume = wrap(below.clone());
    let wanted = Volume::capabilities(&below).names();
    let wanted: Vec<_> = wanted
        .into_iter()
        .filter(|n| !withheld.contains(n))
        .collect();
    let able = (*volume).capabilities();
    assert_eq!(able.names(), wanted, "abilities of the decorator");
    let context = RequestContext::default();
    // Either may answer no; then the volume below need not have been asked.
    let _ = able.is_cached(context, 0, 1);
    let _ = able.write_now(context, 0, &[1]);
    let mut asked = below.asked.load(Relaxed);
    let mut reached = |what: &str| {
        let before = std::mem::replace(&mut asked, below.asked.load(Relaxed));
        assert_eq!(asked, before + 1, "{what} reaches the volume below");
    };
    if able.prefetch.is_some() {
        able.prefetch(context, 0, 1);
        reached("a hint");
        assert!(able.announce(context, 0, 1));
        reached("an announced read");
    }
    if able.changes.is_some() {
        assert_eq!(able.baselines(2), [STATE]);
        reached("the question for states");
        assert!(able.changes_since(STATE).is_some());
        reached("the question for changes");
    }
}
