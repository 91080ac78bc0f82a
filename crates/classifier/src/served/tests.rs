use super::*;
use std::sync::{OnceLock, Weak};
use volume::{Layer, MemoryVolume, VolumeError};

/// A volume to which somebody writes during each read.
struct Busy {
    below: MemoryVolume,
    served: OnceLock<Weak<Served>>,
}

impl Layer for Busy {
    type Below = MemoryVolume;

    fn below(&self) -> &MemoryVolume {
        &self.below
    }

    fn read(
        &self,
        context: RequestContext,
        offset_bytes: u64,
        into: &mut [u8],
    ) -> Result<(), VolumeError> {
        if let Some(served) = self.served.get().and_then(Weak::upgrade) {
            let is_settled = served.counters().is_some_and(|(_, is_settled)| is_settled);
            assert!(!is_settled, "not everything was read");
            served.wrote(0, 512, None);
        }
        Volume::read(&self.below, context, offset_bytes, into)
    }
}

/// Blocks are unknown during a step: steps without a pause would leave them so.
#[test]
fn writes_during_each_step_do_not_keep_the_steps_going() {
    let busy = Arc::new(Busy {
        below: MemoryVolume::new(1 << 20),
        served: OnceLock::new(),
    });
    let source: Arc<dyn Volume> = Arc::<Busy>::clone(&busy);
    let served = Arc::new(Served::new("v", 0, &source));
    served.set_memory(1 << 20);
    assert!(busy.served.set(Arc::downgrade(&served)).is_ok());
    let step = || served.step(&mut Budget::of_reads(8));
    let steps = (0..1000).take_while(|_| step()).count();
    assert!(steps < 100, "{steps} steps");
    // A later step looks at it.
    let reads = || served.counters().map(|(cost, _)| cost.reads);
    let before = reads();
    step();
    assert!(reads() > before);
}
