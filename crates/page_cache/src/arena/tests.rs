use super::*;
use crate::extent::NoArena;
use std::sync::Weak;

#[test]
fn runs_of_ones() {
    assert_eq!(longest_run(0), 0);
    assert_eq!(longest_run(u64::MAX), 64);
    assert_eq!(longest_run(0b0111_0110), 3);
    assert_eq!(first_run(0b0111_0110, 2), Some(1));
    assert_eq!(first_run(0b0111_0110, 3), Some(4));
    assert_eq!(first_run(0b0111_0110, 4), None);
    assert_eq!(first_run(u64::MAX, 64), Some(0));
}

/// An arena and its allocations. Only the test learns of freed runs.
struct World {
    arena: Arena,
    runs: Vec<(Run, Owner)>,
    seed: u64,
}

impl World {
    fn new(extents: u32) -> Self {
        let mut arena = Arena::new(2, 16);
        for _ in 0..extents {
            arena.add(Extent::new(2, Weak::<NoArena>::new()));
        }
        let (runs, seed) = (Vec::new(), 1);
        Self { arena, runs, seed }
    }

    fn number(&mut self, below: usize) -> usize {
        self.seed = crate::mix(self.seed + 1);
        self.seed as usize % below
    }

    fn own(&mut self, run: Run) {
        let owner = self.number(1 << 30) as Owner;
        let position = run.position().expect("in a slab");
        let len = granules(run.bytes().len());
        self.arena.set_owner(position, len, owner);
        self.runs.push((run, owner));
    }

    fn free(&mut self, index: usize) {
        let (run, _) = self.runs.swap_remove(index);
        let position = run.position().expect("in a slab");
        let granules = granules(run.bytes().len());
        drop(run);
        self.arena.freed(position, granules);
    }

    fn check(&self) {
        let arena = &self.arena;
        let mut free = 0;
        for (number, slab) in (0..).zip(&arena.slabs) {
            if slab.closed {
                continue;
            }
            let bits = arena.free(number);
            free += u64::from(bits.count_ones());
            assert_eq!(slab.longest, longest_run(bits), "listed as it is");
        }
        assert_eq!(arena.free_granules, free);
        let listed = arena.lists.iter().enumerate().map(|(length, head)| {
            let mut of_length = Vec::new();
            let mut at = *head;
            while let Some(slab) = arena.slabs.get(at as usize) {
                assert_eq!(slab.longest as usize, length + 1);
                of_length.push(at);
                at = slab.next;
            }
            assert_eq!(arena.filled >> length & 1 == 1, !of_length.is_empty());
            of_length.len()
        });
        let open = |s: &&Slab| !s.closed && s.longest > 0;
        assert_eq!(
            listed.sum::<usize>(),
            arena.slabs.iter().filter(open).count()
        );
    }
}

#[test]
fn free_memory_is_found_whatever_was_allocated_and_freed() {
    let mut world = World::new(6);
    for step in 0..30_000 {
        let wanted = 1 + world.number(if step % 5000 < 2500 { 8000 } else { 65_536 });
        let longest = (0..12).map(|s| longest_run(world.arena.free(s))).max();
        match world.arena.allocate(&vec![step as u8; wanted]) {
            Some(run) => world.own(run),
            None => {
                assert!(longest.unwrap_or(0) < granules(wanted), "there was room");
                let index = world.number(world.runs.len());
                world.free(index);
            }
        }
        if step % 500 == 0 {
            world.check();
        }
    }
    while !world.runs.is_empty() {
        world.free(0);
    }
    world.check();
    assert_eq!(world.arena.free_granules(), 12 * 64);
}

/// A window names exactly the owners whose runs lie in it. It is free when they have left.
#[test]
fn a_window_is_free_when_its_owners_have_left() {
    let mut world = World::new(4);
    for round in 0..400 {
        while let Some(run) = {
            let len = 1 + world.number(20_000);
            world.arena.allocate(&vec![1; len])
        } {
            world.own(run);
        }
        let len = 1 + world.number(65_536);
        let window = world.arena.close_window(len).expect("some slab is open");
        assert!(world.arena.slabs.iter().any(|s| s.closed));
        if round % 3 == 0 {
            assert!(
                window.owners.is_empty() || world.arena.open_window(&window, &[2; 1]).is_none()
            );
            world.check();
            continue;
        }
        for owner in &window.owners {
            let index = world.runs.iter().position(|(_, o)| o == owner);
            world.free(index.expect("owners are those that were set"));
        }
        let run = world
            .arena
            .open_window(&window, &vec![3; len])
            .expect("free now");
        assert_eq!(run.bytes().len(), len);
        world.own(run);
        world.check();
    }
}

#[test]
fn an_extent_goes_when_its_owners_have_left_and_comes_back_under_its_number() {
    let mut world = World::new(4);
    for _ in 0..200 {
        let run = world.arena.allocate(&[1; 2048]).expect("there is room");
        world.own(run);
    }
    let (kept, owners) = world.arena.close_extent(0).expect("all are open");
    assert!(owners.is_empty(), "two extents were not used at all");
    let (number, owners) = world.arena.close_extent(2).expect("others are open");
    assert!(!owners.is_empty());
    assert!(
        world.arena.remove_extent(number).is_none(),
        "owners are there"
    );
    world.check();
    assert!(world.arena.remove_extent(kept).is_some());
    let (number, owners) = world.arena.close_extent(2).expect("others are open");
    for owner in owners {
        let index = world.runs.iter().position(|(_, o)| *o == owner);
        world.free(index.expect("owners are those that were set"));
    }
    assert!(world.arena.remove_extent(number).is_some());
    world.check();
    let first = world.arena.slab_next();
    assert_eq!(first as usize, kept.min(number) * 2);
    world.arena.add(Extent::new(2, Weak::<NoArena>::new()));
    world.check();
}
