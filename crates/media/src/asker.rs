//! Who the work of a thread is for, so that whoever orders the device's requests can ask.
//!
//! Invariant: a hint: nothing that is stored or read depends on it. It goes with a put to the thread that
//! writes the blob; whoever hands work to threads of his own hands it on. Set by the store and by
//! commands; asked for in front of a device.

use std::cell::Cell;
use std::marker::PhantomData;
use units::Origin;

/// See the module's head.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Asker {
    /// For whom.
    pub origin: Origin,
    /// Whether what comes next goes on where this ends, as far as one knows.
    pub is_sequential: bool,
}

thread_local! {
    static ASKER: Cell<Asker> = const { Cell::new(Asker::UNKNOWN) };
}

impl Asker {
    /// Nobody has said: clients, in order.
    pub const UNKNOWN: Self = Self::of(Origin::Foreground);

    /// Work that goes through its data in order.
    pub const fn of(origin: Origin) -> Self {
        Self {
            origin,
            is_sequential: true,
        }
    }

    /// What this thread works for.
    pub fn current() -> Self {
        ASKER.get()
    }

    /// From now on this thread works for `self`, until what is returned is dropped.
    #[must_use = "dropping it ends what it says"]
    pub fn begin(self) -> Asking {
        Asking {
            before: ASKER.replace(self),
            here: PhantomData,
        }
    }
}

/// While it lives its thread works for somebody.
pub struct Asking {
    before: Asker,
    /// Stays on its thread.
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
