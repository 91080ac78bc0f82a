//! A small pool, one file of which is the input.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quintet_fuzz::replaced_file(data));
