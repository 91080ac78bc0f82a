//! Records the I/O origin of the current thread's work, for the scheduler in front of the device.
//!
//! The store and commands set it; the device asks for it.
//! Invariant: the origin is a hint. Nothing that is stored or read depends on it. It travels with a
//! put to the thread that writes the blob. Code that hands work to its own threads must pass it on.

use std::cell::Cell;
use std::marker::PhantomData;
use units::Origin;

/// I/O origin of a thread's work.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IoOrigin {
    /// Origin of the work.
    pub origin: Origin,
    /// True if the next request likely starts where this one ends.
    pub is_sequential: bool,
}

thread_local! {
    static IO_ORIGIN: Cell<IoOrigin> = const { Cell::new(IoOrigin::UNKNOWN) };
}

impl IoOrigin {
    /// Default when nothing was set: clients, in order.
    pub const UNKNOWN: Self = Self::of(Origin::Foreground);

    /// Makes the value for work that goes through its data in order.
    pub const fn of(origin: Origin) -> Self {
        Self {
            origin,
            is_sequential: true,
        }
    }

    /// Returns the value of the current thread.
    pub fn current() -> Self {
        IO_ORIGIN.get()
    }

    /// Sets the value of the current thread to `self` until the result is dropped.
    #[must_use = "dropping it ends what it says"]
    pub fn begin(self) -> IoOriginScope {
        IoOriginScope {
            before: IO_ORIGIN.replace(self),
            here: PhantomData,
        }
    }
}

/// Guard: its thread has an I/O origin as long as this lives.
pub struct IoOriginScope {
    before: IoOrigin,
    /// Keeps the guard on its thread.
    here: PhantomData<*const ()>,
}

impl Drop for IoOriginScope {
    fn drop(&mut self) {
        IO_ORIGIN.set(self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_works_for_one_at_a_time() {
        let scrub = IoOrigin::of(Origin::Scrub);
        {
            let _scrub = scrub.begin();
            let random = IoOrigin {
                is_sequential: false,
                ..IoOrigin::UNKNOWN
            };
            {
                let _random = random.begin();
                assert_eq!(IoOrigin::current(), random);
            }
            assert_eq!(IoOrigin::current(), scrub);
            let elsewhere = std::thread::spawn(IoOrigin::current).join();
            assert_eq!(elsewhere.expect("no panic"), IoOrigin::UNKNOWN);
        }
        assert_eq!(IoOrigin::current(), IoOrigin::UNKNOWN);
    }
}
