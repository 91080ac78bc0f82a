//! Dense 32-bit numbers for containers, so that an entry needs 4 bytes for one instead of 8. The
//! index calls this under its state lock.
//!
//! Numbers are assigned in blocks of 1024 consecutive containers of a writer. Consecutive blocks
//! form one run. A writer that counts upwards needs one run; containers that arrive in any order
//! need at most one run for each block.
//!
//! Invariant: the container of a number never changes during the life of a file. A new file has new
//! numbers.

use format::index::ContainerRun;
use std::collections::BTreeMap;
use units::ContainerId;

const BLOCK: u32 = 1024;
const _: () = assert!((ContainerId::SEQUENCE_MAX + 1).is_multiple_of(BLOCK as u64));

/// Memory of a run in both directions, bytes.
const RUN_BYTES: usize = 16 + 48;

/// The runs, by number and by container.
#[derive(Default)]
pub(super) struct Numbers {
    /// Ascending and dense.
    runs: Vec<ContainerRun>,
    /// Maps the first container of each run to its place in `runs`.
    by_id: BTreeMap<ContainerId, usize>,
}

impl Numbers {
    /// Loads the runs of a file. Returns `None` if they are not whole blocks or if two of them have
    /// a container in common.
    pub(super) fn load(runs: Vec<ContainerRun>) -> Option<Self> {
        let whole = |n: u64| n.is_multiple_of(u64::from(BLOCK));
        if !runs
            .iter()
            .all(|run| whole(run.first.0) && whole(u64::from(run.count)))
        {
            return None;
        }
        let by_id: BTreeMap<_, _> = runs
            .iter()
            .enumerate()
            .map(|(at, r)| (r.first, at))
            .collect();
        let ascending: Vec<&ContainerRun> = by_id.values().filter_map(|at| runs.get(*at)).collect();
        let mut neighbours = ascending.iter().zip(ascending.iter().skip(1));
        let apart = neighbours.all(|(a, b)| b.first.0 - a.first.0 >= u64::from(a.count));
        (apart && by_id.len() == runs.len()).then_some(Self { runs, by_id })
    }

    /// Returns the runs, for the file.
    pub(super) fn runs(&self) -> Vec<ContainerRun> {
        self.runs.clone()
    }

    /// Returns the memory used, bytes.
    pub(super) fn bytes(&self) -> usize {
        self.runs.len() * RUN_BYTES
    }

    /// Returns the container with this number.
    pub(super) fn id(&self, number: u32) -> Option<ContainerId> {
        let run = match self.runs.as_slice() {
            [only] => only,
            runs => runs.get(
                runs.partition_point(|r| r.number <= number)
                    .checked_sub(1)?,
            )?,
        };
        let offset = number.checked_sub(run.number)?;
        (offset < run.count).then(|| ContainerId(run.first.0 + u64::from(offset)))
    }

    /// Returns the number of a container, or `None` if it has none.
    pub(super) fn number(&self, id: ContainerId) -> Option<u32> {
        let (first, at) = self.by_id.range(..=id).next_back()?;
        let run = self.runs.get(*at)?;
        let within = id.0 - first.0;
        (within < u64::from(run.count)).then(|| run.number + within as u32)
    }

    /// Returns the number of a container. Assigns numbers to its block if it has none. Returns
    /// `None` if all 2^32 numbers are in use.
    pub(super) fn assign(&mut self, id: ContainerId) -> Option<u32> {
        if let Some(number) = self.number(id) {
            return Some(number);
        }
        let within = id.0 % u64::from(BLOCK);
        let first = ContainerId(id.0 - within);
        let number = self.add_block(first)?;
        Some(number + within as u32)
    }

    /// Assigns numbers to the block that starts at `first` and returns the first of them.
    fn add_block(&mut self, first: ContainerId) -> Option<u32> {
        let end = self.runs.last().map_or(0, ContainerRun::end);
        let number = u32::try_from(end).ok()?;
        number.checked_add(BLOCK - 1)?;
        if let Some(last) = self.runs.last_mut()
            && last.first.0.wrapping_add(u64::from(last.count)) == first.0
            && last.first.writer() == first.writer()
            && let Some(count) = last.count.checked_add(BLOCK)
        {
            last.count = count;
            return Some(number);
        }
        self.by_id.insert(first, self.runs.len());
        self.runs.push(ContainerRun {
            first,
            number,
            count: BLOCK,
        });
        Some(number)
    }

    /// Returns the number of runs of one writer.
    #[cfg(test)]
    pub(super) fn runs_of(&self, writer: units::WriterId) -> usize {
        self.runs
            .iter()
            .filter(|r| r.first.writer() == writer)
            .count()
    }
}
