//! What a process that reads beside a server says, and what it hears.

#![no_main]

use qos::lease::{Answer, Ask, Hello, LEASE_BYTES_MAX};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(hello) = data.try_into().map_err(drop).and_then(|bytes| Hello::decode(bytes).map_err(drop)) {
        assert_eq!(hello.encode(), data);
    }
    if let Ok(ask) = data.try_into().map_err(drop).and_then(|bytes| Ask::decode(bytes).map_err(drop)) {
        assert!(ask.wanted <= LEASE_BYTES_MAX && ask.used.seeks <= ask.used.reads);
        assert_eq!(ask.encode(), data);
    }
    if let Ok(answer) = data.try_into().map_err(drop).and_then(|bytes| Answer::decode(bytes).map_err(drop)) {
        assert_eq!(answer.encode(), data);
    }
});
