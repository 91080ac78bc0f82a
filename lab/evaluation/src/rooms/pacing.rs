//! The product's scheduler in front of the pool's disks, in virtual time.
//!
//! The world calls this for each request of a chain to the pool, as `device::PacedDisk` calls
//! `device::DeviceQueue` for each read, and for each sync of a container.
//! Invariant: which request goes when is decided by `qos` alone: its scheduler, its delays at the
//! edge, its guess of the device's kind. Only the waiting is done by the world. There is no
//! maintenance here, so no request waits for idle time.

use crate::disk::{DiskRequest, Ns};
use qos::{
    DeviceKind, DeviceRequest, Direction, EdgeThrottle, Flow, InvalidShares, KindDetector, Plan,
    Scheduler,
};
use std::collections::BTreeMap;

/// Longest read whose latency tells the kind of the device; `device::grants`.
const SHORT_BYTES: u64 = 256 << 10;

struct Asked {
    request: DeviceRequest,
    disk: DiskRequest,
    came: Ns,
    began: Ns,
    at_device: usize,
}

/// See the module's head.
pub struct Pacing {
    plan: Plan,
    kind: DeviceKind,
    scheduler: Scheduler,
    edge: EdgeThrottle,
    judge: KindDetector,
    /// Requests that wait or are at the device, by chain.
    asked: BTreeMap<u64, Asked>,
    at_device: usize,
}

impl Pacing {
    /// Creates the queue of a server with this plan.
    pub fn new(plan: Plan) -> Result<Self, InvalidShares> {
        plan.check()?;
        let kind = plan.device.unwrap_or_default();
        Ok(Self {
            plan,
            kind,
            scheduler: Scheduler::new(plan.settings(kind))?,
            edge: EdgeThrottle::new(plan.targets),
            judge: KindDetector::default(),
            asked: BTreeMap::new(),
            at_device: 0,
        })
    }

    /// Returns how long a request waits at the edge.
    pub fn delay(&self, flow: Flow, request: &DiskRequest, now: Ns) -> Ns {
        match request.is_write {
            true => 0,
            false => self.edge.delay_ns(flow, now),
        }
    }

    /// Queues the request of a chain. Returns false if it may pass: too many wait.
    pub fn offer(
        &mut self,
        chain: u64,
        flow: Flow,
        is_sequential: bool,
        disk: DiskRequest,
        now: Ns,
    ) -> bool {
        let request = DeviceRequest {
            id: chain,
            flow,
            direction: match disk.is_write {
                true => Direction::Write,
                false => Direction::Read,
            },
            is_sequential,
            bytes: disk.bytes,
        };
        let is_queued = self.scheduler.offer(request).is_ok();
        if is_queued {
            let asked = Asked {
                request,
                disk,
                came: now,
                began: now,
                at_device: 0,
            };
            self.asked.insert(chain, asked);
        }
        is_queued
    }

    /// Hands out the next request that goes to the disks now, with its chain.
    pub fn next(&mut self, now: Ns) -> Option<(u64, DiskRequest)> {
        let (request, _) = self.scheduler.next(now)?;
        self.at_device += 1;
        let asked = self.asked.get_mut(&request.id)?;
        (asked.began, asked.at_device) = (now, self.at_device);
        Some((request.id, asked.disk))
    }

    /// Ends the request of a chain, if it did not pass.
    pub fn ended(&mut self, chain: u64, now: Ns) {
        let Some(asked) = self.asked.remove(&chain) else {
            return;
        };
        self.at_device = self.at_device.saturating_sub(1);
        let DeviceRequest { flow, .. } = asked.request;
        self.scheduler.completed(flow, asked.came, now);
        if asked.disk.is_write {
            return;
        }
        self.edge.completed(flow, now - asked.came, now);
        if !asked.request.is_sequential && asked.request.bytes <= SHORT_BYTES {
            self.judge.saw(now - asked.began, asked.at_device);
            let kind = self.plan.device.unwrap_or(self.judge.kind());
            if kind != self.kind {
                self.kind = kind;
                // Cannot fail: the plan was checked for both kinds.
                let _ = self.scheduler.set(self.plan.settings(kind));
            }
        }
    }
}
