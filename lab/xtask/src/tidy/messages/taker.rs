//! Finds out which call, attribute or field takes a string literal. [`super`] calls this.
//!
//! Invariant: it counts brackets and is no parser. A literal without a name around it has an empty
//! taker, and is a message if it reads like one.

use super::super::lexer::Lexed;

/// Returns the taker of each string of the file.
pub fn of_strings(lexed: &Lexed) -> Vec<String> {
    let code = &lexed.code;
    let mut open: Vec<String> = Vec::new();
    let mut strings = lexed.strings.iter().map(|(offset, _)| *offset).peekable();
    let mut takers = Vec::new();
    for (at, c) in code.char_indices() {
        while strings.next_if(|offset| *offset <= at).is_some() {
            takers.push(innermost(&open, code, at));
        }
        match c {
            '(' | '[' | '{' => open.push(name_before(code, at)),
            ')' | ']' | '}' => {
                open.pop();
            }
            _ => {}
        }
    }
    takers.extend(strings.map(|_| String::new()));
    takers
}

/// Returns the field that a literal at `at` is the value of, or the innermost named bracket.
fn innermost(open: &[String], code: &str, at: usize) -> String {
    let before = code.get(..at).unwrap_or_default().trim_end();
    let field = before.strip_suffix(':').map(last_word);
    if let Some(field) = field.filter(|field| !field.is_empty()) {
        return format!("{field}:");
    }
    let mut named = open.iter().rev().filter(|name| !name.is_empty());
    named.next().cloned().unwrap_or_default()
}

/// Returns the name in front of a bracket: `println!`, `context`, `error`. Empty for a block.
fn name_before(code: &str, at: usize) -> String {
    let before = code.get(..at).unwrap_or_default().trim_end();
    let (stem, mark) = match before.strip_suffix('!') {
        Some(stem) => (stem, "!"),
        None => (before, ""),
    };
    match last_word(stem) {
        "" => String::new(),
        name => format!("{name}{mark}"),
    }
}

fn last_word(text: &str) -> &str {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let start = text.trim_end_matches(is_part).len();
    text.get(start..).unwrap_or_default()
}

/// Returns the contents of a literal as the compiler reads it. `None` for bytes.
pub fn contents(literal: &str) -> Option<String> {
    if literal.starts_with('b') {
        return None;
    }
    let (prefix, rest) = literal.split_once('"')?;
    if prefix.starts_with('r') {
        let end = format!("\"{}", prefix.trim_start_matches('r'));
        return Some(rest.strip_suffix(&end)?.to_owned());
    }
    let mut text = String::new();
    let mut chars = rest.strip_suffix('"')?.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        match chars.next()? {
            'n' => text.push('\n'),
            't' => text.push('\t'),
            'r' => text.push('\r'),
            '0' => text.push('\0'),
            '\n' => while chars.next_if(|c| c.is_whitespace()).is_some() {},
            'x' => {
                let digits: String = chars.by_ref().take(2).collect();
                text.push(char::from(u8::from_str_radix(&digits, 16).ok()?));
            }
            'u' => {
                let digits: String = chars.by_ref().take_while(|c| *c != '}').collect();
                let code = u32::from_str_radix(digits.trim_start_matches('{'), 16).ok()?;
                text.push(char::from_u32(code)?);
            }
            other => text.push(other),
        }
    }
    Some(text)
}
