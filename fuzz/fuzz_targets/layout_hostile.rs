//! Disks that are well-formed and hostile in their numbers, and writes to them.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quintet_fuzz::layout_hostile(data));
