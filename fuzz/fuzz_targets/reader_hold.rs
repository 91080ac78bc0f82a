//! What processes that read a pool hold.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quintet_fuzz::decoders::reader_hold(data));
