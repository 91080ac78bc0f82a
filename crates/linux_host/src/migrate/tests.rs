//! Tests of [`super`]. Migrations on real file systems are tested by `tests/host`.

use super::*;

fn piece(offset: u64, len: u64) -> Piece {
    Piece {
        offset,
        len,
        place: 0,
        is_shared: false,
    }
}

#[test]
fn runs_are_whole_units_of_written_bytes() {
    // Blocks of 1 KiB: the first page has a hole, the third is written by two pieces.
    let pieces = [
        piece(1024, 3072),
        piece(4096, 5120),
        piece(9216, 3072),
        piece(20480, 4096),
    ];
    assert_eq!(
        runs(&pieces, &(0..1 << 20), 4096),
        [4096..12288, 20480..24576]
    );
    assert_eq!(
        runs(&pieces, &(8192..28672), 4096),
        [8192..12288, 20480..24576]
    );
    assert!(runs(&pieces, &(12288..20480), 4096).is_empty());
}

#[test]
fn links_and_directories_are_not_opened() {
    let top = tempfile::tempdir().unwrap();
    std::fs::write(top.path().join("file"), "x").unwrap();
    std::os::unix::fs::symlink("file", top.path().join("link")).unwrap();
    assert!(Target::open(&top.path().join("link")).is_err());
    let opened = Target::open(top.path()).err().unwrap();
    assert_eq!(opened.name(), "not_regular");
}

fn donor() -> Donor {
    Donor {
        file: tempfile::tempfile().unwrap(),
    }
}

/// Counts what is done between two looks for others.
#[derive(Default)]
struct Looks(std::sync::Mutex<Vec<u64>>);

impl Pacer for Looks {
    fn wait(&self) {
        self.0.lock().unwrap().push(0);
    }

    fn passed(&self, bytes: u64) {
        self.0
            .lock()
            .unwrap()
            .last_mut()
            .into_iter()
            .for_each(|last| *last += bytes);
    }
}

#[test]
fn a_paced_move_has_parts_of_1_mib_and_others_have_one() {
    const MIB: u64 = 1 << 20;
    let (file, donor) = (tempfile::tempfile().unwrap(), donor());
    let runs = [0..MIB / 2, 2 * MIB..4 * MIB, 5 * MIB..5 * MIB + 4096];
    let parts = |pace: &Pace| {
        let job = Job {
            file: &file,
            size: 8 * MIB,
            donor: &donor,
            runs: &runs,
            unit: 4096,
            block: 4096,
            pace,
        };
        job.parts()
    };
    let whole = parts(&Pace::default());
    assert_eq!(
        whole,
        [vec![
            (runs[0].clone(), 0),
            (runs[1].clone(), MIB / 2),
            (runs[2].clone(), 5 * MIB / 2)
        ]]
    );
    let paced = parts(&Pace::new(Some(Arc::new(Looks::default()))));
    let half = MIB / 2;
    assert_eq!(
        paced,
        [
            vec![(0..half, 0), (4 * half..5 * half, half)],
            vec![(5 * half..7 * half, MIB)],
            vec![(7 * half..8 * half, 2 * MIB), (runs[2].clone(), 5 * half)],
        ]
        .map(|part| part.into_iter().collect::<Vec<_>>())
    );
}

#[test]
fn a_paced_copy_reads_pieces_and_is_the_same() {
    let looks = Arc::new(Looks::default());
    let pace = Pace::new(Some(Arc::clone(&looks) as _));
    let bytes: Vec<u8> = (0..700_000u32).map(|n| (n % 251) as u8).collect();
    let top = tempfile::tempdir().unwrap();
    std::fs::write(top.path().join("file"), &bytes).unwrap();
    let file = File::open(top.path().join("file")).unwrap();
    let donor = donor();
    let mut buffer = vec![0; 1 << 20];
    let range = 65_536..700_000;
    donor.copy(&file, &range, 4096, &mut buffer, &pace).unwrap();
    let mut found = vec![0; 700_000 - 65_536];
    std::os::unix::fs::FileExt::read_exact_at(&donor.file, &mut found, 4096).unwrap();
    assert_eq!(found, bytes[65_536..]);
    // In memory, so nobody is waited for.
    assert!(
        looks.0.lock().unwrap().is_empty(),
        "{:?}",
        looks.0.lock().unwrap()
    );
    let sizes: Vec<u64> = {
        let mut range = range;
        std::iter::from_fn(|| {
            let bytes = pace.read_bytes(&range, 1 << 20);
            range.start += bytes;
            (bytes > 0).then_some(bytes)
        })
        .collect()
    };
    assert_eq!(sizes, [65_536, 131_072, 131_072, 131_072, 131_072, 44_640]);
    // Pages beyond the end are not in memory.
    let missing = 1 << 20..(1 << 20) + PIECE_BYTES;
    pace.read(&file, &missing, || ());
    assert_eq!(*looks.0.lock().unwrap(), [PIECE_BYTES]);
}
