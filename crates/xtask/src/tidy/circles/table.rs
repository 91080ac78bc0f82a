//! Circles between files that are still there. Take out what is gone; put nothing in.

/// Files of a circle, sorted.
pub const CIRCLES: &[&[&str]] = &[
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
];
