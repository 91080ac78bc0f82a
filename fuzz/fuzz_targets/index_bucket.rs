//! Index buckets.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quintet_fuzz::decoders::index_bucket(data));
