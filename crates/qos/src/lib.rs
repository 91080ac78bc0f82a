//! Device scheduler: decides which request uses the device next. It implements shares, reads before
//! writes, idle time, I/O floors, deadlines, and delays at the edge.
//!
//! The `device` crate calls this under the lock of the device's queue. [`EdgeThrottle`] may delay
//! users' reads before they are queued.
//!
//! Invariant: no I/O, no threads and no clock. The caller passes the time, nanoseconds since any
//! fixed moment. Nothing here waits: [`Scheduler::wakes_at`] returns when the caller must ask
//! again.
//!
//! ```text
//! user reads ──> EdgeThrottle (delay) ─┐
//! user writes ─────────────────────────┼─> Scheduler: a queue per flow ──> next() ──> device
//! maintenance ─────────────────────────┘     reads before writes            │
//!                                        user: by share; idle time: by weight; I/O floor
//! ```
//!
//! Sources: shares for kinds of requests and throttling at the edge by mean latency: DDFS, "Can't
//! we all get along?", ATC'18. Maintenance in idle time that must still finish: Duet, SOSP'15;
//! Golding et al., "Idleness is not sloth", USENIX'95.
//!
//! # Shares
//!
//! Each request belongs to a [`Flow`]. Clients, restores and backups are users; the other flows are
//! maintenance. Shares divide device time, estimated from [`DeviceCosts`]: the bytes, and a seek if
//! the request is not sequential. Non-sequential client requests get a fixed share (default 20 %).
//! The other users divide the rest by weight. Active flows divide a share that is not used. An idle
//! flow saves nothing up.
//!
//! Within a flow reads precede writes. At most eight reads overtake a waiting write.
//!
//! # Maintenance
//!
//! Replication, garbage collection, scrub and defragmentation get the device when it is idle: when
//! no user request was there for a learned time ([`SchedulerSettings::grace`]). After a task has
//! moved the head, it continues until a user arrives and stops at once: users suffer from the seek
//! that they meet, not from the bytes. Each task also has an I/O floor, a small share of time, so
//! that it finishes on a device that is never idle. A task spends its floor one request at a time,
//! between user requests where there is a gap. A deadline raises the floor to remaining work
//! divided by remaining time. If the deadlines of several tasks need more than maintenance may
//! have, the highest rate goes first (declarative IO: DINGO, OSDI'26).
//!
//! # Leases
//!
//! A process that reads the pool beside its server asks the server for I/O grants, so that one
//! scheduler sees all requests. [`lease`] defines the messages.
//!
//! # At the edge
//!
//! [`EdgeThrottle`] follows the mean latency of each flow. When a flow exceeds its target, requests
//! of flows that are equally or less important are delayed by the excess. Queues then build up in
//! the clients and not in front of the device.
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
pub use kind::{DeviceKind, KindDetector};
pub use plan::Plan;
pub use scheduler::{DeviceRequest, Direction, Grant, QueueFull, Scheduler};
pub use settings::{DeviceCosts, InvalidShares, SchedulerSettings};
