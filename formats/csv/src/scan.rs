//! One pass over a table: its columns and their types, the number of rows, and the offsets of some of them.

use crate::column_type::{ColumnType, TypeInference};
use crate::options::{Delimiter, Header, Settings};
use crate::row_reader::{RowReader, text};
use csv::ByteRecord;
use packhorse_core::{
    Error, Input, KEY, Limits, Options, Result, RowStart, RowStarts, Schema, SchemaRef, counted, some_of,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The metadata of a table.
#[derive(Debug)]
pub(crate) struct TableScan {
    /// Position in the line and type of each column, in the order of the schema.
    pub(crate) columns: Vec<(usize, ColumnType)>,
    pub(crate) schema: SchemaRef,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    /// Fields in each line.
    pub(crate) width: usize,
    pub(crate) starts: RowStarts,
}

impl TableScan {
    /// Reads the whole of `input`.
    pub(crate) fn new(input: &dyn Input, settings: &Settings, limits: Limits) -> Result<Self> {
        let dialect = settings.dialect(input.name());
        let usual = dialect.delimiter.clone();
        if settings.decimal_comma && usual == Delimiter::Byte(b',') {
            return Err(Options::refuse(
                "decimal",
                "needs another delimiter than the comma, such as `read=delimiter=;`",
            ));
        }
        let mut records = RowReader::open(input, RowStart::START, dialect, limits)?;
        if records.next()?.is_none() {
            return Err(Error::content("is empty: the first line names the columns"));
        }
        excel_line(records.record())?;
        if let (1, false) = (records.record().len(), settings.has_delimiter()) {
            one_column(&String::from_utf8_lossy(records.record().as_slice()), &usual)?;
        }
        let names = match settings.header {
            Header::None => (1..=records.record().len()).map(numbered).collect(),
            Header::Comment => {
                let comment = records.comment()?.ok_or_else(|| {
                    records.fault("is the first row, without a comment before it that names the columns").hint(NO_NAMES)
                })?;
                names(&records, &comment, Header::Comment)?
            }
            header => {
                let names = names(&records, records.record(), header)?;
                records.begin_rows();
                names
            }
        };
        let mut fits = vec![TypeInference::NEW; names.len()];
        let mut starts = RowStarts::default();
        let mut rows = 0;
        while !settings.header.is_line() && rows == 0 || records.next()?.is_some() {
            if let ([name], 0, false) = (&names[..], rows, settings.has_delimiter()) {
                one_value(&records, name, &usual)?;
            }
            let place = RowStart { row: rows, ..records.place() };
            check(&mut records, &names, &mut fits, settings)?;
            starts.add(place);
            rows += 1;
        }
        let bytes = records.bytes();
        let (columns, schema) = columns(&names, &fits, settings)?;
        Ok(Self { columns, schema, rows, bytes, width: names.len(), starts })
    }
}

/// Refuses the line in which Excel names the delimiter.
fn excel_line(record: &ByteRecord) -> Result<()> {
    let line = String::from_utf8_lossy(record.as_slice()).into_owned();
    let delimiter = line.strip_prefix("sep=").filter(|_| record.len() <= 2 && line.len() <= 5);
    let Some(delimiter) = delimiter else { return Ok(()) };
    let way = match delimiter {
        "" | "," => String::new(),
        other => format!(", and pass `from=csv` and `read=delimiter={other}`"),
    };
    let error = Error::content("line 1: is the one in which Excel names the delimiter, and not a line of the table");
    Err(error.hint(format!("delete it{way}")))
}

/// Refuses a single column whose name looks like those of several.
fn one_column(name: &str, delimiter: &Delimiter) -> Result<()> {
    // Text files of numbers, such as NumPy's.
    let words: Vec<&str> = name.split_whitespace().collect();
    if words.len() > 1 && words.iter().all(|word| is_number(word)) && !name.contains('\t') {
        let message = format!("line 1: is one column, {name:?}, which looks like numbers with spaces between them");
        return Err(Error::content(message).hint(SPACES).hint("without a line of names, also `read=header=none`"));
    }
    let own = delimiter.name();
    let others = [",", ";", "\t", "|", "::"].into_iter().filter(|other| name.contains(other));
    match others.map(|other| if other == "\t" { "tab" } else { other }).find(|other| *other != own) {
        None => Ok(()),
        Some(other) => {
            let message = format!("line 1: is one column, {name:?}, where {own} divides columns");
            let hint = format!(
                "if {other} divides them, pass `from=csv` and `read=delimiter={other}`; if it is one column, `read=delimiter={own}`"
            );
            Err(Error::content(message).hint(hint))
        }
    }
}

/// The way out for columns with spaces between them.
const SPACES: &str = "if spaces divide columns, pass `from=csv` and `read=delimiter=spaces`";
/// The way out where the first lines are comments.
const COMMENTS: &str = "if such lines are comments, pass `from=csv` and `read=comment=#`; `read=header=comment` says that the last one \
                        names the columns";
const NO_NAMES: &str = "`read=header=none` names columns by their positions";

/// Refuses a single column whose values look like several numbers, as many as its name has words.
fn one_value(records: &RowReader<'_>, name: &str, delimiter: &Delimiter) -> Result<()> {
    let value = String::from_utf8_lossy(records.record().as_slice());
    let words: Vec<&str> = value.split_whitespace().collect();
    if words.len() < 2 || words.len() != name.split_whitespace().count() || !words.iter().all(|word| is_number(word)) {
        return Ok(());
    }
    let fault = records.fault(&format!("is one column, {name:?}, with the value {value:?}, which looks like several"));
    Err(fault.hint(SPACES).hint(format!("if it is one column, `from=csv` and `read=delimiter={}`", delimiter.name())))
}

/// The name of a column that has none.
fn numbered(position: usize) -> String {
    format!("column{position}")
}

const NO_HEADER: &str = "if the first line is a row, pass `from=csv` and `read=header=none`";

/// The names of the columns in `record`, that of the line read last or of a comment before it.
fn names(records: &RowReader<'_>, record: &ByteRecord, header: Header) -> Result<Vec<String>> {
    let mut seen = BTreeMap::new();
    let (mut names, mut given) = (Vec::new(), Vec::new());
    for (i, bytes) in record.iter().enumerate() {
        let name = text(bytes).map_err(|e| records.about(e.subject(format_args!("the name of column {}", i + 1))))?;
        given.push(name);
        // Some writers leave the column of row numbers unnamed.
        let name = if name.is_empty() { numbered(i + 1) } else { name.to_owned() };
        if let Some(other) = seen.insert(name.clone(), i) {
            let what = format!("columns {} and {} are both called {name}; rename one", other + 1, i + 1);
            let fault = records.fault(&what);
            return Err(if number(&name).is_some() { fault.hint(NO_HEADER) } else { fault });
        }
        names.push(name);
    }
    if header == Header::Likely && given.first().is_some_and(|name| name.starts_with("# ")) {
        let fault = records.fault("names the columns, and begins as a comment does");
        return Err(fault.hint(COMMENTS).hint("if it names them, `from=csv` and `read=header=first`"));
    }
    if header == Header::Likely && looks_like_a_row(&given) {
        let what = format!("names the columns, and {} look like values", some_of(&given));
        return Err(records
            .fault(&what)
            .hint(NO_HEADER)
            .hint("if these are names, `from=csv` and `read=header=first`"));
    }
    Ok(names)
}

fn number(name: &str) -> Option<f64> {
    name.trim().parse().ok().filter(|number: &f64| number.is_finite())
}

/// Whether a word is how some program writes a number or the lack of one: `1.5`, `nan`, `0x1F`, `1.0D+02`.
fn is_number(word: &str) -> bool {
    let word = word.trim();
    let has_point = word.contains(['.', '+', '-']);
    let word = if has_point { word.replace(['d', 'D'], "e") } else { word.to_owned() };
    let hexadecimal = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
    hexadecimal.is_some_and(|digits| u128::from_str_radix(digits, 16).is_ok()) || word.parse::<f64>().is_ok()
}

/// Whether all names that are there are numbers, but not positions or years, which follow each other. Missing values have no name.
fn looks_like_a_row(names: &[&str]) -> bool {
    let there: Vec<&str> = names.iter().copied().filter(|name| !name.is_empty()).collect();
    let position = |name: &&str| name.trim().parse::<u64>().ok().filter(|number| number.to_string() == name.trim());
    let positions: Option<Vec<u64>> = there.iter().map(position).collect();
    let follow = |all: &[u64]| match all {
        [one] => *one == 0,
        // So does an edge of many graphs; two years are names.
        [first, _] if *first < 1000 => false,
        several => several.windows(2).all(|pair| matches!(pair, [a, b] if a.checked_add(1) == Some(*b))),
    };
    // pandas leaves the column of its index without a name.
    let has_index = names.first().is_some_and(|name| name.is_empty()) && there == ["0", "1"];
    !there.is_empty()
        && there.iter().all(|name| is_number(name))
        && !has_index
        && !positions.is_some_and(|all| follow(&all))
}

/// Checks the last line and adds its values to the inference.
fn check(records: &mut RowReader<'_>, names: &[String], fits: &mut [TypeInference], settings: &Settings) -> Result<()> {
    let record = records.record();
    if record.len() != names.len() {
        let first = if settings.header == Header::Comment { "the comment before the rows" } else { "the first line" };
        let fields = counted(record.len() as u64, "field");
        let what = format!("has {fields}, but {first} has {}", names.len());
        let fault = records.fault(&what);
        let is_first = records.place().row == 0;
        // As R's write.table does.
        let is_of_r = settings.header.is_line() && is_first && record.len() == names.len() + 1;
        return Err(if is_of_r {
            fault.hint(
                "the column of row names may lack a name: write it in the first line, as R does with `col.names = NA`",
            )
        } else {
            fault
        });
    }
    for ((value, fits), name) in record.iter().zip(fits.iter_mut()).zip(names) {
        if std::str::from_utf8(value).is_err() {
            let fault = records.fault(&format!("the value of {name} is not UTF-8"));
            return Err(fault.hint("convert the file, for example with iconv -f latin1 -t utf-8 FILE"));
        }
        fits.add(if name == KEY { value } else { settings.given(value) }, settings.decimal_comma);
    }
    Ok(())
}

fn columns(
    names: &[String],
    fits: &[TypeInference],
    settings: &Settings,
) -> Result<(Vec<(usize, ColumnType)>, SchemaRef)> {
    // A column whose values may be missing may be missing itself.
    let mut needed = settings.kinds.iter().filter(|(_, (_, nullable))| !nullable).map(|(name, _)| name);
    if let Some(unknown) = needed.find(|name| !names.contains(name)) {
        return Err(Error::config(format!(
            "`schema` names the unknown column {unknown}; columns are: {}",
            names.join(", ")
        )));
    }
    let mut columns = Vec::new();
    for (place, (name, fits)) in names.iter().zip(fits).enumerate() {
        let is_key = name == KEY;
        if is_key && fits.missing {
            return Err(Error::content(format!("a row has no {KEY}; fill it in, or rename the column")));
        }
        let given = settings.kinds.get(name).filter(|_| !is_key).copied();
        let inferred = if is_key { ColumnType::Text } else { fits.kind() };
        let (kind, nullable) = given.unwrap_or((inferred, false));
        columns.push((!is_key, name, place, kind, fits.missing || nullable));
    }
    columns.sort();
    let fields = columns.iter().map(|(_, name, _, kind, missing)| kind.field_type().field(name, *missing));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    Ok((columns.iter().map(|(_, _, place, kind, _)| (*place, *kind)).collect(), schema))
}
