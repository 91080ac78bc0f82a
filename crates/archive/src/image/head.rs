//! Recognises formats of disk images by their first and last bytes, and the damage that these
//! show. `import` calls this before it believes that a file is raw.
//!
//! Invariant: nothing is read beyond the first [`HEAD_BYTES`] and the last [`FOOTER_BYTES`]. The
//! bytes may be hostile: a guest writes the first sectors of a raw disk.

use super::bad_sectors::is_bad;
use crate::filesystem::PathError;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes at the start of a file that decide.
pub const HEAD_BYTES: u64 = 4096;
/// Size of the footer of a VHD image.
const FOOTER_BYTES: u64 = 512;

/// Format of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageKind {
    /// QEMU, versions 2 and 3.
    Qcow2,
    /// VMware, or a descriptor of VMware extents.
    Vmdk,
    /// VirtualBox.
    Vdi,
    /// Hyper-V.
    Vhdx,
    /// Virtual PC and Azure.
    Vhd,
    /// An encrypted block device. Its bytes are a raw image.
    Luks,
    /// An image that cannot be imported, with the name of its format.
    Foreign(&'static str),
}

impl ImageKind {
    /// Returns its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Qcow2 => "qcow2",
            Self::Vmdk => "vmdk",
            Self::Vdi => "vdi",
            Self::Vhdx => "vhdx",
            Self::Vhd => "vhd",
            Self::Luks => "LUKS",
            Self::Foreign(name) => name,
        }
    }
}

/// A recognised image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its format.
    pub kind: ImageKind,
    /// Damage that its head or footer shows.
    pub damage: Option<&'static str>,
    /// Reason why its contents cannot be read at all.
    pub unreadable: Option<&'static str>,
}

/// Returns the format of the image in this file, `len` bytes long. `None`: raw, as far as its bytes
/// tell.
pub fn of_file(file: &File, len: u64, path: &Path) -> Result<Option<Head>, PathError> {
    let read = |offset, wanted: u64| -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(wanted.min(len - offset)).unwrap_or(0)];
        file.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    };
    let both = read(0, HEAD_BYTES)
        .and_then(|head| Ok((head, read(len.saturating_sub(FOOTER_BYTES), FOOTER_BYTES)?)));
    match both {
        Ok((head, footer)) => Ok(of_bytes(&head, &footer, len)),
        // A bad sector there is the business of the import, which can skip it.
        Err(e) if is_bad(&e) => Ok(None),
        Err(e) => Err(PathError::new("read", path, e)),
    }
}

/// Returns the format of an image that begins with these bytes, and whose end is not known.
pub fn of_start(head: &[u8]) -> Option<ImageKind> {
    kind_of(head)
}

fn of_bytes(head: &[u8], footer: &[u8], len: u64) -> Option<Head> {
    let kind = kind_of(head).or_else(|| is_fixed_vhd(footer).then_some(ImageKind::Vhd))?;
    let mut found = Head {
        kind,
        damage: None,
        unreadable: None,
    };
    match kind {
        ImageKind::Qcow2 => {
            if be32(head, 32).is_some_and(|method| method != 0) {
                found.unreadable = Some("it is encrypted");
            }
            // Version 3, incompatible features, bit 1.
            if be32(head, 4) == Some(3) && be32(head, 76).is_some_and(|low| low & 2 != 0) {
                found.damage = Some("its header says that it is corrupt");
            }
        }
        ImageKind::Vdi => {
            let data = le32(head, 0x158).map(u64::from);
            let (size, blocks) = (le32(head, 0x178), le32(head, 0x184));
            let end = data.zip(size.zip(blocks)).map(|(data, (size, blocks))| {
                data.saturating_add(u64::from(size).saturating_mul(blocks.into()))
            });
            if end.is_none_or(|end| end > len) {
                found.damage = Some("its end is missing: it is shorter than its header says");
            }
        }
        ImageKind::Vhd => {
            let dynamic = head.starts_with(VHD_COOKIE);
            let at_end = footer
                .windows(VHD_COOKIE.len())
                .take(2)
                .any(|at| at == VHD_COOKIE);
            if dynamic && !at_end {
                found.damage = Some("its end is missing: it has no footer");
            }
            let disk_type = be32(if dynamic { head } else { footer }, 60);
            if disk_type == Some(VHD_DIFFERENCING) {
                found.unreadable = Some("it has only the differences to another disk");
            }
        }
        _ => {}
    }
    Some(found)
}

const VHD_COOKIE: &[u8] = b"conectix";
const VHD_FIXED: u32 = 2;
const VHD_DIFFERENCING: u32 = 4;

fn kind_of(head: &[u8]) -> Option<ImageKind> {
    let is = |magic: &[u8]| head.starts_with(magic);
    let at_64 = le32(head, 64);
    Some(match head {
        _ if is(b"QFI\xfb") => match be32(head, 4) {
            Some(2 | 3) => ImageKind::Qcow2,
            _ => ImageKind::Foreign("qcow"),
        },
        _ if is(b"KDMV") || is(b"COWD") || is_vmdk_descriptor(head) => ImageKind::Vmdk,
        _ if at_64 == Some(0xbeda_107f) => ImageKind::Vdi,
        _ if is(b"vhdxfile") => ImageKind::Vhdx,
        _ if is(VHD_COOKIE) => ImageKind::Vhd,
        _ if is(b"LUKS\xba\xbe") => ImageKind::Luks,
        _ if is(b"QED\0") => ImageKind::Foreign("qed"),
        _ if is(b"WithoutFreeSpace") || is(b"WithouFreSpacExt") => ImageKind::Foreign("parallels"),
        _ => return None,
    })
}

