//! Container headers, region headers, raw regions.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quintet_fuzz::decoders::container(data));
