//! The engine against a model that a page of text describes: random requests, changed settings,
//! removed blocks. Every answer and every count must be the same.

use classes::{Admission, CLASSES, ClassSettings, Eviction, Mode, Priority, Refusal, SetUp, Share};
use sim::Seed;
use units::IoClass;

struct Block {
    key: u64,
    class: u8,
    used: u64,
}

/// The documented order of admission over a plain list.
struct Model {
    capacity: u64,
    settings: [ClassSettings; CLASSES],
    blocks: Vec<Block>,
    uses: u64,
}

impl Model {
    fn of(&self, class: u8) -> ClassSettings {
        self.settings[usize::from(class)]
    }

    fn limit(&self, class: u8) -> u64 {
        let share = self.of(class).share;
        share.of(self.capacity).max(u64::from(share != Share::NONE))
    }

    fn len(&self, class: u8) -> u64 {
        let of_class = self.blocks.iter().filter(|block| block.class == class);
        of_class.count() as u64
    }

    fn hit(&mut self, key: u64, class: u8) -> bool {
        self.uses += 1;
        match self.blocks.iter_mut().find(|block| block.key == key) {
            Some(block) => {
                (block.class, block.used) = (class, self.uses);
                true
            }
            None => false,
        }
    }

    /// Evicts the oldest block of the least important class among these blocks.
    fn evict(&mut self, from: impl Fn(&Self, u8) -> bool, oldest_of_equal: bool) -> Option<u64> {
        let candidates = (0..self.blocks.len()).filter(|nth| from(self, self.blocks[*nth].class));
        let rank = |nth: &usize| {
            let block = &self.blocks[*nth];
            let tie = if oldest_of_equal { 0 } else { block.class };
            (
                std::cmp::Reverse(self.of(block.class).priority),
                tie,
                block.used,
            )
        };
        let victim = candidates.min_by_key(rank)?;
        Some(self.blocks.remove(victim).key)
    }

    fn excess(&mut self) -> Option<u64> {
        self.evict(|model, class| model.len(class) > model.limit(class), false)
    }

    fn admit(&mut self, key: u64, class: u8, has_pressure: bool) -> Admission<u64> {
        if self.hit(key, class) {
            return Admission::Present;
        }
        let settings = self.of(class);
        if self.limit(class) == 0 || self.capacity == 0 {
            return Admission::Refused(Refusal::NoShare);
        }
        if has_pressure && matches!(settings.priority, Priority::Evictable(200..)) {
            return Admission::Refused(Refusal::Pressure);
        }
        let own = |_: &Self, other| other == class;
        let evicted = if self.len(class) >= self.limit(class) {
            self.evict(own, true)
        } else if (self.blocks.len() as u64) < self.capacity {
            None
        } else {
            let below = |model: &Self, other| {
                let priority = model.of(other).priority;
                priority != Priority::Pinned && priority >= settings.priority
            };
            let evicted = self.excess().or_else(|| self.evict(below, true));
            match evicted.or_else(|| self.evict(own, true)) {
                Some(evicted) => Some(evicted),
                None => return Admission::Refused(Refusal::MoreImportant),
            }
        };
        let used = self.uses;
        self.blocks.push(Block { key, class, used });
        evicted.map_or(Admission::Free, Admission::Evicted)
    }
}

fn random_settings(seed: &mut Seed) -> [ClassSettings; CLASSES] {
    std::array::from_fn(|_| ClassSettings {
        priority: match seed.below(8) {
            0 => Priority::Pinned,
            1 => Priority::Evictable(seed.below(256) as u8),
            _ => Priority::Evictable(60 * seed.below(5) as u8),
        },
        share: match seed.below(6) {
            0 => Share::NONE,
            1 | 2 => Share::from_hundredths(seed.below(60) as u8).expect("a share"),
            _ => Share::ALL,
        },
    })
}

fn engine(capacity: u64, mode: Mode, settings: &[ClassSettings; CLASSES]) -> Eviction<u64> {
    let set_up = SetUp {
        capacity_blocks: capacity as u32,
        mode,
        seed: 7,
    };
    Eviction::new(set_up, settings)
}

#[test]
fn strict_eviction_is_what_its_description_says() {
    for run in 0..300 {
        let mut seed = Seed::new(run);
        let capacity = seed.below(40);
        let settings = random_settings(&mut seed);
        let mut engine = engine(capacity, Mode::Strict, &settings);
        let mut model = Model {
            capacity,
            settings,
            blocks: Vec::new(),
            uses: 0,
        };
        let classes = 1 + seed.below(10);
        let keys = 1 + seed.below(4 * capacity + 4);
        for step in 0..1500 {
            let (key, class) = (seed.below(keys), (seed.below(classes) * 7) as u8);
            let io_class = IoClass(class);
            match seed.below(100) {
                0 => {
                    model.settings = random_settings(&mut seed);
                    engine.set_settings(&model.settings);
                }
                1 => assert_eq!(engine.evict_excess(), model.excess(), "{run} {step}"),
                2..8 => {
                    let before = model.blocks.len();
                    model.blocks.retain(|block| block.key != key);
                    let removed = before != model.blocks.len();
                    assert_eq!(engine.remove(&key), removed, "{run} {step}");
                }
                8..50 => {
                    let hit = model.hit(key, class);
                    assert_eq!(engine.hit(&key, io_class), hit, "{run} {step}");
                }
                _ => {
                    let has_pressure = seed.chance(64);
                    let expected = model.admit(key, class, has_pressure);
                    let found = engine.admit(key, io_class, has_pressure);
                    assert_eq!(found, expected, "{run} {step}");
                }
            }
            assert_eq!(u64::from(engine.len()), model.blocks.len() as u64);
            let len = u64::from(engine.len_of(io_class));
            assert_eq!(len, model.len(class), "{run} {step}");
        }
    }
}

#[test]
fn with_equal_settings_all_classes_are_one_lru() {
    let equal = [ClassSettings {
        priority: Priority::Evictable(3),
        share: Share::ALL,
    }; CLASSES];
    let mut seed = Seed::new(1);
    let random = random_settings(&mut seed);
    let mut strict = engine(100, Mode::Strict, &equal);
    // LRU over everything has no settings.
    let mut lru = engine(100, Mode::LruAll, &random);
    for _ in 0..50_000 {
        let key = seed.below(150);
        let class = IoClass(seed.below(64) as u8);
        assert_eq!(
            strict.admit(key, class, false),
            lru.admit(key, class, seed.chance(128))
        );
    }
}

#[test]
fn proportional_eviction_never_touches_more_important_blocks() {
    for run in 0..50 {
        let mut seed = Seed::new(run);
        let settings = random_settings(&mut seed);
        let mut engine = engine(300, Mode::Proportional, &settings);
        let mut class_of = std::collections::BTreeMap::new();
        for key in 0..20_000 {
            let class = seed.below(8) as u8;
            let len = engine.len_of(IoClass(class));
            match engine.admit(key, IoClass(class), false) {
                Admission::Evicted(victim) => {
                    let victim = class_of.remove(&victim).expect("an admitted key");
                    let of = |class: u8| settings[usize::from(class)].priority;
                    assert!(victim == class || of(victim) >= of(class), "{run}");
                    assert!(victim == class || of(victim) != Priority::Pinned, "{run}");
                }
                Admission::Free => assert!(class_of.len() < 300),
                Admission::Refused(_) => {
                    assert!(len == 0, "{run}: a class with blocks can replace its own");
                    continue;
                }
                Admission::Present => panic!("{key} is new"),
            }
            class_of.insert(key, class);
            assert_eq!(engine.len() as usize, class_of.len());
        }
    }
}
