//! Raises the number of files that the process may have open. `main` calls this.
//!
//! Invariant: the limit is never lowered, and never above what the administrator allows.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the soft limit to the hard one. A deep tree needs an open file for each level, and a
/// server one for each client. Errors are ignored: the lower limit stays.
pub fn raise_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Returns the number of files that the process may have open. `None`: there is no limit.
pub fn open_files() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_what_the_administrator_allows() {
        raise_open_files();
        assert_eq!(open_files(), getrlimit(Resource::Nofile).maximum);
    }
}
