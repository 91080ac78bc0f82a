//! Stamps of copies of the index.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quintet_fuzz::decoders::index_stamp(data));
