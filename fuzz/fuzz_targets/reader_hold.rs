//! Holds of processes that read a pool.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quintet_fuzz::decoders::reader_hold(data));
