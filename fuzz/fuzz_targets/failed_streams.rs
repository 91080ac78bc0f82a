//! Streams whose last run stored nothing.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quintet_fuzz::decoders::failed_streams(data));
