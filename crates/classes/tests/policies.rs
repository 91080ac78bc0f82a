//! Policies from random text: reading them never panics, what is read is written and read as the
//! same, and classifying agrees with the explanation, which asks every rule.

use classes::{Contents, Facts, Pattern, Policy, RuleOutcome, shipped};
use sim::Seed;
use units::Origin;

const CONDITIONS: &[&str] = &[
    "metadata",
    "journal",
    "directory",
    "free",
    "unknown",
    "direct",
    "file_size:le:4096",
    "file_size:gt:70000",
    "file_offset:lt:4096",
    "file_offset:ge:4096",
    "request_size:ge:8192",
    "lba:lt:2048",
    "io_direction:read",
    "io_direction:write",
    "wire:ge:3",
    "io_class:ne:0",
    "io_class:le:20",
    "pattern:seq",
    "pattern:rand",
    "origin:backup",
    "volume:db*",
    "directory:/srv",
    "extension:log",
    "file_name_prefix:a",
];

fn random_policy(seed: &mut Seed) -> String {
    let mut text = "IO class id,IO class name,Eviction priority,Allocation\n".to_owned();
    for class in 1..64 {
        if seed.chance(100) {
            continue;
        }
        let join = if seed.chance(128) { "&" } else { "|" };
        let count = 1 + seed.below(3);
        let mut rule = Vec::new();
        rule.extend((0..count).map(|_| CONDITIONS[seed.below(CONDITIONS.len() as u64) as usize]));
        let rule = rule.join(join);
        let done = if seed.chance(50) { "&done" } else { "" };
        text += &format!(
            "{class},{rule}{done},{},0.{}\n",
            seed.below(256),
            seed.below(100)
        );
    }
    text
}

fn random_facts(seed: &mut Seed) -> Facts<'static> {
    let number = |seed: &mut Seed| seed.draw() >> (40 + seed.below(24));
    let contents = match seed.below(6) {
        0 => Contents::Unknown,
        1 => Contents::Metadata,
        2 => Contents::Journal,
        3 => Contents::Directory,
        4 => Contents::Free,
        _ => Contents::File {
            size_bytes: number(seed),
            offset_bytes: number(seed),
        },
    };
    let paths: [Option<&[u8]>; 4] = [None, Some(b"/srv/a.log"), Some(b"/b"), Some(b"")];
    Facts {
        contents,
        wire_class: seed.below(8) as u8,
        origin: [Origin::Foreground, Origin::Backup][seed.below(2) as usize],
        volume: ["db", "web", ""][seed.below(3) as usize],
        offset_bytes: number(seed),
        len_bytes: number(seed),
        is_write: seed.chance(128),
        pattern: [None, Some(Pattern::Sequential), Some(Pattern::Random)][seed.below(3) as usize],
        file_path: paths[seed.below(4) as usize],
        is_direct: [None, Some(true), Some(false)][seed.below(3) as usize],
    }
}

#[test]
fn classifying_agrees_with_asking_every_rule() {
    let mut classes = std::collections::BTreeSet::new();
    for run in 0..300 {
        let mut seed = Seed::new(run);
        let text = random_policy(&mut seed);
        let policy = Policy::parse(&text).expect(&text);
        for _ in 0..200 {
            let facts = random_facts(&mut seed);
            let class = policy.classify(&facts);
            let explanation = policy.explain(&facts);
            assert_eq!(explanation.class, class, "{facts:?}\n{explanation}\n{text}");
            assert_eq!(explanation.settings, policy.settings(class));
            assert_eq!(explanation.fast, policy.fast_settings(class));
            let decides = explanation
                .verdicts
                .iter()
                .filter(|v| v.outcome == RuleOutcome::Decides);
            let deciding: Vec<_> = decides.map(|verdict| verdict.class).collect();
            assert_eq!(deciding.is_empty(), class.0 == 0);
            assert!(deciding.iter().all(|of| *of == class));
            classes.insert(class.0);
        }
    }
    assert!(
        classes.len() > 50,
        "the policies are too simple: {classes:?}"
    );
}

#[test]
fn damaged_text_is_an_error_or_a_policy_that_is_read_again() {
    let (mut read, mut refused) = (0, 0);
    for run in 0..20_000 {
        let mut seed = Seed::new(run);
        let shipped = shipped::ALL[seed.below(shipped::ALL.len() as u64) as usize];
        let mut bytes = shipped.csv.as_bytes().to_vec();
        bytes.extend(*b"# fast: 1,200,0.05\n");
        for _ in 0..=seed.below(3) {
            bytes.extend(*b"\n");
            let at = seed.below(bytes.len() as u64) as usize;
            match seed.below(4) {
                0 => bytes[at] = seed.draw() as u8,
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, b",\"&|:\n#0"[seed.below(8) as usize]),
                _ => bytes.truncate(at.max(1)),
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        match Policy::parse(&text) {
            Ok(policy) => {
                let written = policy.to_csv();
                let again = Policy::parse(&written).expect(&written);
                assert_eq!(again.to_csv(), written);
                read += 1;
            }
            Err(error) => {
                assert!(error.line <= text.lines().count() + 1, "{error}");
                refused += 1;
            }
        }
    }
    assert!(
        read > 1000 && refused > 1000,
        "{read} read, {refused} refused"
    );
}
