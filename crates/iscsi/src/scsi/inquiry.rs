//! Encodes what a unit says of itself: INQUIRY and its pages, READ CAPACITY, REPORT LUNS. Units
//! call this.
//!
//! Invariant: the identity of a unit follows from that of its disk, or from the name of its target
//! and its number, so it is the same after a restart.

use super::mode::Sizes;
use super::parameters::RANGES_MAX;
use super::sense::Sense;
use ring::digest;

/// Largest transfer of one command, bytes.
pub(crate) const TRANSFER_BYTES_MAX: u64 = 32 << 20;
/// Largest range of one UNMAP, bytes.
pub(crate) const UNMAP_BYTES_MAX: u64 = 512 << 20;
/// Largest range of one WRITE SAME, bytes.
pub(crate) const WRITE_SAME_BYTES_MAX: u64 = 256 << 20;
/// Largest COMPARE AND WRITE, blocks.
pub(crate) const COMPARE_BLOCKS_MAX: u64 = 128;

/// Facts of a unit that its pages show.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    target: String,
    /// Tag of its portal group.
    portal_group: u16,
    number: u8,
    /// A number that no other unit has, with high probability.
    hash: u64,
    /// The unit is not named after its target.
    is_own: bool,
}

impl Identity {
    /// `own` are bytes that no other disk has, if they are known.
    pub(crate) fn new((target, portal_group): (&str, u16), number: u8, own: Option<&[u8]>) -> Self {
        let name = format!("{target},{number}");
        let bytes = own.unwrap_or(name.as_bytes());
        let hash = digest::digest(&digest::SHA256, bytes);
        let bytes = hash.as_ref().first_chunk().copied().unwrap_or_default();
        Self {
            target: target.to_owned(),
            portal_group,
            number,
            hash: u64::from_be_bytes(bytes),
            is_own: own.is_some(),
        }
    }

    pub(crate) fn number(&self) -> u8 {
        self.number
    }

    fn serial(&self) -> String {
        format!("{:016x}", self.hash)
    }
}

/// Sizes of a unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    pub(crate) blocks: u64,
    pub(crate) block_bytes: u32,
    /// Size of requests that are served without read-modify-write, bytes.
    pub(crate) physical_bytes: u32,
    pub(crate) preferred_bytes: u32,
}

impl Geometry {
    pub(crate) fn sizes(&self) -> Sizes {
        (self.blocks, self.block_bytes)
    }

    fn blocks_of(&self, bytes: u64) -> u64 {
        bytes / u64::from(self.block_bytes)
    }

    fn physical_exponent(&self) -> u8 {
        let blocks = (self.physical_bytes / self.block_bytes).max(1);
        blocks.ilog2().min(15) as u8
    }
}

/// Returns standard INQUIRY data. `is_there`: a unit has this number.
pub(crate) fn standard(is_there: bool) -> Vec<u8> {
    // Peripheral qualifier 3: not capable of supporting a unit here.
    let device = if is_there { 0x00 } else { 0x7f };
    let mut out = vec![device, 0, 0x06, 0x12, 91, 0, 0, 0x02];
    out.extend_from_slice(b"QUINTET ");
    out.extend_from_slice(b"VOLUME          ");
    out.extend_from_slice(b"0001");
    out.resize(58, 0);
    // SAM-5, iSCSI, SPC-4, SBC-3.
    for version in [0x00a0_u16, 0x0960, 0x0460, 0x04c0] {
        out.extend_from_slice(&version.to_be_bytes());
    }
    out.resize(96, 0);
    out
}

/// Returns a page of vital product data.
pub(crate) fn page(code: u8, identity: &Identity, geometry: &Geometry) -> Result<Vec<u8>, Sense> {
    let body = match code {
        0x00 => vec![0x00, 0x80, 0x83, 0xb0, 0xb1, 0xb2],
        0x80 => identity.serial().into_bytes(),
        0x83 => designators(identity),
        0xb0 => block_limits(geometry),
        0xb1 => {
            // Not rotating.
            let mut body = vec![0, 1];
            body.resize(60, 0);
            body
        }
        // LBPU, LBPWS, LBPWS10, LBPRZ; thin provisioning.
        0xb2 => vec![0, 0xe4, 0x02, 0],
        _ => return Err(Sense::INVALID_FIELD_IN_CDB),
    };
    let [high, low] = (body.len() as u16).to_be_bytes();
    Ok([vec![0, code, high, low], body].concat())
}

