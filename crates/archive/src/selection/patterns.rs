//! Lists of path patterns, as in restic's `--exclude` and in `.gitignore`. [`super`] uses them.
//!
//! | pattern | matches |
//! |---|---|
//! | `name`, `*.o` | an entry of that name anywhere |
//! | `a/b` | `b` in a directory `a` anywhere |
//! | `/a/b` | that path only |
//! | `a/**/b`, `a/**` | `b` at any depth below `a`; all below `a` |
//! | `name/` | directories only |
//! | `!name` | revokes the match of an earlier pattern |
//!
//! Invariant: the last pattern that matches decides. A pattern that matches a directory decides
//! about everything below it, because the walk does not enter it.

use super::glob::Glob;
use units::lines;
use units::printable::printable;

/// Reason why a pattern was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid pattern \"{pattern}\": {why}")]
pub struct PatternError {
    pattern: String,
    why: &'static str,
}

impl PatternError {
    pub(super) fn new(pattern: &[u8], why: &'static str) -> Self {
        Self {
            pattern: printable(pattern),
            why,
        }
    }
}

#[derive(Clone, Debug)]
enum Component {
    Name(Glob),
    /// `**`: any number of directories.
    AnyDepth,
}

#[derive(Clone, Debug)]
struct Pattern {
    components: Vec<Component>,
    directories_only: bool,
    takes_back: bool,
}

/// An ordered list. See the module's head.
#[derive(Clone, Debug, Default)]
pub struct Patterns(Vec<Pattern>);

impl Patterns {
    /// Adds a pattern at the end. It has one line; `?` stands for the end of a line in a name.
    pub fn add(&mut self, text: &[u8], ignore_case: bool) -> Result<(), PatternError> {
        let refuse = |why| PatternError::new(text, why);
        let text = lines::only(text).map_err(|e| refuse(e.0))?;
        let (takes_back, body) = match text.strip_prefix(b"!") {
            Some(body) => (true, body),
            None => (false, text),
        };
        let anchored = body.starts_with(b"/");
        let directories_only = body.len() > 1 && body.ends_with(b"/");
        let mut components = Vec::new();
        if !anchored {
            components.push(Component::AnyDepth);
        }
        for name in body.split(|b| *b == b'/') {
            match name {
                b"" | b"." => {}
                b".." => return Err(refuse("\"..\" matches no path")),
                b"**" => components.push(Component::AnyDepth),
                name => components.push(Component::Name(
                    Glob::new(name, ignore_case).map_err(refuse)?,
                )),
            }
        }
        let names = components.iter().any(|c| matches!(c, Component::Name(_)));
        if !names && !anchored && body != b"**" {
            return Err(refuse("it matches no path"));
        }
        self.0.push(Pattern {
            components,
            directories_only,
            takes_back,
        });
        Ok(())
    }

    /// Adds the lines of a file, one pattern each. Blank lines and those that begin with `#` are
    /// ignored; spaces at both ends are removed.
    pub fn add_lines(&mut self, bytes: &[u8], ignore_case: bool) -> Result<(), PatternError> {
        let lines = lines::of_list(bytes).map_err(|e| PatternError::new(b"", e.0))?;
        for line in lines {
            let line = line.trim_ascii();
            if !line.is_empty() && !line.starts_with(b"#") {
                self.add(line, ignore_case)?;
            }
        }
        Ok(())
    }

    /// Returns true if there are no patterns.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the decision of the last pattern that matches: true, or false for `!`; `None` if no
    /// pattern matches. `path` begins with `/`.
    pub fn matches(&self, path: &[u8], is_directory: bool) -> Option<bool> {
        if self.0.is_empty() {
            return None;
        }
        let names = split(path);
        self.0
            .iter()
            .rev()
            .filter(|pattern| is_directory || !pattern.directories_only)
            .find(|pattern| whole(&pattern.components, &names))
            .map(|pattern| !pattern.takes_back)
    }

    /// Returns true if something below the directory `path` may match.
    pub fn may_match_below(&self, path: &[u8]) -> bool {
        let names = split(path);
        let mut patterns = self.0.iter();
        patterns.any(|pattern| !pattern.takes_back && beginning(&pattern.components, &names))
    }
}

fn split(path: &[u8]) -> Vec<&[u8]> {
    path.split(|b| *b == b'/')
        .filter(|n| !n.is_empty())
        .collect()
}

