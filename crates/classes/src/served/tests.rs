use super::*;
use std::sync::{OnceLock, Weak};
use volume::{MemoryVolume, Operation, Slow};

/// Blocks are unknown during a step: steps without a pause would leave them so.
#[test]
fn writes_during_each_step_do_not_keep_the_steps_going() {
    let reader: Arc<OnceLock<Weak<Served>>> = Arc::default();
    let of_volume = Arc::clone(&reader);
    // Somebody writes to it during each read.
    let busy = Slow::new(MemoryVolume::new(1 << 20), move |request| {
        let served = of_volume.get().and_then(Weak::upgrade);
        if let Some(served) = served.filter(|_| request.operation == Operation::Read) {
            let is_settled = served.counters().is_some_and(|(_, is_settled)| is_settled);
            assert!(!is_settled, "not everything was read");
            served.wrote(0, 512, None);
        }
    });
    let source: Arc<dyn Volume> = Arc::new(busy);
    let served = Arc::new(Served::new("v", 0, &source));
    served.set_memory(1 << 20);
    assert!(reader.set(Arc::downgrade(&served)).is_ok());
    let step = || served.step(&mut Budget::of_reads(8), IoClass(0));
    let steps = (0..1000).take_while(|_| step()).count();
    assert!(steps < 100, "{steps} steps");
    // A later step looks at it.
    let reads = || served.counters().map(|(cost, _)| cost.reads);
    let before = reads();
    step();
    assert!(reads() > before);
}
