//! FragPicker's experiment on a small file: which way wins, and at what cost.

use evaluation::flash::{Flash, Loss};
use evaluation::fragments::file::File;
use evaluation::fragments::load::Load;
use evaluation::fragments::page::{devices, text};
use evaluation::fragments::runs::{Device, Way, run};

const BYTES: u64 = 16 << 20;

#[test]
fn picked_ranges_are_as_good_as_the_whole_file_and_cost_less() {
    let file = File::published(BYTES, 1);
    for (load, writes_max) in [(Load::Sequential, 50), (Load::Stride, 30)] {
        for loss in [Loss::Commands, Loss::DieCollisions, Loss::PlacedPieces] {
            let device = Device::Flash(Flash::published(loss));
            let [before, picked, whole] = [Way::Before, Way::FragPicker(100), Way::WholeFile]
                .map(|way| run(device, &file, way, load, 1));
            assert!(before.speed() < picked.speed(), "{load:?}, {loss:?}");
            assert!(picked.speed() >= whole.speed() * 0.97, "{load:?}, {loss:?}");
            assert!(
                picked.written * 100 <= whole.written * writes_max,
                "{load:?}: {}",
                picked.written
            );
            assert!(picked.migration < whole.migration, "{load:?}, {loss:?}");
        }
    }
}

#[test]
fn placed_pieces_leave_little_to_win() {
    let file = File::published(BYTES, 1);
    let gain = |loss| {
        let device = Device::Flash(Flash::published(loss));
        let speed = |way| run(device, &file, way, Load::Sequential, 1).speed();
        speed(Way::FragPicker(100)) / speed(Way::Before)
    };
    assert!(
        gain(Loss::DieCollisions) > 1.5,
        "{}",
        gain(Loss::DieCollisions)
    );
    assert!(
        gain(Loss::PlacedPieces) < 1.2,
        "{}",
        gain(Loss::PlacedPieces)
    );
}

#[test]
fn hot_ranges_bring_more_than_their_share() {
    let file = File::published(BYTES, 1);
    for (name, device) in devices() {
        let time = |way| run(device, &file, way, Load::Zipfian, 1);
        let (before, hot, all) = (
            time(Way::Before),
            time(Way::FragPicker(30)),
            time(Way::FragPicker(100)),
        );
        assert!(
            hot.written * 100 <= all.written * 34,
            "{name}: {} of {}",
            hot.written,
            all.written
        );
        let won = |now: u64| before.read.1.saturating_sub(now);
        assert!(won(hot.read.1) * 2 > won(all.read.1), "{name}");
    }
}

#[test]
fn the_page_is_the_same_twice() {
    assert_eq!(text(BYTES), text(BYTES));
}