fn whole(components: &[Component], names: &[&[u8]]) -> bool {
    match components.split_first() {
        None => names.is_empty(),
        // At the end: everything below, but not the directory itself.
        Some((Component::AnyDepth, [])) => !names.is_empty(),
        Some((Component::AnyDepth, rest)) => {
            // Match the names at the end first; most patterns are one name.
            let fewest = rest
                .iter()
                .filter(|c| matches!(c, Component::Name(_)))
                .count();
            let exact = rest.len() == fewest;
            let last = names.len().checked_sub(fewest);
            match (last, exact) {
                (None, _) => false,
                (Some(last), true) => whole(rest, names.split_at(last).1),
                (Some(last), false) => (0..=last).any(|skip| whole(rest, names.split_at(skip).1)),
            }
        }
        Some((Component::Name(glob), rest)) => match names.split_first() {
            Some((name, names)) => glob.matches(name) && whole(rest, names),
            None => false,
        },
    }
}

/// Returns true if the names match the first components, and more components follow.
fn beginning(components: &[Component], names: &[&[u8]]) -> bool {
    match (components.split_first(), names.split_first()) {
        (None, _) => false,
        (Some((Component::AnyDepth, _)), _) | (Some(_), None) => true,
        (Some((Component::Name(glob), rest)), Some((name, names))) => {
            glob.matches(name) && beginning(rest, names)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(text: &str) -> Patterns {
        let mut patterns = Patterns::default();
        patterns.add_lines(text.as_bytes(), false).unwrap();
        patterns
    }

    #[test]
    fn paths() {
        for (pattern, path, expected) in [
            ("foo", "/foo", true),
            ("foo", "/a/b/foo", true),
            ("foo", "/a/foo/b", false),
            ("foo", "/a/food", false),
            ("*.o", "/a/b.o", true),
            ("a/b", "/x/a/b", true),
            ("a/b", "/a/x/b", false),
            ("/a/b", "/a/b", true),
            ("/a/b", "/x/a/b", false),
            ("/a/*", "/a/b", true),
            ("/a/*", "/a/b/c", false),
            ("a/**/b", "/a/b", true),
            ("a/**/b", "/x/a/1/2/3/b", true),
            ("a/**/b", "/a/1/2/3/c", false),
            ("a/**", "/a/1", true),
            ("a/**", "/a/1/2", true),
            ("a/**", "/a", false),
            ("**", "/a", true),
            ("/", "/", true),
            ("**/x/**/y/**", "/1/x/2/3/y/4", true),
            ("**/x/**/y/**", "/1/x/2/3/y", false),
            ("./a//b", "/a/b", true),
        ] {
            let matches = patterns(pattern).matches(path.as_bytes(), true);
            assert_eq!(matches.is_some(), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn the_last_one_decides() {
        let list = patterns("*.log\n\n# not\n  !keep.log  \n/a/keep.log\n");
        assert_eq!(list.matches(b"/x.log", false), Some(true));
        assert_eq!(list.matches(b"/x/keep.log", false), Some(false));
        assert_eq!(list.matches(b"/a/keep.log", false), Some(true));
        assert_eq!(list.matches(b"/not", false), None);
    }

    #[test]
    fn directories_only() {
        let list = patterns("build/");
        assert_eq!(list.matches(b"/a/build", true), Some(true));
        assert_eq!(list.matches(b"/a/build", false), None);
    }

    #[test]
    fn nonsense_is_refused_with_the_pattern() {
        for nonsense in ["!", ".", "a/../b", "[", "a/[z-a]"] {
            let error = Patterns::default().add(nonsense.as_bytes(), false);
            assert!(error.unwrap_err().to_string().contains(nonsense));
        }
    }

    #[test]
    fn what_may_lie_below() {
        let below = |pattern: &str, path: &str| patterns(pattern).may_match_below(path.as_bytes());
        assert!(below("/a/b/c", "/a"));
        assert!(below("/a/b/c", "/a/b"));
        assert!(!below("/a/b/c", "/a/b/c"));
        assert!(!below("/a/b/c", "/x"));
        assert!(below("name", "/any/where"));
        assert!(below("/a/**/b", "/a/1/2/3"));
        assert!(!below("!name", "/any"));
        assert!(below("/*/b", "/"));
    }
}
