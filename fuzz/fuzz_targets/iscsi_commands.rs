//! SCSI commands of the iSCSI target.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| iscsi::fuzzing::fuzz_commands(data));
