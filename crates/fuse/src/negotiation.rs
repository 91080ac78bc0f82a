//! Decides at the beginning of a session on which features it and the kernel agree. The session
//! calls this once.
//!
//! Invariant: the agreement contains only features that the kernel offered.

use crate::wire::constants::{VERSION_MAJOR, VERSION_MINOR, VERSION_MINOR_OLDEST, init};
use crate::wire::replies::Agreement;
use crate::wire::requests::Offer;

/// Largest read and write, bytes: the kernel's own default limit.
pub(crate) const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// Size of a page in the protocol's requests, bytes.
const PAGE_BYTES: u32 = 4096;
/// Maximum number of read-ahead and direct I/O requests in flight.
const BACKGROUND_MAX: u16 = 64;

/// Features that are always requested.
const WANTED: u64 = init::ASYNC_READ
    | init::BIG_WRITES
    | init::DO_READDIRPLUS
    | init::READDIRPLUS_AUTO
    | init::ASYNC_DIO
    | init::PARALLEL_DIROPS
    | init::MAX_PAGES
    | init::CACHE_SYMLINKS
    | init::HANDLE_KILLPRIV_V2
    | init::INIT_EXT
    | init::DIRECT_IO_ALLOW_MMAP;

/// Answer to the kernel's offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The session begins.
    Agreed(Agreement),
    /// The kernel is newer: it must ask again in our version.
    AskAgain(Agreement),
    /// The kernel is too old.
    TooOld,
}

/// Answers `offer`. Without `writes` no write comes, and smaller buffers suffice.
pub(crate) fn answer(offer: &Offer, writes: bool, enforce_acls: bool) -> Answer {
    let write_bytes_max = if writes {
        REQUEST_BYTES_MAX
    } else {
        PAGE_BYTES
    };
    let acls = if enforce_acls { init::POSIX_ACL } else { 0 };
    let agreement = Agreement {
        minor: offer.minor.min(VERSION_MINOR),
        readahead_bytes_max: offer.readahead_bytes_max.max(REQUEST_BYTES_MAX),
        flags: offer.flags & (WANTED | acls),
        background_max: BACKGROUND_MAX,
        congestion_threshold: BACKGROUND_MAX / 4 * 3,
        write_bytes_max,
        pages_max: (REQUEST_BYTES_MAX / PAGE_BYTES) as u16,
    };
    if offer.major > VERSION_MAJOR {
        return Answer::AskAgain(agreement);
    }
    if offer.major < VERSION_MAJOR || offer.minor < VERSION_MINOR_OLDEST {
        return Answer::TooOld;
    }
    Answer::Agreed(agreement)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(major: u32, minor: u32, flags: u64) -> Offer {
        Offer {
            major,
            minor,
            readahead_bytes_max: 131_072,
            flags,
        }
    }

    #[test]
    fn only_what_was_offered_is_agreed() {
        let Answer::Agreed(old) = answer(&offer(7, 26, init::ASYNC_READ | 2), true, true) else {
            panic!("not agreed");
        };
        assert_eq!(old.flags, init::ASYNC_READ);
        assert_eq!((old.minor, old.write_bytes_max), (26, 1 << 20));
        let Answer::Agreed(new) = answer(&offer(7, 99, u64::MAX), false, false) else {
            panic!("not agreed");
        };
        assert_eq!(new.flags, WANTED);
        assert_eq!((new.minor, new.write_bytes_max), (VERSION_MINOR, 4096));
        let Answer::Agreed(acls) = answer(&offer(7, 31, u64::MAX), false, true) else {
            panic!("not agreed");
        };
        assert_eq!(acls.flags, WANTED | init::POSIX_ACL);
    }

    #[test]
    fn other_versions() {
        assert!(matches!(
            answer(&offer(8, 0, 0), true, false),
            Answer::AskAgain(_)
        ));
        assert_eq!(answer(&offer(7, 22, 0), true, false), Answer::TooOld);
        assert_eq!(answer(&offer(6, 99, 0), true, false), Answer::TooOld);
    }
}
