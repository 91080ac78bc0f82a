use super::*;
use crate::config::Seal;
use crate::container::{ContainerClass, ContainerHeader};
use units::{Generation, WriterId};

const POOL: PoolId = PoolId([7; 16]);

fn id() -> ContainerId {
    ContainerId::new(WriterId(1), 9)
}

/// Returns a container with `data_bytes` of data in which no two sectors are equal.
fn container(data_bytes: usize, percent: u8) -> (ParityShape, Vec<u8>) {
    let shape = ParityShape::plan(data_bytes, percent).expect("a shape");
    let header = ContainerHeader {
        pool: POOL,
        id: id(),
        class: ContainerClass::Data,
        seal: Seal::None,
        salt: [6; 32],
        region_count: 3,
        directory_sector: 1,
        blob_bytes: shape.blob_bytes() as u32,
        generation: Generation(8),
        parity: Some(shape),
    };
    let mut blob = header.encode(false);
    let mut state = 1u64;
    while blob.len() < data_bytes {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        blob.push((state >> 33) as u8);
    }
    append(POOL, id(), shape, &mut blob);
    assert_eq!(blob.len(), shape.blob_bytes());
    (shape, blob)
}

fn all(_: u32) -> bool {
    true
}

fn sectors(blob: &[u8]) -> u32 {
    (blob.len() / PARITY_SECTOR_BYTES) as u32
}

/// Overwrites a sector with zeroes, garbage, or bytes of the sector before.
fn spoil(blob: &mut [u8], sector: u32, how: u32) {
    let start = sector as usize * PARITY_SECTOR_BYTES;
    let place = &mut blob[start..start + PARITY_SECTOR_BYTES];
    match how % 3 {
        0 => place.fill(0),
        1 => place
            .iter_mut()
            .for_each(|b| *b = b.wrapping_mul(31) ^ 0x5a),
        _ => place[(how as usize * 997) % PARITY_SECTOR_BYTES] ^= 1 << (how % 8),
    }
}

#[test]
fn whole_containers_are_sound() {
    for (bytes, percent) in [(513, 2), (4096, 2), (4097, 1), (300_000, 2), (2 << 20, 50)] {
        let (shape, blob) = container(bytes, percent);
        let restored = restore(POOL, id(), &blob, &all).expect("sound");
        assert_eq!((restored.damaged, restored.blob == blob), (0, true));
        let section = &blob[shape.section_at()..];
        assert_eq!(damaged_in_section(POOL, id(), shape, section), 0);
        let footer = &blob[blob.len() - HEADER_BYTES..];
        assert!(ContainerHeader::decode(footer, true).is_ok());
    }
}

#[test]
fn any_one_sector_may_be_lost_in_any_way() {
    for bytes in [700, 9000, 500_000, 1900 << 10] {
        let (shape, blob) = container(bytes, 2);
        let (all_sectors, step) = (sectors(&blob), (sectors(&blob) / 29).max(1));
        let near_ends = |n: &u32| *n < 4 || *n >= shape.data - 1 || n.is_multiple_of(step);
        for lost in (0..all_sectors).filter(near_ends) {
            for how in 0..3 {
                let mut bad = blob.clone();
                spoil(&mut bad, lost, how + 3 * lost);
                let restored = restore(POOL, id(), &bad, &all).expect("restored");
                // The last 512 bytes of a sector of checksums mean nothing, but are restored too.
                assert!(restored.blob == blob, "{bytes} bytes, sector {lost}");
                assert_eq!(restored.damaged, u32::from(bad != blob));
            }
            let unread = restore(POOL, id(), &blob, &|n| n != lost).expect("restored");
            assert!(unread.blob == blob && unread.damaged == 1);
        }
    }
}

#[test]
fn any_bit_of_a_small_container_may_flip() {
    let (_, blob) = container(3000, 2);
    for bit in (0..blob.len() * 8).step_by(41) {
        let mut bad = blob.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let restored = restore(POOL, id(), &bad, &all).expect("restored");
        assert!(restored.blob == blob && restored.damaged == 1, "bit {bit}");
    }
}

#[test]
fn two_sectors_anywhere_may_be_lost() {
    let (_, blob) = container(9000, 2);
    let count = sectors(&blob);
    for first in 0..count {
        for second in first + 1..count {
            // Both copies of the only checksums are damaged: nothing can tell what is right.
            let tables: Vec<_> = [first, second]
                .into_iter()
                .filter(|n| table::Table::decode(POOL, id(), sector_at(&blob, *n)).is_ok())
                .collect();
            let mut bad = blob.clone();
            spoil(&mut bad, first, 0);
            spoil(&mut bad, second, 1);
            let restored = restore(POOL, id(), &bad, &all);
            match tables.len() {
                2 => assert!(restored.is_err()),
                _ => assert!(restored.expect("restored").blob == blob, "{first} {second}"),
            }
        }
    }
}

