//! A pool of nodes that are authentic and nonsense.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quintet_fuzz::crafted_pool(data));
