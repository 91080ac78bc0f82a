//! Cache blocks of the fast tier.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quintet_fuzz::decoders::tier_block(data));
