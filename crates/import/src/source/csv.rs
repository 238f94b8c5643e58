//! CSV tables: a header row, then a row for each entry, quoted as in RFC 4180.

use super::{DocumentNode, Problem, Span, Spanned, ValueKind};

/// The most columns a table may have.
const COLUMNS_MAX: usize = 256;

/// A field and its position.
struct Field {
    text: String,
    quoted: bool,
    at: Span,
}

/// Parses a table to a list of maps by column name; fields that are empty, `NULL` or `\N` are null.
///
/// # Errors
/// If a row has more or fewer fields than the header, or a quote is not closed.
pub(crate) fn parse(text: &str) -> Result<DocumentNode, Vec<Problem>> {
    let mut rows = rows(text).map_err(|problem| vec![*problem])?.into_iter();
    let start = Span { line: 1, column: 1, length: 1 };
    let Some(header) = rows.next() else {
        return Err(vec![Problem::error(start, "", "this table is empty").want("a header row")]);
    };
    let mut problems = check_header(&header);
    let mut items = Vec::new();
    for row in rows {
        let at = row[0].at;
        if row.len() != header.len() {
            let message = format!("this row has {} fields, the header has {}", row.len(), header.len());
            problems.push(Problem::error(at, format!("[{}]", items.len()), message));
        }
        let name = |column: &Field, field: &Field| Spanned::new(column.text.trim().to_owned(), field.at);
        let members =
            header.iter().zip(row).map(|(column, field)| (name(column, &field), field.node())).collect();
        items.push(DocumentNode { kind: ValueKind::Map(members), at });
    }
    if problems.is_empty() {
        Ok(DocumentNode { kind: ValueKind::List(items), at: start })
    } else {
        Err(problems)
    }
}

impl Field {
    fn node(self) -> DocumentNode {
        let absent = !self.quoted && matches!(self.text.trim(), "" | "NULL" | "null" | "\\N");
        let text = if self.quoted { self.text } else { self.text.trim().to_owned() };
        DocumentNode { kind: if absent { ValueKind::Null } else { ValueKind::Text(text) }, at: self.at }
    }
}

fn check_header(header: &[Field]) -> Vec<Problem> {
    let mut problems = Vec::new();
    if header.len() > COLUMNS_MAX {
        let message = format!("this table has {} columns", header.len());
        problems.push(Problem::error(header[0].at, "", message).want(format!("at most {COLUMNS_MAX}")));
    }
    for (index, column) in header.iter().enumerate() {
        let name = column.text.trim();
        if name.is_empty() || header[..index].iter().any(|earlier| earlier.text.trim() == name) {
            let message = match name {
                "" => "this column has no name".to_owned(),
                name => format!("the column `{name}` appears twice"),
            };
            problems.push(Problem::error(column.at, "", message).want("a header row with different names"));
        }
    }
    problems
}

/// The rows that are not blank.
fn rows(text: &str) -> Result<Vec<Vec<Field>>, Box<Problem>> {
    let mut reader =
        Reader { rest: text.trim_start_matches('\u{feff}').chars().peekable(), line: 1, column: 1 };
    let mut rows = Vec::new();
    while reader.rest.peek().is_some() {
        let mut row = Vec::new();
        loop {
            row.push(reader.field()?);
            match reader.next() {
                Some(',') => {}
                Some('\r') if reader.rest.peek() == Some(&'\n') => {
                    reader.next();
                    break;
                }
                _ => break,
            }
        }
        let blank = row.len() == 1 && !row[0].quoted && row[0].text.trim().is_empty();
        if !blank {
            rows.push(row);
        }
    }
    Ok(rows)
}

struct Reader<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    line: u32,
    column: u32,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        let c = self.rest.next()?;
        if c == '\n' {
            self.line += 1;
            self.column = 1;
        } else {
            self.column += 1;
        }
        Some(c)
    }

    /// Reads a field, up to the comma or line end after it.
    fn field(&mut self) -> Result<Field, Box<Problem>> {
        let at = Span { line: self.line, column: self.column, length: 1 };
        let mut text = String::new();
        if self.rest.peek() != Some(&'"') {
            while self.rest.peek().is_some_and(|c| !matches!(c, ',' | '\n' | '\r')) {
                text.extend(self.next());
            }
            return Ok(Field { text, quoted: false, at });
        }
        self.next();
        loop {
            match self.next() {
                None => return Err(wrong(at, "this quote is not closed", "a closing `\"`")),
                Some('"') if self.rest.peek() == Some(&'"') => {
                    self.next();
                    text.push('"');
                }
                Some('"') => break,
                Some(c) => text.push(c),
            }
        }
        match self.rest.peek() {
            None | Some(',' | '\n' | '\r') => Ok(Field { text, quoted: true, at }),
            Some(_) => Err(wrong(at, "there is text after a closing quote", "a comma")),
        }
    }
}

fn wrong(at: Span, message: &str, want: &str) -> Box<Problem> {
    Box::new(Problem::error(at, "", message).want(want))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(text: &str) -> Vec<Vec<Option<String>>> {
        let node = parse(text).unwrap();
        let row = |row: &DocumentNode| {
            row.entries().iter().map(|(_, cell)| cell.scalar().map(str::to_owned)).collect()
        };
        node.items().iter().map(row).collect()
    }

    #[test]
    fn quotes_commas_and_line_ends() {
        let table = "a,b\r\n1,\"x, \"\"y\"\"\"\r\n\r\n2,\"two\nlines\"\n";
        let want = [["1", "x, \"y\""], ["2", "two\nlines"]];
        assert_eq!(cells(table), want.map(|row| row.map(|cell| Some(cell.to_owned())).to_vec()));
    }

    #[test]
    fn nothing_and_null_are_null_unless_quoted() {
        let table = "a,b,c,d\n,NULL,\\N,\"NULL\"";
        assert_eq!(cells(table), [vec![None, None, None, Some("NULL".to_owned())]]);
    }

    #[test]
    fn fields_know_where_they_stand() {
        let node = parse("a,b\n\"x\ny\",z\n").unwrap();
        let (key, _) = &node.items()[0].entries()[1];
        assert_eq!((key.value.as_str(), key.at.line, key.at.column), ("b", 3, 4));
    }

    #[test]
    fn what_is_no_table_is_refused() {
        for (text, says) in [
            ("", "empty"),
            ("a,a\n", "appears twice"),
            ("a,\n", "has no name"),
            ("a,b\n1\n", "1 fields"),
            ("a\n\"x", "not closed"),
            ("a\n\"x\"y\n", "after a closing quote"),
        ] {
            let problems = parse(text).unwrap_err();
            assert!(problems[0].message.contains(says), "{text:?}: {}", problems[0]);
        }
    }
}
