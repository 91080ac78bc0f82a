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
pub struct Asker {
    /// Origin of the work.
    pub origin: Origin,
    /// True if the next request likely starts where this one ends.
    pub is_sequential: bool,
}

thread_local! {
    static ASKER: Cell<Asker> = const { Cell::new(Asker::UNKNOWN) };
}

impl Asker {
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
        ASKER.get()
    }

    /// Sets the value of the current thread to `self` until the result is dropped.
    #[must_use = "dropping it ends what it says"]
    pub fn begin(self) -> Asking {
        Asking {
            before: ASKER.replace(self),
            here: PhantomData,
        }
    }
}

/// Guard: its thread has an I/O origin as long as this lives.
pub struct Asking {
    before: Asker,
    /// Keeps the guard on its thread.
    here: PhantomData<*const ()>,
}

impl Drop for Asking {
    fn drop(&mut self) {
        ASKER.set(self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_works_for_one_at_a_time() {
        let scrub = Asker::of(Origin::Scrub);
        {
            let _scrub = scrub.begin();
            let random = Asker {
                is_sequential: false,
                ..Asker::UNKNOWN
            };
            {
                let _random = random.begin();
                assert_eq!(Asker::current(), random);
            }
            assert_eq!(Asker::current(), scrub);
            let elsewhere = std::thread::spawn(Asker::current).join();
            assert_eq!(elsewhere.expect("no panic"), Asker::UNKNOWN);
        }
        assert_eq!(Asker::current(), Asker::UNKNOWN);
    }
}
