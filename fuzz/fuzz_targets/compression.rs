//! zstd and LZ4, with lengths that lie.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quintet_fuzz::compression(data));
