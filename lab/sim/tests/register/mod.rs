//! A toy store to test the explorer with: a register whose values are containers and roots. The
//! explorer's tests and the example that measures its speed use it.
//!
//! Invariant: the correct order is the one of `store`: container, barrier, root, barrier,
//! acknowledgement.

use media::{Barrier, Blobs, DirBlobs, Disk, MediaError, Put, Syncing};
use sim::{Expected, History, Scenario, Seed, SimDisk};
use std::sync::Arc;

/// A mistake of the toy.
#[allow(dead_code, reason = "the example builds it right")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mistake {
    None,
    /// The root is put, and durable, before its container.
    RootFirst,
    /// Both are put before one barrier.
    OneBarrier,
    /// A value found after a crash is trusted without making its names durable.
    NoAdoption,
    /// The old container is removed before the new root is durable.
    RemovesEarly,
}

/// A register that counts, over blobs.
pub struct Register {
    blobs: DirBlobs,
    mistake: Mistake,
    value: u64,
}

impl Register {
    /// Opens the register on the disk; zero on an empty one.
    pub fn open(disk: &Arc<SimDisk>, mistake: Mistake) -> Result<Self, String> {
        let disk: Arc<dyn Disk> = Arc::<SimDisk>::clone(disk);
        let blobs = DirBlobs::new(disk, Syncing::Inline);
        let value = recover(&blobs, mistake).map_err(|e| e.to_string())?;
        let register = Self {
            blobs,
            mistake,
            value,
        };
        register.verify()?;
        Ok(register)
    }

    /// Sets the next value, durably.
    pub fn put(&mut self, size: usize) -> Result<(), MediaError> {
        let value = self.value + 1;
        let container = format!("containers/{value}");
        let root = format!("roots/{value}");
        let body = body(value, size);
        let head = [value.to_le_bytes(), (size as u64).to_le_bytes()].concat();
        let blobs = &self.blobs;
        match self.mistake {
            Mistake::RootFirst => {
                blobs.put(&root, head, Put::IfAbsent)?;
                blobs.barrier(Barrier::RootBeforeAck)?;
                blobs.put(&container, body, Put::Replace)?;
                blobs.barrier(Barrier::ContainersBeforeRoot)?;
            }
            Mistake::OneBarrier => {
                blobs.put(&container, body, Put::Replace)?;
                blobs.put(&root, head, Put::IfAbsent)?;
                blobs.barrier(Barrier::RootBeforeAck)?;
            }
            _ => {
                blobs.put(&container, body, Put::Replace)?;
                blobs.barrier(Barrier::ContainersBeforeRoot)?;
                blobs.put(&root, head, Put::IfAbsent)?;
                if self.mistake == Mistake::RemovesEarly {
                    blobs.delete(&format!("containers/{}", self.value))?;
                }
                blobs.barrier(Barrier::RootBeforeAck)?;
            }
        }
        self.value = value;
        Ok(())
    }

    fn verify(&self) -> Result<(), String> {
        if self.value == 0 {
            return Ok(());
        }
        let read = |name: String| {
            let bytes = self.blobs.read(&name, 1 << 20);
            bytes.map_err(|e| format!("root {} without its blob: {e}", self.value))
        };
        let root = read(format!("roots/{}", self.value))?;
        let size = match root.first_chunk::<8>() {
            Some(value) if root.len() == 16 && u64::from_le_bytes(*value) == self.value => {
                u64::from_le_bytes(root[8..].try_into().unwrap())
            }
            _ => return Err(format!("root {} is torn: {root:?}", self.value)),
        };
        let container = read(format!("containers/{}", self.value))?;
        if container != body(self.value, size as usize) {
            return Err(format!("container {} is torn", self.value));
        }
        Ok(())
    }
}

/// Returns the highest root; its names are durable on return.
fn recover(blobs: &DirBlobs, mistake: Mistake) -> Result<u64, MediaError> {
    blobs.sweep()?;
    let roots = blobs.list("roots")?;
    let value = roots.iter().filter_map(|name| name.parse().ok()).max();
    let Some(value) = value else { return Ok(0) };
    if mistake != Mistake::NoAdoption {
        // Their writer may have died before its barriers. The container goes first.
        blobs.adopt(&format!("containers/{value}"));
        blobs.barrier(Barrier::ContainersBeforeRoot)?;
        blobs.adopt(&format!("roots/{value}"));
        blobs.barrier(Barrier::RootBeforeAck)?;
    }
    Ok(value)
}

fn body(value: u64, size: usize) -> Vec<u8> {
    let mut seed = Seed::new(value);
    (0..size.div_ceil(8))
        .flat_map(|_| seed.draw().to_le_bytes())
        .take(size)
        .collect()
}

/// Puts, and sometimes a process crash between or within them.
pub struct Counting {
    pub seed: u64,
    pub puts: u64,
    pub mistake: Mistake,
    pub kills: bool,
}

impl Scenario for Counting {
    /// The value that is set.
    type Op = u64;
    type Model = u64;

    fn apply(&self, model: &mut u64, op: &u64) {
        *model = *op;
    }

    fn run(&self, disk: &Arc<SimDisk>, history: &History<u64>) -> Result<(), String> {
        let mut seed = Seed::new(self.seed);
        let mut disk = Arc::clone(disk);
        let mut register = Register::open(&disk, self.mistake)?;
        for _ in 0..self.puts {
            let size = 1 + seed.below(9000) as usize;
            let value = register.value + 1;
            let ticket = history.begin(value);
            if self.kills && seed.chance(80) {
                disk.kill_after(1 + seed.below(14));
            }
            if register.put(size).is_ok() {
                history.ack(ticket);
                continue;
            }
            // The acknowledgement was lost. The next process finds out.
            disk = disk.kill();
            register = Register::open(&disk, self.mistake)?;
            if register.value == value {
                history.ack(ticket);
            } else {
                history.forget(ticket);
            }
        }
        Ok(())
    }

    fn check(&self, disk: &Arc<SimDisk>, expected: &Expected<Self>) -> Result<(), String> {
        let found = Register::open(disk, self.mistake)?.value;
        if !expected.models.contains(&found) {
            return Err(format!("found {found}, allowed are {:?}", expected.models));
        }
        // A second opening finds the same: recovery changes nothing visible.
        let again = Register::open(&disk.kill(), self.mistake)?.value;
        if again != found {
            return Err(format!("found {found}, then {again}"));
        }
        Ok(())
    }
}
