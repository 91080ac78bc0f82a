//! The engine of eviction against a model that a page of text describes: random requests to a list
//! of blocks, and changed settings. Every decision must be the same.

use classes::{CLASSES, ClassOccupancy, ClassSet, ClassSettings, Need, Priority, Share};
use sim::Seed;
use std::cmp::Reverse;
use units::IoClass;

#[derive(Clone, Copy, PartialEq, Debug)]
struct Block {
    key: u64,
    class: u8,
    used: u64,
}

/// The fate of a block.
#[derive(PartialEq, Debug)]
enum Fate {
    Free,
    /// It took the place of this one.
    Evicted(u64),
    Refused,
}

/// A cache with one order of use for all blocks.
struct Cache {
    capacity: u64,
    settings: [ClassSettings; CLASSES],
    blocks: Vec<Block>,
}

impl Cache {
    fn of(&self, class: u8) -> ClassSettings {
        self.settings[usize::from(class)]
    }

    fn limit(&self, class: u8) -> u64 {
        match self.of(class).share {
            Share::NONE => 0,
            Share::ALL => u64::MAX,
            share => share.of(self.capacity).max(1),
        }
    }

    fn len(&self, class: u8) -> u64 {
        let of_class = self.blocks.iter().filter(|block| block.class == class);
        of_class.count() as u64
    }

    /// The longest unused of the first blocks in an order.
    fn first<K: Ord>(&self, may: impl Fn(u8) -> bool, order: impl Fn(u8) -> K) -> Option<u64> {
        let blocks = self.blocks.iter().filter(|block| may(block.class));
        let first = blocks.min_by_key(|block| (order(block.class), block.used));
        first.map(|block| block.key)
    }

    /// The documented order of admission.
    fn expected(&self, class: u8) -> Fate {
        let own = |other: u8| other == class;
        let victim = if self.of(class).share == Share::NONE {
            None
        } else if self.len(class) + 1 > self.limit(class) {
            self.first(own, |_| 0)
        } else if (self.blocks.len() as u64) < self.capacity {
            return Fate::Free;
        } else {
            let is_over = |other: u8| self.len(other) > self.limit(other);
            // Classes without a share leave before all others, as one.
            let rank = |other: u8| match self.of(other) {
                of if of.share == Share::NONE => None,
                of => Some(Reverse(of.priority)),
            };
            let pinned = Some(Reverse(Priority::Pinned));
            let is_low = self.of(class).priority.is_low();
            let below = |other: u8| {
                let is_below = !is_low && rank(other) != pinned && rank(other) <= rank(class);
                is_over(other) || own(other) || is_below
            };
            self.first(below, |other| (!is_over(other), rank(other)))
        };
        victim.map_or(Fate::Refused, Fate::Evicted)
    }

    fn decided(&self, occupancy: &ClassOccupancy, class: u8) -> Fate {
        let io_class = IoClass(class);
        let classes = if !occupancy.keeps(io_class) {
            None
        } else if occupancy.fills_share(io_class, 1) {
            Some(ClassSet::one(io_class))
        } else if (self.blocks.len() as u64) < self.capacity {
            return Fate::Free;
        } else {
            occupancy.next_to_evict(Need::For(io_class), ClassSet::NONE)
        };
        let victim = classes.and_then(|classes| {
            let may = |class| classes.contains(IoClass(class));
            self.first(may, |_| 0)
        });
        victim.map_or(Fate::Refused, Fate::Evicted)
    }

    fn remove(&mut self, occupancy: &ClassOccupancy, key: u64) {
        let at = self.blocks.iter().position(|block| block.key == key);
        let block = self.blocks.remove(at.expect("a block"));
        occupancy.take_clean(IoClass(block.class), 1);
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

#[test]
fn eviction_is_what_its_description_says() {
    let (mut evicted, mut refused) = (0, 0);
    for run in 0..300 {
        let mut seed = Seed::new(run);
        let capacity = seed.below(40);
        let mut cache = Cache {
            capacity,
            settings: random_settings(&mut seed),
            blocks: Vec::new(),
        };
        let occupancy = ClassOccupancy::new(1);
        occupancy.set(capacity, &cache.settings);
        let classes = 1 + seed.below(10);
        for step in 0..1500 {
            let class = (seed.below(classes) * 7) as u8;
            if seed.below(100) == 0 {
                cache.settings = random_settings(&mut seed);
                occupancy.set(capacity, &cache.settings);
            }
            if seed.below(100) < 30
                && let Some(block) = cache.blocks.first().map(|block| block.key)
            {
                cache.remove(&occupancy, block);
            }
            let decided = cache.decided(&occupancy, class);
            assert_eq!(decided, cache.expected(class), "{run} {step}");
            match decided {
                Fate::Refused => {
                    refused += 1;
                    continue;
                }
                Fate::Evicted(victim) => {
                    evicted += 1;
                    cache.remove(&occupancy, victim);
                }
                Fate::Free => {}
            }
            occupancy.add_clean(IoClass(class), 1);
            // Some blocks are older than those that came before them.
            let used = seed.below(1 << 40);
            let key = run * 10_000 + step;
            cache.blocks.push(Block { key, class, used });
            assert_eq!(occupancy.held(IoClass(class)), cache.len(class));
        }
    }
    assert!(evicted > 10_000 && refused > 10_000, "{evicted} {refused}");
}
