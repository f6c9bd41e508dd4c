//! CSV and TSV tables.
//!
//! * What it is: one record a line, fields separated by a comma (`.csv`) or a tab (`.tsv`), the first record names
//!   the columns. Specification: RFC 4180. Fields in double quotes may hold the delimiter, line ends and doubled
//!   quotes. Lines end in LF, CR LF or CR; blank ones are skipped; a byte order mark is skipped; the text is UTF-8.
//! * Types go by column, over the whole file: if every value that isn't empty is a number as JSON writes it, they are
//!   copied verbatim (`1.50` stays so, `007` and `1,5` make the column text, as does a number too large for a double);
//!   if every one is `true` or `false`, also `True` or `TRUE`, they are booleans; otherwise strings. An empty field is null,
//!   as is `NaN` or `nan` among numbers, which JSON lacks.
//! * [`TableOptions`](super::TableOptions) names the differences of a file: no first line of names, other delimiters, quotes that
//!   are text.
//! * So that memory stays bounded by the result, the file is read twice: once for the types, once for the rows.

use super::record_reader::{RecordReader, open};
use super::{ColumnRequest, Metadata, TableOptions, member_name};
use packhorse_core::{Error, Input, Kind, Result};

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Number,
    Boolean,
    Text,
}

/// A column to keep: where it stands, the start of its member's JSON text, its type.
struct Column {
    place: usize,
    prefix: String,
    kind: Type,
}

