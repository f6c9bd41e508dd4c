//! Reads tables in which each line is a record and quotes are text: lists of files and labels, transcripts.

use super::ColumnRequest;
use super::lines::Lines;
use super::record_reader::{RecordReader, names, no_header};
use super::table_options::Delimiter;
use packhorse_core::{Error, Result, counted};
use std::io::Read;
use std::ops::Range;

/// The records of a file, one at a time.
pub(super) struct PlainRecords<'a> {
    lines: Lines<Box<dyn Read + Send + 'a>>,
    delimiter: Delimiter,
    /// The number of columns, if the last one takes the rest of the line.
    columns: usize,
    /// Where the fields of the current line are.
    fields: Vec<Range<usize>>,
    /// The number of columns, once the first record is read.
    width: usize,
    has_header: bool,
    /// Whether the current record, the first one, is still to be given.
    again: bool,
}

impl<'a> PlainRecords<'a> {
    /// From the start of the file.
    pub(super) fn open(
        bytes: Box<dyn Read + Send + 'a>,
        delimiter: Delimiter,
        request: &ColumnRequest<'_>,
    ) -> Result<Self> {
        let options = request.options;
        let mut lines = Lines::new(bytes, request.limits.header);
        for _ in 0..options.skip {
            lines.next()?;
        }
        let (columns, has_header) = (options.columns.unwrap_or(usize::MAX), !options.no_header);
        Ok(Self { lines, delimiter, columns, fields: Vec::new(), width: 0, has_header, again: false })
    }

    /// Advances to the next line that is not blank.
    fn advance(&mut self) -> Result<bool> {
        while self.lines.next()? {
            if !self.lines.line().trim_ascii().is_empty() {
                split(self.lines.line(), &self.delimiter, self.columns, &mut self.fields);
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl RecordReader for PlainRecords<'_> {
    fn header(&mut self) -> Result<Vec<String>> {
        if !self.advance()? {
            return Err(no_header(self.has_header));
        }
        self.width = self.fields.len();
        self.again = !self.has_header;
        names(self, self.width, self.has_header)
    }

    fn next(&mut self) -> Result<bool> {
        if std::mem::take(&mut self.again) {
            return Ok(true);
        }
        let more = self.advance()?;
        match (self.fields.len(), self.width) {
            (found, wanted) if more && found != wanted => {
                let message = format!("has {}, and the first line has {wanted}", counted(found as u64, "field"));
                let error = self.at(Error::content(message));
                let rest = "`metadata-read=columns=N` gives the rest of a line to the last of N columns";
                Err(if found > wanted { error.hint(rest) } else { error })
            }
            _ => Ok(more),
        }
    }

    fn line(&self) -> u64 {
        self.lines.number()
    }

    fn field(&self, column: usize) -> &[u8] {
        self.fields.get(column).and_then(|field| self.lines.line().get(field.clone())).unwrap_or_default()
    }
}

/// The fields of a line, at most `columns`.
fn split(line: &[u8], delimiter: &Delimiter, columns: usize, fields: &mut Vec<Range<usize>>) {
    fields.clear();
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
    let spaces = |from: usize| line.iter().skip(from).take_while(|byte| is_space(byte)).count();
    let (mut from, end) = match delimiter {
        Delimiter::Spaces => (spaces(0), line.len() - line.iter().rev().take_while(|byte| is_space(byte)).count()),
        Delimiter::Text(_) => (0, line.len()),
    };
    loop {
        let rest = line.get(from..end).unwrap_or_default();
        let found = match delimiter {
            _ if fields.len() + 1 >= columns => None,
            Delimiter::Spaces => rest.iter().position(is_space).map(|at| (at, spaces(from + at))),
            Delimiter::Text(text) => {
                rest.windows(text.len().max(1)).position(|part| part == text.as_bytes()).map(|at| (at, text.len()))
            }
        };
        match found {
            Some((at, len)) => {
                fields.push(from..from + at);
                from += at + len;
            }
            None => {
                fields.push(from..end);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_split() {
        let fields = |line: &str, delimiter: &Delimiter, columns: usize| {
            let mut fields = Vec::new();
            split(line.as_bytes(), delimiter, columns, &mut fields);
            fields.into_iter().map(|field| line[field].to_owned()).collect::<Vec<_>>()
        };
        let text = |text: &str| Delimiter::Text(text.to_owned());
        let all = usize::MAX;
        assert_eq!(fields("a  b\t c ", &Delimiter::Spaces, all), ["a", "b", "c"]);
        assert_eq!(fields(" a b  c d ", &Delimiter::Spaces, 2), ["a", "b  c d"]);
        assert_eq!(fields("a", &Delimiter::Spaces, all), ["a"]);
        assert_eq!(fields("1::2::x y", &text("::"), all), ["1", "2", "x y"]);
        assert_eq!(fields("a|\"b|c\"|", &text("|"), all), ["a", "\"b", "c\"", ""]);
        assert_eq!(fields("a b c", &text(" "), 2), ["a", "b c"]);
        assert_eq!(fields("a", &text(","), 1), ["a"]);
    }

    #[test]
    fn any_line_is_split() {
        let line = "\t a\u{e9} ::b\t\t c: \u{0}";
        for delimiter in [Delimiter::Spaces, Delimiter::Text("::".to_owned()), Delimiter::Text("\t".to_owned())] {
            for (end, columns) in (0..=line.len()).flat_map(|end| [(end, 1), (end, 2), (end, usize::MAX)]) {
                let mut fields = Vec::new();
                split(&line.as_bytes()[..end], &delimiter, columns, &mut fields);
                assert!((1..=columns).contains(&fields.len()) && fields.iter().all(|field| field.end <= end));
            }
        }
    }
}
