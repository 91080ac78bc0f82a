//! Blobs `keys/*`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quintet_fuzz::decoders::key_slot(data));