/// Reads a file whose fields are separated by `delimiter`.
pub(super) fn read(input: &dyn Input, delimiter: &str, request: &ColumnRequest<'_>) -> Result<Metadata> {
    let mut records = open(input, delimiter, request)?;
    let names = records.header()?;
    let choice = request.choose(&names)?;
    let types = types(&mut *records, &choice.columns, request.options)?;
    let columns = choice.columns.iter().zip(types).map(|(&place, kind)| {
        let name = names.get(place).map_or("", String::as_str);
        Ok(Column { place, prefix: member_name(name)?, kind })
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let mut records = open(input, delimiter, request)?;
    if records.header()? != names {
        return Err(changed());
    }
    rows(&mut *records, choice.key, &columns, request)
}

/// The types of the columns at `places`.
fn types(records: &mut dyn RecordReader, places: &[usize], options: &TableOptions) -> Result<Vec<Type>> {
    let mut open = vec![(true, true); places.len()];
    while records.next()? {
        for (place, (number, boolean)) in places.iter().zip(&mut open) {
            let field = records.field(*place);
            let is_null = options.is_null(field);
            *number = *number && (is_null || is_number(field) || is_nan(field));
            *boolean = *boolean && (is_null || is_boolean(field));
        }
    }
    let kind = |(number, boolean)| match (number, boolean) {
        (true, _) => Type::Number,
        (_, true) => Type::Boolean,
        _ => Type::Text,
    };
    Ok(open.into_iter().map(kind).collect())
}

/// All rows.
fn rows(
    records: &mut dyn RecordReader,
    key: usize,
    columns: &[Column],
    request: &ColumnRequest<'_>,
) -> Result<Metadata> {
    let mut rows = Metadata::empty("line", request);
    let mut json = Vec::new();
    while records.next()? {
        json.clear();
        for column in columns {
            json.push(if json.is_empty() { b'{' } else { b',' });
            json.extend_from_slice(column.prefix.as_bytes());
            match request.options.is_null(records.field(column.place)) {
                true => json.extend_from_slice(b"null"),
                false => write(records.text(column.place)?, column.kind, &mut json)?,
            }
        }
        json.push(b'}');
        request.limits.header(json.len() as u64).map_err(|e| records.at(e))?;
        let json = std::str::from_utf8(&json).map_err(|e| Error::bug("made JSON that isn't UTF-8").caused_by(e))?;
        rows.insert(records.text(key)?, json, records.line())?;
    }
    Ok(rows)
}

/// Appends a field as JSON.
fn write(field: &str, kind: Type, json: &mut Vec<u8>) -> Result<()> {
    match kind {
        Type::Number if is_nan(field.as_bytes()) => json.extend_from_slice(b"null"),
        Type::Number if is_number(field.as_bytes()) => json.extend_from_slice(field.as_bytes()),
        Type::Boolean if is_boolean(field.as_bytes()) => json.extend(field.bytes().map(|b| b.to_ascii_lowercase())),
        Type::Text => serde_json::to_writer(json, field).map_err(|e| Error::bug("writing JSON failed").caused_by(e))?,
        Type::Number | Type::Boolean => return Err(changed()),
    }
    Ok(())
}

fn changed() -> Error {
    Error::new(Kind::Changed, "changed while it was read; run the command again when it is complete")
}

fn is_boolean(field: &[u8]) -> bool {
    matches!(field, b"true" | b"false" | b"True" | b"False" | b"TRUE" | b"FALSE")
}

/// Whether it is how programs write that there is no number.
fn is_nan(field: &[u8]) -> bool {
    matches!(field, b"NaN" | b"nan" | b"NAN")
}

/// Whether `field` is a number by the grammar of RFC 8259 §6 which a double can hold without becoming infinite.
fn is_number(field: &[u8]) -> bool {
    let digits = |text: &[u8]| text.iter().take_while(|b| b.is_ascii_digit()).count();
    let rest = field.strip_prefix(b"-").unwrap_or(field);
    let whole = digits(rest);
    if whole == 0 || (whole > 1 && rest.starts_with(b"0")) {
        return false;
    }
    let mut rest = rest.get(whole..).unwrap_or_default();
    if let Some(fraction) = rest.strip_prefix(b".") {
        let places = digits(fraction);
        if places == 0 {
            return false;
        }
        rest = fraction.get(places..).unwrap_or_default();
    }
    if rest.is_empty() && whole < 300 {
        return true;
    }
    if let Some(exponent) = rest.strip_prefix(b"e").or(rest.strip_prefix(b"E")) {
        let exponent = exponent.strip_prefix(b"-").or(exponent.strip_prefix(b"+")).unwrap_or(exponent);
        if exponent.is_empty() || digits(exponent) < exponent.len() {
            return false;
        }
    } else if !rest.is_empty() {
        return false;
    }
    std::str::from_utf8(field).is_ok_and(|text| text.parse::<f64>().is_ok_and(f64::is_finite))
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::Limits;
    use packhorse_core::MemoryInput;
    use proptest::prelude::*;
    use serde_json::{Map, Number, Value};

    fn file(text: &[u8]) -> MemoryInput {
        MemoryInput::new("a.csv", text.to_vec())
    }

    fn table(text: &[u8], columns: Option<&[&str]>) -> Result<Metadata> {
        let columns: Option<Vec<String>> = columns.map(|list| list.iter().map(|name| (*name).to_owned()).collect());
        read(&file(text), ",", &ColumnRequest::new("id", columns.as_deref(), Limits::default()).unwrap())
    }

    fn fault(text: &[u8]) -> String {
        let error = table(text, None).unwrap_err();
        assert_eq!(error.kind(), Kind::Content, "{error}");
        error.message().to_owned()
    }

    #[test]
    fn types_go_by_column_and_numbers_stay_verbatim() {
        let text =
            b"id,n,s,b,e,t,f\n0001,1.50,007,true,,1,-0\n0002,-2E+3,1,false,,x,18446744073709551616\n0003,,,,,,\n";
        let rows = table(text, None).unwrap();
        let first = r#"{"id":"0001","n":1.50,"s":"007","b":true,"e":null,"t":"1","f":-0}"#;
        assert_eq!(rows.get("0001"), Some(first));
        let second = r#"{"id":"0002","n":-2E+3,"s":"1","b":false,"e":null,"t":"x","f":18446744073709551616}"#;
        assert_eq!(rows.get("0002"), Some(second));
        let third = r#"{"id":"0003","n":null,"s":null,"b":null,"e":null,"t":null,"f":null}"#;
        assert_eq!((rows.get("0003"), rows.len()), (Some(third), 3));
    }

    #[test]
    fn chosen_columns_come_in_the_order_of_the_choice() {
        let rows = table(b"id,a,a,b\nx,1,2,3\n", Some(&["b", "id"])).unwrap();
        assert_eq!(rows.get("x"), Some(r#"{"b":3,"id":"x"}"#));
        assert!(fault(b"id,a,a\nx,1,2\n").contains("the column \"a\" twice"));
    }

    /// A table with these settings of `metadata-read`.
    fn given(text: &str, key: &str, settings: &[&str]) -> Result<Metadata> {
        let settings: Vec<String> = settings.iter().map(|text| (*text).to_owned()).collect();
        let options = TableOptions::parse(&settings)?;
        let request = ColumnRequest::new(key, None, Limits::default()).unwrap();
        read(&file(text.as_bytes()), ",", &ColumnRequest { options: &options, ..request })
    }

    #[test]
    fn lists_and_other_dialects() {
        let list = given("a.jpg 65\nb.jpg  970\n", "column1", &["delimiter=spaces", "header=none"]).unwrap();
        assert_eq!(list.get("b"), Some(r#"{"column1":"b.jpg","column2":970}"#));
        let spoken = given("1-2 GO \"THERE NOW\n\n1-3 STOP\n", "column1", &["delimiter= ", "header=none", "columns=2"]);
        let spoken = spoken.unwrap();
        assert_eq!(spoken.get("1-2"), Some(r#"{"column1":"1-2","column2":"GO \"THERE NOW"}"#));
        assert_eq!(spoken.get("1-3"), Some(r#"{"column1":"1-3","column2":"STOP"}"#));
        for (read, key) in
            [(&["delimiter= "][..], "id"), (&["delimiter= ", "header=none"], "column1"), (&["delimiter=e"], "id")]
        {
            let words =
                given("id x\na 1\n\"b c\" 2\n".replace(' ', read[0].split_at(10).1).as_str(), key, read).unwrap();
            assert_eq!(words.get("a").map(|row| row.contains('1')), Some(true), "{read:?}");
        }
        let quoted = given("# of 2\nid;x\na;\"1;\n2\"\nb;NA\n", "id", &["delimiter=;", "skip=1", "null=NA"]).unwrap();
        assert_eq!(quoted.get("a"), Some(r#"{"id":"a","x":"1;\n2"}"#));
        assert_eq!(quoted.get("b"), Some(r#"{"id":"b","x":null}"#));
        let plain = given("id|x\na|\"b\n", "id", &["delimiter=|", "quote=none"]).unwrap();
        assert_eq!(plain.get("a"), Some(r#"{"id":"a","x":"\"b"}"#));
        let first = given("a,1\nb,2\n", "column1", &["header=none"]).unwrap();
        assert_eq!((first.get("a"), first.len()), (Some(r#"{"column1":"a","column2":1}"#), 2));
        for (text, settings, message) in [
            ("a b\nc\n", &["delimiter=spaces"][..], "line 2: has 1 field, and the first line has 2"),
            ("x\n\nid;x\na;1;2\n", &["delimiter=;", "skip=2"][..], "line 4: has 3 fields"),
            ("a,1\n\"b,2\n", &["header=none"][..], "`metadata-read=quote=none`"),
            ("", &["header=none", "delimiter=spaces"][..], "is empty"),
        ] {
            let key = if settings.contains(&"header=none") {
                "column1"
            } else {
                text.split([' ', ';', '\n']).next().unwrap()
            };
            let key = if settings.contains(&"skip=2") { "id" } else { key };
            let error = given(text, key, settings).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    /// AudioSet's lists have a space behind each comma.
    #[test]
    fn quotes_behind_spaces_are_told() {
        let text = "id, start, labels\na, 0.5, \"/m/1,/m/2\"\n";
        let error = given(text, "id", &[]).unwrap_err().to_string();
        assert!(error.contains("line 2: has 4 fields") && error.contains("`metadata-read=delimiter=, `"), "{error}");
        let rows = given(text, "id", &["delimiter=, "]).unwrap();
        assert_eq!(rows.get("a"), Some(r#"{"id":"a","start":0.5,"labels":"\"/m/1,/m/2\""}"#));
        let other = given("id,x\na,1,\"2\"\n", "id", &[]).unwrap_err().to_string();
        assert!(!other.contains("delimiter=, "), "{other}");
    }

    #[test]
    fn nan_among_numbers_is_null() {
        let rows = given("id,x,y,z\na,1.50,NaN,NaN\nb,nan,b,\n", "id", &[]).unwrap();
        assert_eq!(rows.get("a"), Some(r#"{"id":"a","x":1.50,"y":"NaN","z":null}"#));
        assert_eq!(rows.get("b"), Some(r#"{"id":"b","x":null,"y":"b","z":null}"#));
    }

    #[test]
    fn quotes_hold_delimiters_lines_and_quotes() {
        let rows = table(b"\xef\xbb\xbfid,\"a\"\"b\"\r\nx,\"1,\r\n\"\"2\"\"\"\r\n\r\ny,\"\"", None).unwrap();
        assert_eq!(rows.get("x"), Some(r#"{"id":"x","a\"b":"1,\r\n\"2\""}"#));
        assert_eq!(rows.get("y"), Some(r#"{"id":"y","a\"b":null}"#));
        let tabs = read(&file(b"id\ta\nx\t1,5\n"), "\t", &ColumnRequest::new("id", None, Limits::default()).unwrap());
        assert_eq!(tabs.unwrap().get("x"), Some(r#"{"id":"x","a":"1,5"}"#));
    }

    #[test]
    fn a_table_may_have_one_column_and_no_rows() {
        assert_eq!(table(b"id\nb\na", None).unwrap().get("a"), Some(r#"{"id":"a"}"#));
        for text in [&b"id\n"[..], b"id", b"id\r\n\r\n"] {
            assert_eq!(table(text, None).unwrap().len(), 0);
        }
    }

    #[test]
    fn a_bad_row_is_named_by_its_line() {
        for end in ["\n", "\r\n"] {
            for (row, message) in [
                ("x", "line 5: has 1 field, but the header has 2"),
                ("x,y,z", "line 5: has 3 fields"),
                ("\"x\",\"y", "line 5: a quote that opens here is never closed"),
                ("\"x", "line 5: a quote that opens here is never closed"),
                (",y", "line 5: the key \"\" names no sample"),
                ("b.jpg,y", "lines 2 and 5 have the same key \"b\""),
            ] {
                let text = ["id,c", "b,\"1", "2\"", "a,", row, "z,1", "zz,2", ""].join(end);
                assert!(fault(text.as_bytes()).starts_with(message), "{}", fault(text.as_bytes()));
            }
        }
        assert!(fault(b"id,c\nx,1\ny,\xff\n").starts_with("line 3: field 2 isn't UTF-8"));
        assert!(fault(b"id,\xff\n").starts_with("line 1: field 2 isn't UTF-8"));
        assert!(fault(b"").contains("no header line"));
    }

    #[test]
    fn a_row_over_the_limit_is_not_read_to_its_end() {
        let request = ColumnRequest::new("id", None, Limits { header: 1 << 20, ..Limits::default() }).unwrap();
        let text = [b"id,c\nx,\"".as_slice(), &b"y\n".repeat(3 << 19), b"\"\n"].concat();
        let error = read(&file(&text), ",", &request).unwrap_err();
        assert_eq!(error.kind(), Kind::Limit);
        assert!(error.message().contains("line 2: "), "{error}");
        let quotes = [b"id,c\nx,\"".as_slice(), &b"\x01".repeat(1 << 18), b"\"\n"].concat();
        assert_eq!(read(&file(&quotes), ",", &request).unwrap_err().kind(), Kind::Limit);
    }

    #[test]
    fn truncated_files_do_not_panic() {
        let text = b"id,c,\"d\ne\"\r\nx,\"1,\r\n\"\"2\"\"\",3\r\n\r\ny,\"\",4\n\xff,\"\xfe\",\x00\n";
        for end in 0..=text.len() {
            let _ = table(&text[..end], None);
            let _ = table(&text[end..], None);
        }
    }

    #[test]
    fn numbers_follow_the_grammar_of_json() {
        for yes in ["0", "-0", "10", "1.5", "1e5", "1E+05", "-1.0e-999", &"9".repeat(308)] {
            assert!(is_number(yes.as_bytes()), "{yes}");
        }
        for no in ["", "-", "01", "+1", ".5", "5.", "1e", "1e+", "1e999", "0x1", "1 ", "NaN", "1.5.2", &"9".repeat(310)]
        {
            assert!(!is_number(no.as_bytes()), "{no}");
        }
    }

    /// The type rules, reimplemented with serde_json.
    fn oracle(column: &[String]) -> Vec<Value> {
        let number = |v: &str| v.trim() == v && serde_json::from_str::<Number>(v).is_ok();
        let full = || column.iter().filter(|v| !v.is_empty());
        let literal = full().all(|v| number(v)) || full().all(|v| is_boolean(v.as_bytes()));
        let value = |v: &String| match v.is_empty() {
            true => Value::Null,
            false if literal => serde_json::from_str(v).unwrap(),
            false => Value::String(v.clone()),
        };
        column.iter().map(value).collect()
    }

    fn column() -> impl Strategy<Value = Vec<String>> {
        let cell = prop_oneof![
            Just("-?(0|[1-9][0-9]{0,22})(\\.[0-9]{1,3})?([eE][+-]?[0-9]{1,3})?|"),
            Just("[0-9+.eE-]{0,4}"),
            Just("true|false|"),
            Just("[a-c\",\r\n\t\\\\ \u{0}\u{e9}\u{1f600}]{0,6}"),
            Just("\\PC{0,5}"),
        ];
        cell.prop_flat_map(|cell| proptest::collection::vec(cell, 5))
    }

    proptest! {
        #[test]
        fn rows_equal_what_serde_json_makes_of_the_fields(columns in proptest::collection::vec(column(), 1..6)) {
            let mut writer = ::csv::Writer::from_writer(Vec::new());
            let names: Vec<String> = (0..columns.len()).map(|i| format!("c\"{i}")).collect();
            writer.write_record(std::iter::once("id").chain(names.iter().map(String::as_str))).unwrap();
            for row in 0..5 {
                let id = format!("k{row}");
                writer.write_record(std::iter::once(&id).chain(columns.iter().map(|c| &c[row]))).unwrap();
            }
            let rows = table(&writer.into_inner().unwrap(), None).unwrap();
            let expected: Vec<_> = columns.iter().map(|c| oracle(c)).collect();
            for row in 0..5 {
                let mut object = Map::from_iter([("id".to_owned(), Value::String(format!("k{row}")))]);
                object.extend(names.iter().cloned().zip(expected.iter().map(|c| c[row].clone())));
                let json: Value = serde_json::from_str(rows.get(&format!("k{row}")).unwrap()).unwrap();
                prop_assert_eq!(json, Value::Object(object));
            }
        }
    }
}
