//! Header pages of journal slots.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quintet_fuzz::decoders::journal_slot(data));
