//! Collects the data of writes that did not come with the command: unsolicited data, and data that
//! the target asks for with R2T. The full feature phase calls this.
//!
//! Invariant: a write that is asked for has leased all of its memory. This thread does not wait for
//! memory: it serves other requests meanwhile. It queues for memory only while it has asked for no
//! data, so that no two sessions wait for each other. Data comes in order.

use super::incoming::{Pending, Sequence};
use super::state::{CommandOrder, FullFeature, Next, Payload};
use crate::replies::Numbering;
use crate::scsi::sense::Sense;
use crate::stats::failed;
use crate::wire::pdu::{FINAL, NO_TAG, PduHeader, response};
use connections::{Disconnected, Lease};

impl FullFeature<'_> {
    /// Asks for the data of writes that wait, as far as there is memory.
    pub(super) fn solicit(&mut self) -> Result<(), Disconnected> {
        while let Some(tag) = self.incoming.waiting.front().copied() {
            let Some((pending, _)) = self.incoming.writes.get(&tag) else {
                self.incoming.waiting.pop_front();
                continue;
            };
            if pending.is_unsolicited() {
                return Ok(());
            }
            if pending.ticket.is_aborted() {
                self.aborted(tag);
                continue;
            }
            let missing = pending.transfer - pending.data.len() as u64;
            let share = &self.session.context.changes;
            let Some(lease) = self.incoming.lease(tag, share, missing)? else {
                return Ok(());
            };
            self.incoming.waiting.pop_front();
            self.incoming.asked += 1;
            if let Some((pending, _)) = self.incoming.writes.get_mut(&tag) {
                pending.data.reserve_exact(missing as usize);
                lease.transfer(missing);
                pending.leases.push(lease);
                pending.is_asked = true;
            }
            self.ask(tag);
        }
        Ok(())
    }

    /// Sends an R2T for the next burst of a write.
    fn ask(&mut self, tag: u32) {
        let transfer_tag = self.incoming.fresh_tag();
        let Some((pending, _)) = self.incoming.writes.get_mut(&tag) else {
            return;
        };
        let offset = pending.data.len() as u64;
        let left = (pending.transfer - offset).min(self.parameters.burst_bytes.into());
        pending.sequence = Sequence {
            tag: transfer_tag,
            offset,
            left,
            number: 0,
        };
        let header = PduHeader::new(response::R2T, FINAL)
            .with_u64::<8>(pending.lun)
            .with_tag(tag)
            .with_u32::<20>(transfer_tag)
            .with_u32::<36>(pending.answered.transfers)
            .with_u32::<40>(offset as u32)
            .with_u32::<44>(left as u32);
        pending.answered.transfers = pending.answered.transfers.wrapping_add(1);
        self.replies.push(header, Numbering::Shows, &[]);
    }

    /// Answers a write that another initiator has aborted. The rest of its data is ignored.
    fn aborted(&mut self, tag: u32) {
        if let Some((pending, _place)) = self.incoming.remove(tag) {
            failed(&mut self.tally);
            pending.answered.aborted(&mut self.replies);
        }
    }

    /// Ends a write whose data does not follow in order. The rest of its data is ignored.
    fn wrong_data(&mut self, tag: u32) -> Result<Next, Disconnected> {
        if let Some((pending, _place)) = self.incoming.remove(tag) {
            failed(&mut self.tally);
            let refusal = Sense::WRONG_AMOUNT_OF_DATA.into();
            let Pending { answered, unit, .. } = pending;
            answered.refuse(&mut self.replies, refusal, Some(&unit));
        }
        self.solicit()?;
        Ok(Next::Continue)
    }

    /// Handles a SCSI Data-Out.
    pub(super) fn data_out(
        &mut self,
        header: &PduHeader,
        data: &[u8],
    ) -> Result<Next, Disconnected> {
        let tag = header.tag();
        let Some((pending, _)) = self.incoming.writes.get_mut(&tag) else {
            // Of a write that was answered early, or aborted.
            return Ok(Next::Continue);
        };
        let sequence = &mut pending.sequence;
        let len = data.len() as u64;
        // In data that was not asked for, the unit is reserved (RFC 7143, 11.7.4).
        let is_of_unit = sequence.tag == NO_TAG || header.lun() == pending.lun;
        let is_sound = is_of_unit
            && header.u32_at::<20>() == sequence.tag
            && header.u32_at::<36>() == sequence.number
            && u64::from(header.u32_at::<40>()) == sequence.offset
            && len <= sequence.left;
        if !is_sound {
            return self.wrong_data(tag);
        }
        sequence.number = sequence.number.wrapping_add(1);
        sequence.offset += len;
        sequence.left -= len;
        let is_asked = sequence.tag != NO_TAG;
        let is_complete = sequence.left == 0;
        // More than the command needs is not kept.
        let wanted = pending
            .transfer
            .saturating_sub(pending.data.len() as u64)
            .min(len);
        let kept = data.get(..wanted as usize).unwrap_or_default();
        pending.data.extend_from_slice(kept);
        match (header.is_final(), is_complete) {
            (false, false) => return Ok(Next::Continue),
            (false, true) => return self.wrong_data(tag),
            (true, false) if is_asked => return self.wrong_data(tag),
            (true, _) => {}
        }
        if (pending.data.len() as u64) < pending.transfer {
            match is_asked {
                true if pending.ticket.is_aborted() => self.aborted(tag),
                true => self.ask(tag),
                // It may have sent less than it could.
                false => {
                    pending.sequence.left = 0;
                    pending.leases.iter().for_each(Lease::transferred);
                }
            }
            self.solicit()?;
            return Ok(Next::Continue);
        }
        if let Some((pending, place)) = self.incoming.remove(tag) {
            pending.leases.iter().for_each(Lease::transferred);
            let Pending {
                unit,
                job,
                answered,
                data,
                leases,
                ticket,
                ..
            } = pending;
            let data = Payload::Collected(data);
            self.start(
                unit,
                job,
                data,
                answered,
                (CommandOrder::Entered(ticket), leases),
            )?;
            // The task has its own place.
            drop(place);
        }
        self.solicit()?;
        Ok(Next::Continue)
    }
}
