//! Logins to the iSCSI target, and their text.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| iscsi::fuzzing::fuzz_login(data));
