//! Who uses the device when: shares, reads before writes, idle time, floors and deadlines, and
//! delays at the edge.
//!
//! The ideas: shares for kinds of requests and throttling at the edge by mean latency (DDFS, "Can't
//! we all get along?", ATC'18); maintenance in idle time, which has to end nevertheless (Duet,
//! SOSP'15; Golding et al., "Idleness is not sloth", USENIX'95).
//!
//! Invariant: pure: no I/O, no threads, and no clock: the caller says what time it is, nanoseconds since any
//! moment. Nothing here waits; whoever asks is told when to ask again. Called by the engine in front of
//! a device, under a lock of its own; [`EdgeThrottle`] by front ends.
//!
//! # Shares
//!
//! Requests belong to a [`Flow`]. What is shared is time of the device, estimated from [`DeviceCosts`]: a
//! seek for what is not sequential, and the bytes. Non-sequential foreground requests get their
//! share (20 % unless set) beside everything else together; the other users get theirs of the rest by
//! weight. A share that is not used is everybody's. A flow that was idle has saved nothing up.
//!
//! Within a flow reads go before writes; one write goes after eight reads at the latest.
//!
//! # Maintenance
//!
//! Replication, garbage collection, scrub and defragmentation have the device when it is idle: when no user's
//! request was there for a while ([`Settings::grace`], learned). Once a task has moved the head there it goes on
//! until a user comes, and stops at once: what hurts users is the seek that they meet, not the bytes. Otherwise each has a floor, a small
//! share of time that is its own, so that it ends on a device that is never idle; it is spent one
//! request at a time, between users' requests where there is such a moment. A deadline makes the floor rise to what is left to do by the time that is left.
//!
//! # Leases
//!
//! A process that reads the device beside the one that has the scheduler asks it for turns; [`lease`] is what
//! they say to each other.
//!
//! # At the edge
//!
//! [`EdgeThrottle`] follows the mean latency of each flow. When one is above what was promised, requests
//! of flows that matter no more than it are held back by what is too much, so that queues build up
//! with the clients and not in front of the device.
#![forbid(unsafe_code)]

mod edge;
mod floor;
mod flow;
mod grace;
mod kind;
pub mod lease;
mod plan;
mod scheduler;
mod settings;

pub use edge::{EdgeThrottle, LatencyTargets};
pub use floor::Deadline;
pub use flow::Flow;
pub use grace::GraceLimits;
pub use kind::{DeviceKind, KindJudge};
pub use plan::Plan;
pub use scheduler::{Direction, Grant, QueueFull, Request, Scheduler};
pub use settings::{DeviceCosts, InvalidShares, Settings};
