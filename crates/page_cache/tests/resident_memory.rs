//! What the operating system says: resident memory stays within the budget whatever is cached.
//! Alone in its process, as it looks at all of it. Linux only.
#![cfg(target_os = "linux")]

use page_cache::{NoEvents, Options, PageCache, Place, S3Fifo, Use};
use std::sync::Arc;
use units::Fingerprint;

const BUDGET: u64 = 256 << 20;

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("procfs is there");
    let pages = statm.split(' ').nth(1).and_then(|p| p.parse::<u64>().ok());
    pages.expect("the second field is a number") * 4096
}

/// Distinct for distinct numbers.
fn fingerprint(n: u64) -> Fingerprint {
    let mut bytes = [0; 32];
    for (word, salt) in bytes.chunks_exact_mut(8).zip(1u64..) {
        let mut x = n
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(salt << 60 | salt);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word.copy_from_slice(&(x ^ (x >> 31)).to_le_bytes());
    }
    Fingerprint(bytes)
}

#[test]
fn resident_memory_stays_within_the_budget_under_any_mix() {
    let bytes = vec![7u8; 64 << 10];
    let before = resident_bytes();
    let cache = PageCache::new(
        Options::new(BUDGET, 1),
        Box::new(S3Fifo::new(BUDGET)),
        Arc::new(NoEvents),
    );
    let mut n = 0;
    let mut highest = Vec::new();
    // Length of a chunk, unwritten pages with each, places of each.
    type Phase = (&'static str, fn(u64) -> usize, u64, u64);
    let phases: [Phase; 8] = [
        ("4 KiB", |_| 4096, 0, 1),
        ("64 KiB", |_| 64 << 10, 0, 1),
        ("4 KiB and unwritten", |_| 4096, 1, 1),
        (
            "16 to 48 KiB",
            |n| 16384 + (n * 7919 % 32768) as usize,
            0,
            1,
        ),
        ("4 KiB, ten places each", |_| 4096, 0, 10),
        ("64 KiB again", |_| 64 << 10, 0, 1),
        ("all sizes", |n| 4096 << (n % 5), 3, 2),
        ("tiny", |_| 600, 0, 1),
    ];
    for (name, len_of, unwritten, places) in phases {
        let mut inserted = 0;
        let mut most = 0;
        while inserted < 3 * BUDGET {
            n += 1;
            let len = len_of(n);
            let chunk = &bytes[..len];
            for place in 0..places {
                let place = Place {
                    object: place,
                    chunk: n,
                };
                cache.insert(&fingerprint(n), chunk, Some(place), Use::Demand);
            }
            // Some are hit, so that eviction is not in the order of insertion.
            let again = Place {
                object: 0,
                chunk: n - (n * 31 % 5000).min(n),
            };
            cache.by_place(again, Use::Demand);
            cache.by_place(again, Use::Demand);
            for page in 0..unwritten {
                cache.put_unwritten(9, n * 4 + page, n, &[1; 4096]);
            }
            inserted += (len as u64).max(4096);
            if n % 1000 == 0 {
                most = most.max(resident_bytes().saturating_sub(before));
            }
            assert!(cache.counters().bytes_resident <= BUDGET);
        }
        println!("{name}: {:.4} of the budget", most as f64 / BUDGET as f64);
        highest.push((name, most));
    }
    for (name, most) in highest {
        assert!(most <= BUDGET + BUDGET / 50, "{name}: {most} of {BUDGET}");
    }
}
