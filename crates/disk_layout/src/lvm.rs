//! Physical volumes of LVM2: which segments its linear volumes have here. `volume` reads a table
//! from them as from a partition.
//!
//! Invariant: bounded text, names, nesting and segments. Logical volumes whose segments overlap are
//! left out: tools make none. Segments on other physical volumes, stripes and
//! mirrors are left out: those ranges are unknown.

use super::bytes::{fingerprint, le32, le64};
use super::partitions::{PARTS_MAX, PartitionTable};
use super::source::{Meter, Segment};

const SECTOR: u64 = 512;
const TEXT_BYTES_MAX: u64 = 512 << 10;
/// Names of LVM have 127 bytes at most, identities 38.
const NAME_BYTES_MAX: usize = 128;
const SEGMENTS_MAX: usize = 4096;
const NESTING_MAX: usize = 8;

/// Reads the label and the metadata of a physical volume, if this is one.
pub fn read(meter: &mut Meter<'_>, volume_bytes: u64) -> Option<PartitionTable> {
    let sectors = meter.read(0, 4 * SECTOR as usize)?;
    let label_at = (0..4).find(|n| sectors.get(n * 512..n * 512 + 8) == Some(b"LABELONE"))? * 512;
    let label = sectors.get(label_at..label_at + 512)?;
    if label.get(24..32)? != b"LVM2 001" {
        return None;
    }
    let header = label.get(le32(label, 20)? as usize..)?;
    let identity: String = header
        .get(..32)?
        .iter()
        .map(|byte| char::from(*byte))
        .collect();
    // Two lists, each ended by zeroes: data, then metadata.
    let mut areas = (40..)
        .step_by(16)
        .map_while(|at| Some((le64(header, at)?, le64(header, at + 8)?)));
    areas.by_ref().take(16).find(|area| area.0 == 0)?;
    let (area, area_len) = areas.next().filter(|area| area.0 != 0)?;
    let head = meter.read(area, SECTOR as usize)?;
    if head.get(4..20)? != b" LVM2 x[5A%r0N*>" {
        return None;
    }
    let (at, len) = (le64(&head, 40)?, le64(&head, 48)?);
    if at < SECTOR || at >= area_len || len > TEXT_BYTES_MAX.min(area_len) {
        return None;
    }
    // The area is a ring after its first sector.
    let first = len.min(area_len - at);
    let mut text = meter.read(area.checked_add(at)?, first as usize)?;
    text.extend(meter.read(area.checked_add(SECTOR)?, (len - first) as usize)?);
    let mut table = parse(std::str::from_utf8(&text).ok()?, &identity, volume_bytes)?;
    table.own = vec![0..4 * SECTOR, area..area.checked_add(area_len)?];
    table.fingerprint = fingerprint(&[&text]);
    Some(table)
}

/// One segment of a logical volume, in extents.
#[derive(Clone, Debug, Default)]
struct Piece {
    volume: String,
    start: u64,
    len: u64,
    is_linear: bool,
    on: String,
    on_start: u64,
}

#[derive(Default)]
struct Reader {
    extent_sectors: u64,
    /// Name, identity, first sector of extents.
    physical: Vec<(String, String, u64)>,
    pieces: Vec<Piece>,
    left_out: u64,
}

impl Reader {
    fn opened(&mut self, path: &[String]) {
        if let [_, group, volume, _] = path
            && group == "logical_volumes"
        {
            if self.pieces.len() >= SEGMENTS_MAX {
                self.left_out += 1;
                return;
            }
            self.pieces.push(Piece {
                volume: volume.clone(),
                ..Piece::default()
            });
        }
    }

