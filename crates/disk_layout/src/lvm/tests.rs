use super::*;

/// As `vgcfgbackup` of LVM 2.03 writes it; stripes over several lines too.
const TEXT: &str = r#"vg {
id = "aaaaaa-aaaa-aaaa-aaaa-aaaa-aaaa-aaaaaa"
seqno = 4
format = "lvm2"			# informational
extent_size = 8192		# 4 Megabytes
physical_volumes {
pv0 {
id = "012345-6789-abcd-efgh-ijkl-mnop-qrstuv"
device = "/dev/vdb"
pe_start = 2048
pe_count = 49
}
pv1 {
id = "other0-0000-0000-0000-0000-0000-000000"
pe_start = 2048
}
}
logical_volumes {
a {
segment_count = 2
segment1 {
start_extent = 0
extent_count = 10
type = "striped"
stripe_count = 1
stripes = [
"pv0", 0
]
}
segment2 {
start_extent = 10
extent_count = 5
type = "striped"
stripe_count = 1
stripes = [
"pv0", 20
]
}
}
b {
segment1 {
start_extent = 0
extent_count = 10
stripe_count = 1
stripes = [ "pv1", 0 ]
}
segment2 {
start_extent = 10
extent_count = 10
stripe_count = 1
stripes = [ "pv0", 10 ]
}
}
}
}
"#;

const MIB: u64 = 1 << 20;

fn physical_volume(text: &str, start: usize, area_len: usize) -> Vec<u8> {
    let mut bytes = vec![0; 64 << 20];
    let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
    put(512, b"LABELONE");
    put(512 + 20, &32_u32.to_le_bytes());
    put(512 + 24, b"LVM2 001");
    put(544, b"0123456789abcdefghijklmnopqrstuv");
    put(544 + 40, &(MIB).to_le_bytes());
    put(544 + 72, &4096_u64.to_le_bytes());
    put(544 + 80, &(area_len as u64).to_le_bytes());
    put(4096 + 4, b" LVM2 x[5A%r0N*>");
    put(4096 + 40, &(start as u64).to_le_bytes());
    put(4096 + 48, &(text.len() as u64).to_le_bytes());
    let first = text.len().min(area_len - start);
    put(4096 + start, &text.as_bytes()[..first]);
    put(4096 + 512, &text.as_bytes()[first..]);
    bytes
}

fn table(bytes: &[u8]) -> Option<PartitionTable> {
    let whole = [Segment {
        part_bytes: 0,
        volume_bytes: 0,
        len_bytes: bytes.len() as u64,
    }];
    struct Bytes<'a>(&'a [u8]);
    impl crate::VolumeSource for Bytes<'_> {
        fn read(&self, offset: u64, to: &mut [u8]) -> Result<(), crate::Unreadable> {
            self.0.read(offset, to)
        }
    }
    read(&mut Meter::new(&Bytes(bytes), &whole), 200 << 20)
}

fn segment(part: u64, volume: u64, len: u64) -> Segment {
    Segment {
        part_bytes: part * MIB,
        volume_bytes: volume * MIB,
        len_bytes: len * MIB,
    }
}

#[test]
fn linear_segments_on_this_physical_volume_are_found() {
    // The text wraps around the end of its area in the second case.
    for (start, area_len) in [(512, 1 << 20), (2000, 2500)] {
        let found = table(&physical_volume(TEXT, start, area_len)).expect("a physical volume");
        assert_eq!(
            found.parts,
            [
                vec![segment(0, 1, 40), segment(40, 81, 20)],
                vec![segment(40, 41, 40)]
            ]
        );
    }
}

#[test]
fn damaged_text_ends() {
    let deep = "a {\n".repeat(100);
    assert_eq!(table(&physical_volume(&deep, 512, 1 << 20)), None);
    let huge = TEXT.replace("10", "18446744073709551615");
    let found = table(&physical_volume(&huge, 512, 1 << 20)).expect("a table");
    assert!(
        found
            .parts
            .iter()
            .flatten()
            .all(|s| s.len_bytes <= 200 << 20)
    );
}