/// Returns true for the text file that names the extents of a VMware disk.
fn is_vmdk_descriptor(head: &[u8]) -> bool {
    let mut lines = head.split(|b| *b == b'\n').map(<[u8]>::trim_ascii);
    let first = lines.find(|line| !line.is_empty());
    first.is_some_and(|line| {
        line.to_ascii_lowercase()
            .starts_with(b"# disk descriptorfile")
    })
}

/// Returns true for the footer of a VHD image of fixed size, which has no other mark. A disk may
/// end with any bytes, so its checksum counts too.
fn is_fixed_vhd(footer: &[u8]) -> bool {
    const CHECKSUM: std::ops::Range<usize> = 64..68;
    let others = footer
        .iter()
        .enumerate()
        .filter(|(n, _)| !CHECKSUM.contains(n));
    let sum: u32 = others.map(|(_, byte)| u32::from(*byte)).sum();
    footer.starts_with(VHD_COOKIE)
        && be32(footer, 60) == Some(VHD_FIXED)
        && be32(footer, CHECKSUM.start) == Some(!sum)
}

fn four(bytes: &[u8], at: usize) -> Option<[u8; 4]> {
    bytes.get(at..at + 4)?.try_into().ok()
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    four(bytes, at).map(u32::from_be_bytes)
}

fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    four(bytes, at).map(u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(magic: &[u8], put: &[(usize, &[u8])]) -> Option<Head> {
        let mut head = vec![0; 4096];
        for (at, bytes) in [(0, magic)].iter().chain(put) {
            head[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        of_bytes(&head, &[0; 512], 1 << 20)
    }

    #[test]
    fn heads_tell_the_format() {
        let two = (4, &[0, 0, 0, 2][..]);
        for (magic, put, kind) in [
            (&b"QFI\xfb"[..], &[two][..], ImageKind::Qcow2),
            (
                b"QFI\xfb",
                &[(4, &[0, 0, 0, 1])],
                ImageKind::Foreign("qcow"),
            ),
            (b"KDMV", &[], ImageKind::Vmdk),
            (
                b"\n# Disk DescriptorFile\nversion=1\n",
                &[],
                ImageKind::Vmdk,
            ),
            (b"", &[(64, &[0x7f, 0x10, 0xda, 0xbe])], ImageKind::Vdi),
            (b"vhdxfile", &[], ImageKind::Vhdx),
            (b"conectix", &[], ImageKind::Vhd),
            (b"LUKS\xba\xbe", &[], ImageKind::Luks),
            (b"QED\0", &[], ImageKind::Foreign("qed")),
        ] {
            assert_eq!(of(magic, put).map(|head| head.kind), Some(kind));
        }
        for raw in [&b""[..], b"QFI", b"# a script", b"LUKS"] {
            assert_eq!(of(raw, &[]), None);
            assert_eq!(of_bytes(raw, raw, raw.len() as u64), None);
        }
    }

    #[test]
    fn heads_tell_damage_and_what_cannot_be_read() {
        let qcow2 = |put: &[(usize, &[u8])]| of(b"QFI\xfb\0\0\0\x03", put).unwrap();
        assert_eq!((qcow2(&[]).damage, qcow2(&[]).unreadable), (None, None));
        assert!(qcow2(&[(72, &[0, 0, 0, 0, 0, 0, 0, 2])]).damage.is_some());
        assert!(qcow2(&[(32, &[0, 0, 0, 2])]).unreadable.is_some());
        let vhd = |disk_type| of(b"conectix", &[(60, &[0, 0, 0, disk_type])]).unwrap();
        assert!(vhd(3).damage.is_some() && vhd(3).unreadable.is_none());
        assert!(vhd(4).unreadable.is_some());
        let magic: (usize, &[u8]) = (64, &[0x7f, 0x10, 0xda, 0xbe]);
        let vdi = |blocks| {
            let put = [magic, (0x178, &[0, 0, 16, 0]), (0x184, blocks)];
            of(b"", &put).unwrap().damage
        };
        assert_eq!(vdi(&[1, 0, 0, 0]), None);
        assert!(vdi(&[2, 0, 0, 0]).is_some());
    }

    #[test]
    fn a_fixed_vhd_is_known_by_its_footer() {
        let mut footer = vec![0; 512];
        footer[..8].copy_from_slice(VHD_COOKIE);
        footer[63] = 2;
        assert_eq!(of_bytes(&[0; 4096], &footer, 1 << 20), None);
        let sum: u32 = footer.iter().map(|byte| u32::from(*byte)).sum();
        footer[64..68].copy_from_slice(&(!sum).to_be_bytes());
        let found = of_bytes(&[0; 4096], &footer, 1 << 20).unwrap();
        assert_eq!((found.kind, found.damage), (ImageKind::Vhd, None));
    }
}
