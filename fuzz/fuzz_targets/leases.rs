//! What a process that reads beside a server says, and what it hears.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quintet_fuzz::leases(data));
