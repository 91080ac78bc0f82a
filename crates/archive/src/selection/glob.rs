//! Matches one component of a pattern with one name, byte by byte. [`super::patterns`] uses it.
//!
//! Invariant: linear in the length of the name for each star; never fails on any bytes.

/// A compiled component: `*`, `?`, `[a-z]`, `[!a-z]`, and `\` before a literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Glob {
    tokens: Vec<Token>,
    ignore_case: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Byte(u8),
    Any,
    Star,
    Class {
        negated: bool,
        ranges: Vec<(u8, u8)>,
    },
}

impl Glob {
    /// Compiles a component; the error is the reason.
    pub fn new(text: &[u8], ignore_case: bool) -> Result<Self, &'static str> {
        let mut tokens = Vec::new();
        let mut rest = text;
        while let Some((first, after)) = rest.split_first() {
            rest = after;
            tokens.push(match first {
                b'*' => {
                    // A run of stars equals one.
                    if tokens.last() == Some(&Token::Star) {
                        continue;
                    }
                    Token::Star
                }
                b'?' => Token::Any,
                b'[' => {
                    let (class, after) = class(rest)?;
                    rest = after;
                    class
                }
                b'\\' => {
                    let (escaped, after) = rest.split_first().ok_or("it ends with a backslash")?;
                    rest = after;
                    Token::Byte(*escaped)
                }
                byte => Token::Byte(*byte),
            });
        }
        Ok(Self {
            tokens,
            ignore_case,
        })
    }

    /// Returns true if the whole name matches.
    pub fn matches(&self, name: &[u8]) -> bool {
        let (mut token, mut at) = (0, 0);
        // Where to continue if the last star has to take one more byte.
        let mut retry: Option<(usize, usize)> = None;
        loop {
            match (self.tokens.get(token), name.get(at)) {
                (None, None) => return true,
                (Some(Token::Star), _) => {
                    retry = Some((token, at));
                    token += 1;
                    continue;
                }
                (Some(wanted), Some(byte)) if self.one(wanted, *byte) => {
                    token += 1;
                    at += 1;
                    continue;
                }
                _ => {}
            }
            match retry {
                Some((star, taken)) if taken < name.len() => {
                    retry = Some((star, taken + 1));
                    (token, at) = (star + 1, taken + 1);
                }
                _ => return false,
            }
        }
    }

    fn one(&self, wanted: &Token, byte: u8) -> bool {
        match wanted {
            Token::Byte(b) if self.ignore_case => b.eq_ignore_ascii_case(&byte),
            Token::Byte(b) => *b == byte,
            Token::Any => true,
            Token::Star => false,
            Token::Class { negated, ranges } => {
                let has = |b| ranges.iter().any(|(from, to)| (*from..=*to).contains(&b));
                let other = match self.ignore_case {
                    true if byte.is_ascii_uppercase() => byte.to_ascii_lowercase(),
                    true => byte.to_ascii_uppercase(),
                    false => byte,
                };
                (has(byte) || has(other)) != *negated
            }
        }
    }
}

/// Parses a class after `[`. Returns it and the rest of the text.
fn class(text: &[u8]) -> Result<(Token, &[u8]), &'static str> {
    let open = "an opening bracket has no closing bracket";
    let negated = matches!(text.first(), Some(b'!' | b'^'));
    let mut rest = text.get(usize::from(negated)..).ok_or(open)?;
    let mut ranges = Vec::new();
    let literal = |rest: &mut &[u8]| -> Option<u8> {
        let (mut byte, mut after) = rest.split_first()?;
        if *byte == b'\\' {
            (byte, after) = after.split_first()?;
        }
        *rest = after;
        Some(*byte)
    };
    loop {
        // A bracket in first place is literal.
        if let (Some((b']', after)), false) = (rest.split_first(), ranges.is_empty()) {
            return Ok((Token::Class { negated, ranges }, after));
        }
        let from = literal(&mut rest).ok_or(open)?;
        let to = match rest {
            [b'-', after @ ..] if after.first().is_some_and(|next| *next != b']') => {
                rest = after;
                literal(&mut rest).ok_or(open)?
            }
            _ => from,
        };
        if from > to {
            return Err("a range ends before it starts");
        }
        ranges.push((from, to));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (pattern, name, expected) in [
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", ".hidden", true),
            ("*.o", "a.o.o", true),
            ("*.o", ".o", true),
            ("*.o", "o", false),
            ("a*b*c", "axxbxxbc", true),
            ("a*b*c", "axxbxx", false),
            ("**x", "aax", true),
            ("?", "", false),
            ("a?c", "abc", true),
            ("[abc]x", "bx", true),
            ("[a-c]", "d", false),
            ("[!a-c]", "d", true),
            ("[^a-c]", "b", false),
            ("[]-]", "]", true),
            ("[]-]", "-", true),
            ("[a\\]]", "]", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("ABC", "abc", false),
        ] {
            let glob = Glob::new(pattern.as_bytes(), false).unwrap();
            assert_eq!(glob.matches(name.as_bytes()), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn any_bytes() {
        let glob = Glob::new(b"?\xff*", false).unwrap();
        assert!(glob.matches(b"\x80\xff\xfe"));
        assert!(!glob.matches(b"\x80\xfe"));
    }

    #[test]
    fn case_is_ignored_on_request() {
        let glob = |text: &str| Glob::new(text.as_bytes(), true).unwrap();
        assert!(glob("*.JpG").matches(b"a.jPg"));
        assert!(glob("[a-c]").matches(b"B"));
        assert!(!glob("[!a-c]").matches(b"B"));
    }

    #[test]
    fn nonsense_is_refused() {
        for nonsense in ["[", "[a", "[!", "a\\", "[z-a]", "[a\\"] {
            assert!(Glob::new(nonsense.as_bytes(), false).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn many_stars_end_soon() {
        let glob = Glob::new(b"*a*a*a*a*a*a*a*a*a*a*b", false).unwrap();
        assert!(!glob.matches(&[b'a'; 10_000]));
    }
}
