//! Resolves metadata contexts: base:allocation, and changes since earlier states of an export. The
//! negotiation calls this.
//!
//! Invariant: lists and choices are bounded for any number of earlier states. A chosen context
//! keeps its source, so that it answers even if its name is deleted. Changes are called
//! `qemu:dirty-bitmap:STATE`, because clients can ask for that.

use super::{Negotiation, Reply, Step};
use crate::wire::constants::{BASE_ALLOCATION, DIRTY_BITMAP, STRING_BYTES_MAX};
use crate::wire::options::{ReplyKind, decode_contexts};
use crate::wire::replies::Style;
use std::sync::Arc;
use volume::{Changes, Volume};

/// Maximum number of contexts of one connection.
const CHOSEN_MAX: usize = 16;
/// Maximum number of queries of one option.
const QUERIES_MAX: usize = 64;
/// Maximum number of earlier states in one list, the newest. Older ones can still be chosen by
/// name.
const LISTED_MAX: usize = 1024;

/// A context that BLOCK_STATUS describes.
#[derive(Clone)]
pub(crate) struct MetaContext {
    /// Identifier in replies.
    pub(crate) id: u32,
    name: String,
    pub(crate) source: Source,
}

/// Source of a context's descriptors.
#[derive(Clone)]
pub(crate) enum Source {
    /// The volume's extents.
    Allocation,
    /// The volume's changes since an earlier state.
    Changes(Arc<dyn Changes>),
}

/// Returns the source of the context with exactly this name.
fn find(volume: &dyn Volume, name: &str) -> Option<Source> {
    if name == BASE_ALLOCATION {
        return Some(Source::Allocation);
    }
    let baseline = name.strip_prefix(DIRTY_BITMAP)?;
    let changes = volume.capabilities().changes_since(baseline);
    changes.map(Source::Changes)
}

impl Negotiation<'_> {
    pub(super) fn contexts(&mut self, data: &[u8], set: bool, reply: &mut Reply<'_>) -> Step {
        if set {
            self.chosen = None;
        }
        if self.style == Style::Simple {
            return reply.invalid("contexts need structured replies");
        }
        let Some(request) = decode_contexts(data) else {
            return reply.invalid("the request for contexts is malformed");
        };
        if request.queries.len() > QUERIES_MAX {
            return reply.refuse(ReplyKind::ErrTooBig, "too many queries");
        }
        let Some((name, volume)) = self.open(request.name) else {
            return reply.refuse(ReplyKind::ErrUnknown, "there is no such export");
        };
        if !set {
            for name in listed(&*volume, &request.queries) {
                reply.send(ReplyKind::MetaContext, &[&[0; 4], name.as_bytes()]);
            }
            return reply.ack();
        }
        let mut chosen: Vec<MetaContext> = Vec::new();
        for query in request.queries {
            if chosen.iter().any(|other| other.name == query) {
                continue;
            }
            let Some(source) = find(&*volume, query) else {
                continue;
            };
            if chosen.len() == CHOSEN_MAX {
                return reply.refuse(ReplyKind::ErrTooBig, "too many contexts");
            }
            chosen.push(MetaContext {
                id: chosen.len() as u32 + 1,
                name: query.to_owned(),
                source,
            });
        }
        for context in &chosen {
            let (id, name) = (context.id.to_be_bytes(), context.name.as_bytes());
            reply.send(ReplyKind::MetaContext, &[&id, name]);
        }
        self.chosen = Some((name, chosen));
        reply.ack()
    }
}

/// Returns names of the contexts that match any of `queries`; all names without queries.
///
/// Queries of other namespaces match nothing. A query that ends after a namespace matches all in
/// it.
fn listed(volume: &dyn Volume, queries: &[&str]) -> Vec<String> {
    let asked = |name: &str| queries.is_empty() || queries.contains(&name);
    let mut names = Vec::new();
    if asked("base:") || asked(BASE_ALLOCATION) {
        names.push(BASE_ALLOCATION.to_owned());
    }
    if asked("qemu:") || asked(DIRTY_BITMAP) {
        let baselines = volume.capabilities().baselines(LISTED_MAX).into_iter();
        let all = baselines.map(|baseline| format!("{DIRTY_BITMAP}{baseline}"));
        names.extend(all.filter(|name| name.len() <= STRING_BYTES_MAX));
        return names;
    }
    for query in queries {
        let changes = query.starts_with(DIRTY_BITMAP);
        let known = names.iter().any(|name| name == query);
        if changes && !known && find(volume, query).is_some() {
            names.push((*query).to_owned());
        }
    }
    names
}