fn designators(identity: &Identity) -> Vec<u8> {
    let mut out = Vec::new();
    let mut push = |set: u8, kind: u8, bytes: &[u8]| {
        out.extend_from_slice(&[set, kind, 0, bytes.len() as u8]);
        out.extend_from_slice(bytes);
    };
    // NAA 3: locally assigned.
    let naa = 0x3 << 60 | identity.hash >> 4;
    push(1, 0x03, &naa.to_be_bytes());
    let vendor = format!("QUINTET {}", identity.serial());
    push(2, 0x01, vendor.as_bytes());
    // The unit, and the port, by their names (SPC-4, 7.8.6.9): padded with zeroes to four bytes.
    let padded = |name: String| {
        let mut name = name.into_bytes();
        name.push(0);
        name.resize(name.len().next_multiple_of(4), 0);
        name
    };
    // Servers may have targets of the same name, and a name may get another disk.
    let unit = match identity.is_own {
        true => format!("naa.{naa:016X}"),
        false => format!("{},L,0x{:04x}", identity.target, identity.number),
    };
    push(3, 0x08, &padded(unit));
    let port = format!("{},t,0x{:04x}", identity.target, identity.portal_group);
    push(0x53, 0x98, &padded(port));
    // Relative target port 1.
    push(0x51, 0x94, &[0, 0, 0, 1]);
    out
}

fn block_limits(geometry: &Geometry) -> Vec<u8> {
    let blocks = |bytes| geometry.blocks_of(bytes);
    let short = |blocks: u64| (blocks.min(u64::from(u32::MAX)) as u32).to_be_bytes();
    let granularity = blocks(geometry.preferred_bytes.into()).max(1);
    // WSNZ: WRITE SAME of no blocks is refused.
    let mut body = vec![1, COMPARE_BLOCKS_MAX as u8];
    body.extend_from_slice(&(granularity.min(0xffff) as u16).to_be_bytes());
    body.extend_from_slice(&short(blocks(TRANSFER_BYTES_MAX)));
    body.extend_from_slice(&short(blocks(1 << 20)));
    // A prefetch has no limit.
    body.extend_from_slice(&[0; 4]);
    body.extend_from_slice(&short(blocks(UNMAP_BYTES_MAX)));
    body.extend_from_slice(&(RANGES_MAX as u32).to_be_bytes());
    body.extend_from_slice(&short(granularity));
    // UGAVALID, aligned at block 0.
    body.extend_from_slice(&[0x80, 0, 0, 0]);
    body.extend_from_slice(&blocks(WRITE_SAME_BYTES_MAX).to_be_bytes());
    body.resize(60, 0);
    body
}

/// Returns the data of READ CAPACITY (10).
pub(crate) fn capacity_10(geometry: &Geometry) -> Vec<u8> {
    let last = geometry.blocks.saturating_sub(1);
    let last = u32::try_from(last).unwrap_or(u32::MAX);
    [last.to_be_bytes(), geometry.block_bytes.to_be_bytes()].concat()
}

/// Returns the data of READ CAPACITY (16).
pub(crate) fn capacity_16(geometry: &Geometry) -> Vec<u8> {
    let last = geometry.blocks.saturating_sub(1);
    let mut out = last.to_be_bytes().to_vec();
    out.extend_from_slice(&geometry.block_bytes.to_be_bytes());
    // LBPME, LBPRZ.
    out.extend_from_slice(&[0, geometry.physical_exponent(), 0xc0, 0]);
    out.resize(32, 0);
    out
}

/// Returns the data of REPORT LUNS for the units with these numbers.
pub(crate) fn luns(select: u8, numbers: impl Iterator<Item = u8>) -> Result<Vec<u8>, Sense> {
    let units: Vec<u8> = match select {
        0x00 | 0x02 => numbers.collect(),
        // Well known units: none.
        0x01 => Vec::new(),
        _ => return Err(Sense::INVALID_FIELD_IN_CDB),
    };
    let mut out = (units.len() as u32 * 8).to_be_bytes().to_vec();
    out.resize(8, 0);
    for number in units {
        out.extend_from_slice(&[0, number, 0, 0, 0, 0, 0, 0]);
    }
    Ok(out)
}
