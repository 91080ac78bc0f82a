//! Stored progress of maintenance tasks.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quintet_fuzz::task_progress(data));
