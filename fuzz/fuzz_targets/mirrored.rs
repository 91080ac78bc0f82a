//! The envelope of small blobs, and any preamble.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quintet_fuzz::decoders::mirrored_blob(data));
