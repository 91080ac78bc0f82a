//! Answers text requests: SendTargets, in as many responses as the initiator needs. The full
//! feature phase calls this.
//!
//! Invariant: an initiator sees only targets that it may log in to.

use super::state::{FullFeature, Next, PendingText};
use crate::login::keys::{Answer, offer};
use crate::replies::Numbering;
use crate::targets::normal_name;
use crate::wire::pdu::{FINAL, NO_TAG, PduHeader, response};
use crate::wire::reject::Reason;
use crate::wire::text;
use connections::Disconnected;

/// More follows.
const CONTINUE: u8 = 0x40;
/// Maximum length of an answer, bytes: some ten thousand targets.
const TEXT_BYTES_MAX: usize = 2 << 20;
/// Tag of a text that continues.
const TEXT_TAG: u32 = 2;

impl FullFeature<'_> {
    pub(super) fn text(&mut self, header: &PduHeader, data: &[u8]) -> Result<Next, Disconnected> {
        let transfer_tag = header.u32_at::<20>();
        if transfer_tag != NO_TAG {
            let is_ours = |t: &PendingText| t.tag == header.tag() && transfer_tag == TEXT_TAG;
            return Ok(match self.text.take().filter(is_ours) {
                Some(pending) => self.continue_text(header, pending),
                None => Next::Broken(Reason::ProtocolError),
            });
        }
        // Usual requests have one pair; none needs several PDUs.
        let pairs = text::decode(data).filter(|_| header.is_final());
        let Some(pairs) = pairs else {
            return Ok(Next::Broken(Reason::ProtocolError));
        };
        let mut bytes = Vec::new();
        for (key, value) in pairs {
            match key {
                "SendTargets" => self.send_targets(value, &mut bytes),
                "MaxRecvDataSegmentLength" => {
                    let parameters = &mut self.parameters;
                    match offer(parameters, &mut Vec::new(), false, (key, value)) {
                        Answer::Value(value) => text::push(&mut bytes, key, &value),
                        Answer::Silent | Answer::Broken => self.obey_declared_length()?,
                    }
                }
                _ => text::push(&mut bytes, key, "NotUnderstood"),
            }
        }
        let pending = PendingText {
            tag: header.tag(),
            bytes,
            at: 0,
        };
        Ok(self.continue_text(header, pending))
    }

    /// Lets all data from now on, also that of workers, fit the length that the initiator has
    /// declared (RFC 7143, 13.12).
    fn obey_declared_length(&mut self) -> Result<(), Disconnected> {
        // Answers that are made already go before the one to the declaration.
        self.flush()?;
        let service = self.workers.service();
        service
            .segments
            .set_segment_bytes(self.parameters.send_bytes);
        self.workers.wait_for_running(|_| true);
        Ok(())
    }

    fn continue_text(&mut self, header: &PduHeader, mut pending: PendingText) -> Next {
        let rest = pending.bytes.get(pending.at..).unwrap_or_default();
        let len = rest.len().min(self.parameters.send_bytes as usize);
        let part = rest.get(..len).unwrap_or_default();
        let is_last = len == rest.len();
        let (flags, tag) = match is_last {
            true => (FINAL, NO_TAG),
            false => (CONTINUE, TEXT_TAG),
        };
        let answer = PduHeader::new(response::TEXT, flags)
            .with_tag(header.tag())
            .with_u32::<20>(tag);
        self.replies.push(answer, Numbering::Takes, part);
        if !is_last {
            pending.at += len;
            self.text = Some(pending);
        }
        Next::Continue
    }

    /// Lists targets: all in a discovery session; in others only the session's own.
    fn send_targets(&self, value: &str, out: &mut Vec<u8>) {
        let own = self.names.target.as_deref();
        let targets = &self.session.targets;
        let one = |name: &str| {
            let access = targets.access(name);
            access.map(|access| (name.to_owned(), access))
        };
        let list = match (value, own) {
            ("All", None) => targets.list(),
            ("", Some(own)) => one(own).into_iter().collect(),
            ("All", Some(_)) => return text::push(out, "SendTargets", "Reject"),
            (name, _) => one(&normal_name(name)).into_iter().collect(),
        };
        for (name, access) in list {
            let is_own = own.is_none_or(|own| own == name);
            let is_reachable = !self.session.is_remote || access.is_protected();
            if !is_own || !is_reachable || !access.admits(&self.names.initiator) {
                continue;
            }
            if out.len() > TEXT_BYTES_MAX {
                return;
            }
            text::push(out, "TargetName", &name);
            for portal in &self.session.portals {
                let address = format!("{portal},{}", self.session.units.portal_group);
                text::push(out, "TargetAddress", &address);
            }
        }
    }
}
