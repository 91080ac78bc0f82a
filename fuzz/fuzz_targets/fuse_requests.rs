//! FUSE requests, one after the other.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuse::fuzzing::fuzz_requests(data));
