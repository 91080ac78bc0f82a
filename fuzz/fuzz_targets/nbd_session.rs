//! Everything that an NBD client may send.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nbd::fuzzing::fuzz_session(data));
