//! Matches names of volumes with `*`. `condition` calls this.
//!
//! Invariant: no recursion, no allocation, and at most one step for each pair of bytes.

/// Returns true if the whole name matches; `*` stands for any number of bytes.
pub(super) fn matches_glob(glob: &[u8], name: &[u8]) -> bool {
    let (mut at_glob, mut at_name) = (0, 0);
    // Where to go on if what follows the last star does not match.
    let mut last_star: Option<(usize, usize)> = None;
    while let Some(byte) = name.get(at_name) {
        match glob.get(at_glob) {
            Some(b'*') => {
                last_star = Some((at_glob + 1, at_name));
                at_glob += 1;
            }
            Some(wanted) if wanted == byte => {
                at_glob += 1;
                at_name += 1;
            }
            _ => match &mut last_star {
                Some((after, from)) => {
                    *from += 1;
                    (at_glob, at_name) = (*after, *from);
                }
                None => return false,
            },
        }
    }
    glob.get(at_glob..)
        .is_none_or(|rest| rest.iter().all(|byte| *byte == b'*'))
}

#[cfg(test)]
mod tests {
    use super::matches_glob;

    #[test]
    fn stars_stand_for_anything() {
        let matches = |glob: &str, name: &str| matches_glob(glob.as_bytes(), name.as_bytes());
        for (glob, name) in [
            ("db", "db"),
            ("db-*", "db-1"),
            ("db-*", "db-"),
            ("*", ""),
            ("*-log", "a-log-log"),
            ("a*b*c", "a-b-b-c"),
            ("**", "x"),
        ] {
            assert!(matches(glob, name), "{glob} {name}");
        }
        for (glob, name) in [
            ("db", "db1"),
            ("db", "d"),
            ("db-*", "db"),
            ("a*b*c", "a-c-b"),
            ("", "x"),
        ] {
            assert!(!matches(glob, name), "{glob} {name}");
        }
        let many = "a*".repeat(200) + "b";
        assert!(!matches(&many, &"a".repeat(1000)));
    }
}
