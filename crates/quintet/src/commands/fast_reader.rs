//! Opens pools for commands that read data without holding the pool, with the fast tier that a
//! server of this machine fills (`QUINTET_FAST`). `restore`, `dump`, `export`, `mount --read-only`
//! and `serve --read-only` call this.
//!
//! Invariant: nothing is written to the tier, and what is read from it is verified against its
//! fingerprint: a tier that is missing, old or damaged makes the command slower. `check` and
//! `scrub` are not among the callers: they say how the pool's own disk is.

use super::invocation::Invocation;
use super::program::OnConsole;
use crate::settings::FastPlace;
use media::SystemClock;
use server::fast_device;
use server::memory_plan::MemoryPlan;
use server::program::Program;
use server::state::OpenPool;
use server::threads::Background;
use server::threads::tiering::start_reading;
use ssd_tier::{KindShares, TierOptions, TierSettings};
use std::sync::Arc;
use store::{OpenMode, Pool};

impl Invocation {
    /// Opens the pool for reading, with the tier. In a server: returns the server's pool, which has
    /// its own.
    pub fn open_with_tier(&self) -> anyhow::Result<OpenPool> {
        if self.server_state().is_some() {
            return self.open(OpenMode::Read);
        }
        let pool = self.open_within_with_tier(self.settings.memory_bytes)?;
        Ok(pool.into())
    }

    /// Like [`Invocation::open_with_tier`], but always in this process and with `memory_bytes` of
    /// memory, of which the tier gets its part.
    pub fn open_within_with_tier(&self, memory_bytes: usize) -> anyhow::Result<Pool> {
        let Some(FastPlace { directory, bytes }) = &self.settings.fast else {
            return self.open_within(OpenMode::Read, memory_bytes);
        };
        let tier_bytes = MemoryPlan::tier_of(memory_bytes, *bytes);
        let options = TierOptions::new(*bytes, tier_bytes as u64).reading();
        if !options.fits_memory() {
            self.console.warn(
                "too little memory for the fast tier of QUINTET_FAST, so it is not read; give more --memory",
            );
            return self.open_within(OpenMode::Read, memory_bytes);
        }
        let pool = self.open_within(OpenMode::Read, memory_bytes - tier_bytes)?;
        let disk = fast_device::disk(std::path::absolute(directory)?);
        let settings = TierSettings::new(KindShares::ALONE);
        let tier = pool.use_fast_tier(disk, options, settings);
        let program: Arc<dyn Program> = Arc::new(OnConsole(Arc::clone(&self.console)));
        let thread = start_reading(tier, Arc::new(SystemClock), &program)?;
        self.keep_until_the_end(thread);
        Ok(pool)
    }

    /// Keeps a thread until the command ends.
    fn keep_until_the_end(&self, thread: Background) {
        self.threads.lock().push(thread);
    }
}
