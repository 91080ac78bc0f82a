//! Headers of batches and records in the journal.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quintet_fuzz::decoders::journal_record(data));
