//! Recipe nodes and object roots.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quintet_fuzz::decoders::recipe_node(data));
