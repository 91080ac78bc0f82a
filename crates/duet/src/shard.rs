//! One shard of the table: records, and the sessions that get events. The table calls this, one
//! thread at a time.
//!
//! Invariant: a record exists exactly while it has events for some session. `waiting` counts these
//! by session. There are at most `records_max` records.

use crate::page::{Events, Item, Page};
use crate::records::{Records, SESSIONS_MAX};
use crate::subscriber::Subscriber;
use std::sync::Arc;

/// Records of the greediest session to try before other sessions lose items too.
const LOOKED_AT_MAX: usize = 64;

/// See the module's head. Aligned to two cache lines, because they are fetched in pairs.
#[repr(align(128))]
pub(crate) struct Shard {
    records: Records,
    records_max: usize,
    sessions: [Option<Arc<Subscriber>>; SESSIONS_MAX],
    waiting: [usize; SESSIONS_MAX],
    /// Next record to drop when there are too many.
    hand: usize,
}

impl Shard {
    pub fn new(seed: u64, records_max: usize) -> Self {
        Self {
            records: Records::new(seed),
            records_max,
            sessions: Default::default(),
            waiting: [0; SESSIONS_MAX],
            hand: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    pub fn memory_bytes(&self) -> usize {
        self.records.memory_bytes()
    }

    /// Number of a session's items.
    pub fn waiting(&self, session: usize) -> usize {
        self.waiting.get(session).copied().unwrap_or_default()
    }

    /// Sends events of this shard to that session too.
    pub fn join(&mut self, session: usize, subscriber: Arc<Subscriber>) {
        debug_assert_eq!(self.waiting(session), 0);
        if let Some(slot) = self.sessions.get_mut(session) {
            *slot = Some(subscriber);
        }
    }

    /// Removes the session and its items.
    pub fn leave(&mut self, session: usize) {
        self.forget(session);
        if let Some(slot) = self.sessions.get_mut(session) {
            *slot = None;
        }
    }

    /// Drops all items of a session.
    pub fn forget(&mut self, session: usize) {
        for at in (0..self.records.len()).rev() {
            self.tell(session, at);
        }
    }

    /// Records events of a page for all sessions.
    pub fn record(&mut self, hash: u64, page: &Page, events: Events) {
        let wants =
            |s: &Option<Arc<Subscriber>>| s.as_ref().is_some_and(|s| s.may_want(page, events));
        let mut wanted = 0u16;
        for (session, _) in (0..).zip(&self.sessions).filter(|(_, s)| wants(s)) {
            wanted |= 1u16 << session;
        }
        self.record_for((wanted, false), hash, page, events);
    }

    /// Records the present state of a page for one session, which may know it already.
    pub fn inject(&mut self, session: usize, hash: u64, page: &Page, events: Events) {
        self.record_for((1 << session, true), hash, page, events);
    }

    fn record_for(
        &mut self,
        (wanted, is_repeated): (u16, bool),
        hash: u64,
        page: &Page,
        events: Events,
    ) {
        if wanted == 0 {
            return;
        }
        let found = self.records.find(hash, page);
        let at = found.unwrap_or_else(|| {
            self.make_room();
            self.records.push(hash, page)
        });
        let Some(record) = self.records.get_mut(at) else {
            return;
        };
        let pending = record.pending.iter_mut().zip(&mut self.waiting);
        let sessions = (0..).zip(self.sessions.iter().zip(pending));
        for (session, (subscriber, (pending, waiting))) in sessions {
            let Some(subscriber) = subscriber.as_ref().filter(|_| wanted >> session & 1 == 1)
            else {
                continue;
            };
            let before = usize::from(!pending.is_none());
            let is_unsure = is_repeated || subscriber.is_unsure();
            *pending = pending.after(events, subscriber.mask, is_unsure);
            *waiting = *waiting + usize::from(!pending.is_none()) - before;
        }
        if record.is_reported() {
            self.records.remove(at);
        }
    }

    /// Drops items when there are too many records. The session with the most items loses first, so
    /// that a session that does not fetch costs the others nothing.
    fn make_room(&mut self) {
        let mut looked_at = 0;
        while self.records.len() >= self.records_max.max(1) {
            let waiting = (0..SESSIONS_MAX).map(|session| (self.waiting(session), session));
            let greediest = waiting.max().map_or(0, |(_, session)| session);
            self.hand = (self.hand + 1) % self.records.len();
            self.lose(greediest, self.hand);
            looked_at += 1;
            let len = self.records.len();
            for session in (0..SESSIONS_MAX).filter(|_| looked_at > LOOKED_AT_MAX) {
                if self.records.len() == len {
                    self.lose(session, self.hand);
                }
            }
        }
    }

    fn lose(&mut self, session: usize, at: usize) {
        let lost = self.tell(session, at);
        let subscriber = self.sessions.get(session).and_then(Option::as_ref);
        if let (Some(_), Some(subscriber)) = (lost, subscriber) {
            subscriber.lose_an_item();
        }
    }

    /// Takes a session's item from the record at `at`. The record is removed with its last item.
    fn tell(&mut self, session: usize, at: usize) -> Option<Item> {
        let record = self.records.get_mut(at)?;
        let pending = std::mem::take(record.pending.get_mut(session)?);
        if pending.is_none() {
            return None;
        }
        let item = Item {
            page: record.page(),
            events: pending.events(),
        };
        let is_reported = record.is_reported();
        if is_reported {
            self.records.remove(at);
        }
        if let Some(waiting) = self.waiting.get_mut(session) {
            *waiting -= 1;
        }
        Some(item)
    }

    /// Walks down from `cursor` and appends up to `max` items of a session. Looks at up to `visits`
    /// records and subtracts them. The walk is complete when `cursor` is 0.
    pub fn fetch(
        &mut self,
        session: usize,
        cursor: &mut usize,
        (max, visits): (usize, &mut usize),
        items: &mut Vec<Item>,
    ) {
        *cursor = (*cursor).min(self.records.len());
        let mut reported = 0;
        while *cursor > 0 && *visits > 0 && reported < max && self.waiting(session) > 0 {
            *cursor -= 1;
            *visits -= 1;
            if let Some(item) = self.tell(session, *cursor) {
                items.push(item);
                reported += 1;
            }
        }
        if self.waiting(session) == 0 {
            *cursor = 0;
        }
    }
}
