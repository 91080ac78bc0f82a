//! Persistent reservations of a volume.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quintet_fuzz::decoders::reservations(data));
