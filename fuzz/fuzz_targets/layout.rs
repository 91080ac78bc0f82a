//! File systems inside a volume, and writes to it.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quintet_fuzz::layout(data));
