//! Circles between files that are still there. Take out what is gone; put nothing in.

/// Files of a circle, sorted.
pub const CIRCLES: &[&[&str]] = &[
    &["crates/duet/src/session.rs", "crates/duet/src/table.rs"],
    &[
        "crates/maintenance/src/mend/mending.rs",
        "crates/maintenance/src/mend/naming.rs",
        "crates/maintenance/src/mend/round.rs",
    ],
    &[
        "crates/quintet/src/held/collecting.rs",
        "crates/quintet/src/held/copies.rs",
        "crates/quintet/src/held/defragging.rs",
        "crates/quintet/src/held/tasks.rs",
    ],
    &[
        "crates/store/src/collect/choose.rs",
        "crates/store/src/collect/copy.rs",
    ],
    &[
        "crates/store/src/device/pieces.rs",
        "crates/store/src/device/steps.rs",
        "crates/store/src/device/turns.rs",
    ],
    &[
        "crates/store/src/volumes/admission.rs",
        "crates/store/src/volumes/carrying.rs",
        "crates/store/src/volumes/crowding.rs",
        "crates/store/src/volumes/direct.rs",
        "crates/store/src/volumes/engine.rs",
        "crates/store/src/volumes/engine/checkpoint.rs",
        "crates/store/src/volumes/fetcher.rs",
        "crates/store/src/volumes/kept.rs",
        "crates/store/src/volumes/live.rs",
        "crates/store/src/volumes/restraint.rs",
        "crates/store/src/volumes/round.rs",
    ],
];
