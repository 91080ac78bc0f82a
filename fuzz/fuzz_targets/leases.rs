//! Messages between a server and a process that reads beside it: leases of I/O grants.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quintet_fuzz::leases(data));
