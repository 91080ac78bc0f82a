//! Everything that an iSCSI initiator may send.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| iscsi::fuzzing::fuzz_session(data));
