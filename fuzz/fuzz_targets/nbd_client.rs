//! Replies of an NBD server to our client.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nbd::fuzzing::fuzz_client(data));
