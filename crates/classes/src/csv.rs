//! Lines of a policy file, split into the four fields of Open CAS, and joined again.
//!
//! `policy` calls this. Empty lines and lines that begin with `#` are comments, which Open CAS does
//! not have. A comment that begins with `fast:` is for us: how the fast tier treats a class.
//! Invariant: what `write_row` writes, `lines` reads as the same fields.

use crate::error::{HEADER, PolicyError, Problem};
use std::borrow::Cow;

/// Longest policy file: all classes with the longest rules, and comments.
pub(crate) const FILE_BYTES_MAX: usize = 256 << 10;

/// Beginning of a comment that is for us, after its `#`.
const FAST: &str = "fast:";

/// A line with its fields.
pub(crate) struct Row<'a, const FIELDS: usize> {
    /// From 1.
    pub(crate) line: usize,
    pub(crate) fields: [Cow<'a, str>; FIELDS],
}

/// Lines of a policy file.
pub(crate) struct Lines<'a> {
    /// Classes: the lines after the header.
    pub(crate) rows: Vec<Row<'a, 4>>,
    /// Id, priority and allocation of classes that the fast tier treats in another way.
    pub(crate) fast: Vec<Row<'a, 3>>,
}

/// Reads the lines.
pub(crate) fn lines(text: &str) -> Result<Lines<'_>, PolicyError> {
    let refuse = |line, problem| PolicyError {
        line,
        column: None,
        problem,
    };
    if text.len() > FILE_BYTES_MAX {
        let bytes_max = FILE_BYTES_MAX;
        return Err(refuse(1, Problem::FileTooLong { bytes_max }));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut fast = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let comment = text.trim().strip_prefix('#');
        if let Some(text) = comment.and_then(|comment| comment.trim_start().strip_prefix(FAST)) {
            let fields = fields(text).and_then(|fields| {
                let found = fields.len();
                fields.try_into().map_err(|_| Problem::FastFields { found })
            });
            let fields = fields.map_err(|problem| refuse(line, problem))?;
            fast.push(Row { line, fields });
        }
    }
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with('#')
    });
    let header = lines.next();
    if !header.is_some_and(|(_, line)| is_header(line)) {
        return Err(refuse(header.map_or(1, |(line, _)| line), Problem::Header));
    }
    let mut rows = Vec::new();
    for (line, text) in lines {
        let fields = fields(text).and_then(four);
        let fields = fields.map_err(|problem| refuse(line, problem))?;
        rows.push(Row { line, fields });
    }
    Ok(Lines { rows, fast })
}

fn four(fields: Vec<Cow<'_, str>>) -> Result<[Cow<'_, str>; 4], Problem> {
    let found = fields.len();
    fields.try_into().map_err(|_| Problem::Fields { found })
}

fn is_header(line: &str) -> bool {
    let fields = |line: &str| -> Vec<String> {
        let fields = line
            .split(',')
            .map(|field| field.trim().to_ascii_lowercase());
        fields.collect()
    };
    fields(line) == fields(HEADER)
}

fn fields(line: &str) -> Result<Vec<Cow<'_, str>>, Problem> {
    let mut fields = Vec::with_capacity(4);
    let mut rest = Some(line);
    while let Some(text) = rest {
        let (field, after) = match text.trim_start().strip_prefix('"') {
            Some(quoted) => quoted_field(quoted)?,
            None => match text.split_once(',') {
                Some((field, after)) => (Cow::Borrowed(field.trim()), Some(after)),
                None => (Cow::Borrowed(text.trim()), None),
            },
        };
        fields.push(field);
        rest = after;
    }
    Ok(fields)
}

/// Returns a field after its opening quote, and what follows the comma after it.
fn quoted_field(mut text: &str) -> Result<(Cow<'_, str>, Option<&str>), Problem> {
    let mut field = String::new();
    loop {
        let (before, after) = text.split_once('"').ok_or(Problem::Quotes)?;
        field.push_str(before);
        match after.strip_prefix('"') {
            Some(more) => {
                field.push('"');
                text = more;
            }
            None => {
                let after = after.trim_start();
                let next = after.strip_prefix(',');
                return match next.is_some() || after.is_empty() {
                    true => Ok((Cow::Owned(field.trim().to_owned()), next)),
                    false => Err(Problem::Quotes),
                };
            }
        }
    }
}

/// Appends a comment that says how the fast tier treats a class.
pub(crate) fn write_fast(text: &mut String, fields: [&str; 3]) {
    text.push_str("# ");
    text.push_str(FAST);
    text.push(' ');
    text.push_str(&fields.join(","));
    text.push('\n');
}

/// Appends a line.
pub(crate) fn write_row(text: &mut String, fields: [&str; 4]) {
    for (nth, field) in fields.into_iter().enumerate() {
        if nth > 0 {
            text.push(',');
        }
        match field.contains([',', '"']) {
            true => {
                text.push('"');
                text.push_str(&field.replace('"', "\"\""));
                text.push('"');
            }
            false => text.push_str(field),
        }
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<[String; 4], Problem> {
        Ok(four(fields(line)?)?.map(Cow::into_owned))
    }

    #[test]
    fn fields_may_be_quoted() {
        let expected = ["1", "directory:/a,b", "", "0.5"].map(String::from);
        assert_eq!(read("1, \"directory:/a,b\" ,,0.5"), Ok(expected));
        let expected = ["1", "extension:\"", "2", "1"].map(String::from);
        assert_eq!(read("1,\"extension:\"\"\",2,1"), Ok(expected));
        assert_eq!(read("1,\"a,2,1"), Err(Problem::Quotes));
        assert_eq!(read("1,\"a\"b,2,1"), Err(Problem::Quotes));
        assert_eq!(read("1,a,2"), Err(Problem::Fields { found: 3 }));
        assert_eq!(read("1,a,2,1,"), Err(Problem::Fields { found: 5 }));
        assert_eq!(read(""), Err(Problem::Fields { found: 1 }));
    }

    #[test]
    fn written_rows_are_read_again() {
        for fields in [["1", "a", "", "1.00"], ["2", "a,\"b\"", "0", "0.5"]] {
            let mut text = format!("{HEADER}\n");
            write_row(&mut text, fields);
            let lines = lines(&text).expect("lines");
            let row = lines.rows.first().expect("a row");
            assert_eq!((row.line, row.fields.each_ref().map(|f| &**f)), (2, fields));
        }
    }

    #[test]
    fn comments_for_the_fast_tier_are_read() {
        let mut text = format!("#fast:4,,1\n{HEADER}\n# a fast: comment\n");
        write_fast(&mut text, ["7", "200", "0.10"]);
        let lines = lines(&text).expect("lines");
        let fast = lines.fast.iter();
        let fast: Vec<_> = fast.map(|row| (row.line, row.fields.join("|"))).collect();
        assert_eq!(fast, [(1, "4||1".to_owned()), (4, "7|200|0.10".to_owned())]);
        assert!(lines.rows.is_empty());
    }

    #[test]
    fn the_header_comes_first() {
        let line = |text: &str| lines(text).err().map(|e| (e.line, e.problem));
        assert_eq!(line(""), Some((1, Problem::Header)));
        assert_eq!(line("# words\n\n1,a,1,1\n"), Some((3, Problem::Header)));
        assert_eq!(
            line("io class ID, io class name,eviction priority,allocation\r\n"),
            None
        );
        let long = format!("{HEADER}\n{}", "#\n".repeat(FILE_BYTES_MAX));
        assert!(matches!(
            line(&long),
            Some((1, Problem::FileTooLong { .. }))
        ));
    }
}