    fn value(&mut self, path: &[String], key: &str, value: &str) {
        let number = || value.parse::<u64>().unwrap_or_default();
        let text = || value.trim_matches('"').to_owned();
        match path {
            [_] if key == "extent_size" => self.extent_sectors = number(),
            [_, group, name] if group == "physical_volumes" => {
                if key == "id" && self.physical.len() < PARTS_MAX {
                    let identity = text().replace('-', "");
                    self.physical.push((name.clone(), identity, 0));
                } else if key == "pe_start"
                    && let Some(last) = self.physical.last_mut()
                {
                    last.2 = number();
                }
            }
            [_, group, _, _] if group == "logical_volumes" => {
                let Some(piece) = self.pieces.last_mut() else {
                    return;
                };
                match key {
                    "start_extent" => piece.start = number(),
                    "extent_count" => piece.len = number(),
                    "stripe_count" => piece.is_linear = number() == 1,
                    "stripes" => {
                        let mut parts = value.trim_matches(['[', ']']).split(',').map(str::trim);
                        piece.on = parts
                            .next()
                            .unwrap_or_default()
                            .trim_matches('"')
                            .to_owned();
                        let start = parts.next().and_then(|start| start.parse().ok());
                        piece.on_start = start.unwrap_or_default();
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn table(&self, identity: &str, volume_bytes: u64) -> Option<PartitionTable> {
        let here = self.physical.iter().find(|known| known.1 == identity)?;
        let extent = self.extent_sectors.checked_mul(SECTOR).filter(|e| *e > 0)?;
        let data = here.2.checked_mul(SECTOR)?;
        let segment = |piece: &Piece| {
            let start = piece.on_start.checked_mul(extent)?.checked_add(data)?;
            let len = piece.len.checked_mul(extent)?;
            let fits = start.checked_add(len)? <= volume_bytes && len > 0;
            let part_bytes = piece.start.checked_mul(extent)?;
            part_bytes.checked_add(len)?;
            fits.then_some(Segment {
                part_bytes,
                volume_bytes: start,
                len_bytes: len,
            })
        };
        let mut table = PartitionTable {
            left_out: self.left_out,
            ..PartitionTable::default()
        };
        let mut name = "";
        for piece in &self.pieces {
            let is_here = piece.is_linear && piece.on == here.0;
            let Some(segment) = is_here.then(|| segment(piece)).flatten() else {
                continue;
            };
            if name != piece.volume {
                if table.parts.len() >= PARTS_MAX {
                    table.left_out += 1;
                    break;
                }
                table.parts.push(Vec::new());
            }
            if let Some(last) = table.parts.last_mut() {
                last.push(segment);
            }
            name = &piece.volume;
        }
        for part in &mut table.parts {
            part.sort_unstable_by_key(|segment| segment.part_bytes);
        }
        let before = table.parts.len();
        table.parts.retain(|part| is_sound(part));
        table.left_out += (before - table.parts.len()) as u64;
        Some(table)
    }
}

/// No byte of the logical volume has two places, and none of the physical one is used twice.
fn is_sound(part: &[Segment]) -> bool {
    let ends = |segment: &Segment| {
        let part_end = segment.part_bytes.checked_add(segment.len_bytes);
        let end = segment.volume_bytes.checked_add(segment.len_bytes);
        part_end.zip(end)
    };
    let mut places: Vec<&Segment> = part.iter().collect();
    places.sort_unstable_by_key(|segment| segment.volume_bytes);
    let follow = |pair: &[&Segment]| match pair {
        [first, second] => ends(first).is_some_and(|(_, end)| end <= second.volume_bytes),
        _ => true,
    };
    let is_apart = |first: &Segment, second: &Segment| {
        ends(first).is_some_and(|(end, _)| end <= second.part_bytes)
    };
    part.is_sorted_by(is_apart) && places.windows(2).all(follow)
}

fn parse(text: &str, identity: &str, volume_bytes: u64) -> Option<PartitionTable> {
    let (mut reader, mut path) = (Reader::default(), Vec::new());
    let mut pending = String::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        // Lists may go over several lines.
        if !pending.is_empty() || (line.contains('[') && !line.contains(']')) {
            pending.push_str(line);
            if !line.contains(']') {
                continue;
            }
        }
        let whole = std::mem::take(&mut pending);
        let line = if whole.is_empty() { line } else { &whole };
        if let Some(name) = line.strip_suffix('{') {
            let name = name.trim();
            if path.len() >= NESTING_MAX || name.len() > NAME_BYTES_MAX {
                return None;
            }
            path.push(name.to_owned());
            reader.opened(&path);
        } else if line == "}" {
            path.pop();
        } else if let Some((key, value)) = line.split_once('=')
            // Others are of no interest: texts that describe, and lists of tags.
            && value.len() <= 2 * NAME_BYTES_MAX
        {
            reader.value(&path, key.trim(), value.trim());
        }
    }
    reader.table(identity, volume_bytes)
}

#[cfg(test)]
mod tests;
