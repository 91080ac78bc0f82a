//! Which chunks defragmentation has moved.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quintet_fuzz::decoders::moved(data));
