//! Options of the NBD handshake.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nbd::fuzzing::fuzz_options(data));