#[test]
fn a_run_may_be_lost_and_longer_ones_are_reported() {
    let (shape, blob) = container(4 << 20, 2);
    let run = shape.parity();
    assert!(run as usize * PARITY_SECTOR_BYTES >= 17 * PARITY_SECTOR_BYTES);
    for start in [0, 1, 500, shape.data - run, shape.data - 3] {
        let mut bad = blob.clone();
        (start..start + run).for_each(|n| spoil(&mut bad, n, 1));
        let restored = restore(POOL, id(), &bad, &all);
        // A run that reaches into the parity destroys some of it.
        let fits = start + run <= shape.data;
        assert_eq!(
            restored.is_ok_and(|r| r.blob == blob),
            fits || start == shape.data - 3
        );
    }
    let mut bad = blob.clone();
    (0..=run).for_each(|n| spoil(&mut bad, n, 0));
    let why = restore(POOL, id(), &bad, &all).expect_err("too much");
    assert_eq!(
        why,
        NotRestored::TooMuch {
            damaged: 5,
            parity: 4
        }
    );
}

#[test]
fn a_tail_that_was_cut_off_comes_back_and_garbage_goes() {
    let (shape, blob) = container(2 << 20, 2);
    let behind = blob.len() - shape.section_at();
    for lost in [
        1,
        511,
        512,
        4096,
        5000,
        behind - 2 * 4096,
        shape.parity() as usize * 3000,
    ] {
        let bad = &blob[..blob.len() - lost];
        let restored = restore(POOL, id(), bad, &all).expect("restored");
        assert!(restored.blob == blob, "{lost} bytes cut off");
        assert!(restored.damaged >= 1);
    }
    let mut longer = blob.clone();
    longer.resize(blob.len() + 9999, 0xa5);
    let restored = restore(POOL, id(), &longer, &all).expect("restored");
    assert!(restored.blob == blob && restored.damaged == 3);
    let nothing = restore(POOL, id(), &blob[..4096], &all);
    assert!(nothing.is_err());
}

#[test]
fn nothing_is_believed_of_another_container() {
    let (_, blob) = container(9000, 2);
    let other = ContainerId::new(WriterId(1), 10);
    assert_eq!(
        restore(POOL, other, &blob, &all),
        Err(NotRestored::NoParity)
    );
    let foreign = restore(PoolId([8; 16]), id(), &blob, &all);
    assert_eq!(foreign, Err(NotRestored::NoParity));
}

/// Intact but forged checksums: of good data, or of any shape.
#[test]
fn forged_checksums_are_harmless() {
    let (shape, blob) = container(9000, 2);
    let mut forged = blob[..shape.section_at()].to_vec();
    forged[5000] ^= 1;
    append(POOL, id(), shape, &mut forged);
    // The parity of other data, behind the right data.
    let mut mixed = blob.clone();
    mixed[shape.section_at()..].copy_from_slice(&forged[shape.section_at()..]);
    if let Ok(restored) = restore(POOL, id(), &mixed, &all) {
        assert!(restored.blob == forged, "all that it says fits");
    }
    for (data, groups, per_group) in [
        (0, 0, 0),
        (u32::MAX, 1, 1),
        (8192, 1, 1),
        (1, u32::MAX, u32::MAX),
        (4000, 4001, 1),
        (4000, 4000, 64),
        (3, 0, 4),
    ] {
        let shape = ParityShape {
            data,
            groups,
            per_group,
        };
        assert_eq!(shape.checked(), None, "{shape:?}");
    }
}

#[test]
fn shapes_grow_with_their_containers() {
    let parity = |bytes, percent| ParityShape::plan(bytes, percent).map(|shape| shape.parity());
    assert_eq!(parity(1000, 0), None);
    assert_eq!(parity(1000, 2), Some(2));
    assert_eq!(parity(400 << 10, 2), Some(2));
    assert_eq!(parity(600 << 10, 2), Some(3));
    assert_eq!(parity(16 << 20, 2), Some(84));
    assert_eq!(parity(16 << 20, 50), Some(2048));
    assert_eq!(parity(31 << 20, 50), None, "no room");
}
