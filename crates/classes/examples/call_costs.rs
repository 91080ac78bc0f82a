//! The cost of a request: classifying with 32 rules, and the choice of the classes that evict.
//!
//! `cargo run --release -p classes --example call_costs`. Prints nanoseconds, the best of five.

use classes::{CLASSES, ClassOccupancy, ClassSet, Contents, Facts, Need, Pattern, Policy, shipped};
use sim::Seed;
use std::hint::black_box;
use std::time::Instant;
use units::IoClass;

/// 32 rules, none of which ends the search.
fn rules() -> String {
    let mut text = "IO class id,IO class name,Eviction priority,Allocation\n".to_owned();
    for class in 1..=32u64 {
        let rule = match class % 8 {
            0 => "metadata".to_owned(),
            1 => format!("file_size:le:{}", 4096 * class),
            2 => format!("file_offset:ge:{}&file_size:gt:65536", 4096 * class),
            3 => format!("request_size:ge:{}", 4096 * class),
            4 => format!("lba:ge:{}&lba:lt:{}", class << 20, (class + 1) << 20),
            5 => "pattern:rand|origin:backup".to_owned(),
            6 => format!("volume:db-{class}-*"),
            _ => "io_direction:write&wire:3".to_owned(),
        };
        text += &format!("{class},{rule},{class},1.00\n");
    }
    text
}

fn facts(seed: &mut Seed) -> Facts<'static> {
    let number = |seed: &mut Seed| seed.draw() >> (30 + seed.below(30));
    Facts {
        contents: match seed.below(8) {
            0 => Contents::Unknown,
            1 => Contents::Metadata,
            2 => Contents::Journal,
            3 => Contents::Directory,
            _ => Contents::File {
                size_bytes: number(seed),
                offset_bytes: number(seed),
            },
        },
        volume: "db-12-of-the-accounts",
        offset_bytes: number(seed),
        len_bytes: 4096,
        is_write: seed.chance(100),
        pattern: Some(Pattern::Random),
        ..Facts::default()
    }
}

/// Returns the best of five runs, nanoseconds a step.
fn best(steps: usize, mut run: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let begun = Instant::now();
        run();
        best = best.min(begun.elapsed().as_nanos() as f64 / steps as f64);
    }
    best
}

fn classify(name: &str, policy: &Policy) {
    let mut seed = Seed::new(1);
    let requests: Vec<Facts<'_>> = (0..1 << 16).map(|_| facts(&mut seed)).collect();
    let cost = best(requests.len(), || {
        for request in &requests {
            black_box(policy.classify(black_box(request)));
        }
    });
    println!("classify, {name}: {cost:.0} ns a request");
}

/// A request to a full cache: the class that gives up space.
fn evict(policy: &Policy) {
    let occupancy = ClassOccupancy::new(1);
    occupancy.set(1 << 20, policy.all_settings());
    let classes: Vec<IoClass> = policy.classes().map(|(class, _)| class).collect();
    for class in &classes {
        occupancy.add_clean(*class, 1000);
    }
    let cost = best(1 << 20, || {
        for class in classes.iter().cycle().take(1 << 20) {
            let need = Need::For(black_box(*class));
            black_box(occupancy.next_to_evict(need, ClassSet::NONE));
        }
    });
    println!("the choice of classes that evict: {cost:.0} ns");
}

fn main() {
    let policy = Policy::parse(&rules()).expect("32 rules");
    assert!(policy.classes().count() == 33 && policy.classes().count() < CLASSES);
    classify("32 rules", &policy);
    for shipped in shipped::ALL {
        let policy = Policy::parse(shipped.csv).expect(shipped.name);
        classify(shipped.name, &policy);
    }
    let successor = Policy::parse(shipped::ALL[0].csv).expect("a policy");
    evict(&successor);
}
