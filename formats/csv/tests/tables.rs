//! Types and values of tables, and errors.
#![expect(clippy::unwrap_used, reason = "an error fails the test")]

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use packhorse_core::{Error, Format, Input, Kind, Limits, MemoryInput, Result, Rows, Source};
use packhorse_csv::Csv;
use packhorse_testkit::memory::StreamInput;
use packhorse_testkit::{conformance, typed};
use proptest::prelude::*;
use std::sync::Arc;

fn source(pairs: &[(&str, &str)]) -> Box<dyn Source> {
    Csv::default().source(&pairs.iter().copied().collect(), Limits::default()).unwrap()
}

fn read_as(name: &str, pairs: &[(&str, &str)], text: &[u8]) -> Result<Vec<Rows>> {
    let input = MemoryInput::new(name, text.to_vec());
    let source = source(pairs);
    let info = source.open(Arc::new(&input))?.info()?;
    let blocks = source.open(Arc::new(&input))?.rows(0..info.items)?.collect::<Result<Vec<_>>>()?;
    assert_eq!(blocks.iter().map(RecordBatch::num_rows).sum::<usize>() as u64, info.items);
    Ok(blocks)
}

fn refused(text: &[u8]) -> Error {
    read_as("a.csv", &[], text).unwrap_err()
}

fn fields(rows: &Rows) -> Vec<String> {
    rows.schema().fields().iter().map(|f| format!("{}:{}:{}", f.name(), f.data_type(), f.is_nullable())).collect()
}

#[test]
fn columns_get_types_and_quoted_values_keep_lines_and_delimiters() {
    let text =
        b"\xef\xbb\xbfid,x,\"a, b\",ok,zip\r\n1,1.5,\"two\nlines\",true,007\r\n\r\n2,,\"say \"\"hi\"\"\",false,010\n";
    let rows = read_as("a.csv", &[], text).unwrap().remove(0);
    let wanted = ["a, b:Utf8View:false", "id:Int64:false", "ok:Boolean:false", "x:Float64:true", "zip:Utf8View:false"];
    assert_eq!(fields(&rows), wanted);
    assert_eq!(rows.column(0).as_string_view().iter().flatten().collect::<Vec<_>>(), ["two\nlines", "say \"hi\""]);
    assert_eq!(rows.column(1).as_primitive::<Int64Type>().values(), &[1, 2]);
    assert_eq!(rows.column(3).as_primitive::<Float64Type>().iter().collect::<Vec<_>>(), [Some(1.5), None]);
    let tabs = read_as("x/A.TSV", &[], b"a\tb\n1,5\t2\n").unwrap().remove(0);
    assert_eq!(fields(&tabs), ["a:Utf8View:false", "b:Int64:false"]);
    let plain = read_as("a.tsv", &[("quote", "none")], b"a\tb\n\"x\t1\n\"y\"z\t2\n").unwrap().remove(0);
    assert_eq!(plain.column(0).as_string_view().iter().flatten().collect::<Vec<_>>(), ["\"x", "\"y\"z"]);
    let semicolons = read_as("a.csv", &[("delimiter", ";")], b"a;b\n1;2\n").unwrap().remove(0);
    assert_eq!(fields(&semicolons), ["a:Int64:false", "b:Int64:false"]);
}

/// As Campbell's loggers write them (TOA5), and spreadsheets where a comma stands before fractions.
#[test]
fn lines_around_the_names_are_left_out() {
    let text = b"\xef\xbb\xbf\"TOA5\",\"s1\",\"C\"\r\n\"TIME\",\"T\",\"N\"\r\n\"TS\",\"degC\",\"\"\r\n\"\",\"Avg\",\"Tot\"\r\n\"a\",1.5,1\r\n\"b\",,2\r\n";
    let options = [("skip", "1"), ("units", "2")];
    let wanted = ["N:Int64:false", "T:Float64:true", "TIME:Utf8View:false"];
    for text in [text.to_vec(), text.iter().copied().filter(|byte| *byte != b'\r').collect()] {
        let rows = read_as("a.dat", &options, &text).unwrap().remove(0);
        assert_eq!(fields(&rows), wanted);
        assert_eq!(rows.column(0).as_primitive::<Int64Type>().values(), &[1, 2]);
        let streamed = StreamInput::new("a.dat", text.clone());
        let source = source(&options);
        let last = source.open(Arc::new(&streamed)).unwrap().rows(1..2).unwrap().next().unwrap().unwrap();
        assert_eq!(last.column(2).as_string_view().value(0), "b");
    }
    // Lines are counted, not rows: one of them may be blank.
    let blank = read_as("a.csv", &[("units", "1")], b"a,b\n\n1,2\n3,4\n").unwrap().remove(0);
    assert_eq!(blank.column(0).as_primitive::<Int64Type>().values(), &[1, 3]);
    // Lines keep their numbers.
    let error = read_as("a.dat", &options, b"x\na,b\nu,v\n,\n1,2\n3\n").unwrap_err();
    assert!(error.to_string().starts_with("a.dat: line 6: has 1 field"), "{error}");
    let options = [("delimiter", ";"), ("decimal", ","), ("null", "NA")];
    let rows = read_as("a.csv", &options, b"x;y;z\n1,5;1.5;1\nNA;1,5;2\n-2;3;3\n").unwrap().remove(0);
    assert_eq!(fields(&rows), ["x:Float64:true", "y:Utf8View:false", "z:Int64:false"]);
    assert_eq!(rows.column(0).as_primitive::<Float64Type>().iter().collect::<Vec<_>>(), [Some(1.5), None, Some(-2.0)]);
    assert_eq!(rows.column(1).as_string_view().value(1), "1,5");
    let error = read_as("a.csv", &[("decimal", ",")], b"x,y\n1,5\n").unwrap_err();
    assert!(error.to_string().contains("another delimiter"), "{error}");
    assert_eq!(read_as("a.csv", &[("skip", "9")], b"x,y\n1,5\n").unwrap_err().kind(), Kind::Content);
}

/// Tables of numbers as `np.savetxt`, gnuplot and Fortran write them, and MovieLens's `::`.
#[test]
fn runs_of_spaces_and_longer_texts_divide_columns_and_comments_are_left_out() {
    let options = [("delimiter", "spaces"), ("comment", "#"), ("header", "comment")];
    let text = b"# run 7\n#  t, x, name \n# \n\n  1.0\t 2   \"a\n \t\n# half \"way\r\n2.5 -3e-7 b# checked\n   # end\n";
    let rows = read_as("a.dat", &options, text).unwrap().remove(0);
    assert_eq!(fields(&rows), ["name:Utf8View:false", "t:Float64:false", "x:Float64:false"]);
    assert_eq!(rows.column(0).as_string_view().iter().flatten().collect::<Vec<_>>(), ["\"a", "b"]);
    assert_eq!(rows.column(2).as_primitive::<Float64Type>().values(), &[2.0, -3e-7]);
    for text in [
        &b"\xef\xbb\xbf# t, x, name\n1 2 a\n"[..],
        b"## t x name\n1 2 a\n",
        b"\xef\xbb\xbf  \t# run 7\r\n\r\n # t x name\r\n1 2 a\r\n  # end",
    ] {
        let rows = read_as("a.dat", &options, text).unwrap().remove(0);
        assert_eq!(fields(&rows), ["name:Utf8View:false", "t:Int64:false", "x:Int64:false"], "{}", text.escape_ascii());
    }
    let marked =
        read_as("a.csv", &[("comment", "#")], b"\xef\xbb\xbf# made by a program\nx,y\n1,\"#2\"\n").unwrap().remove(0);
    assert_eq!(fields(&marked), ["x:Int64:false", "y:Utf8View:false"]);
    let error = read_as("a.dat", &options, b"# run 7\n1 2 3\n").unwrap_err();
    assert_eq!(error.to_string(), "a.dat: line 2: has 3 fields, but the comment before the rows has 2");
    let options = [("delimiter", "::"), ("header", "none")];
    let ratings = read_as("ratings.dat", &options, b"1::Alien: 3\x1f::5\n2::::4\n").unwrap().remove(0);
    assert_eq!(fields(&ratings), ["column1:Int64:false", "column2:Utf8View:true", "column3:Int64:false"]);
    assert_eq!(ratings.column(1).as_string_view().iter().collect::<Vec<_>>(), [Some("Alien: 3\u{1f}"), None]);
    // A sign inside quotes begins no comment, and quotes in a comment enclose nothing.
    let quoted =
        read_as("a.csv", &[("comment", "#")], b"# \"x\na,b\n1,\"two\n#lines\"\n#\",\n2,#3\n").unwrap().remove(0);
    assert_eq!(quoted.column(1).as_string_view().iter().flatten().collect::<Vec<_>>(), ["two\n#lines", "#3"]);
    let named =
        read_as("a.csv", &[("comment", "%"), ("header", "comment")], b"% \"a,b\" , c\n1,2\n% d,e\n").unwrap().remove(0);
    assert_eq!(fields(&named), ["a,b:Int64:false", "c:Int64:false"]);
    let error = read_as("a.csv", &[("comment", "#"), ("header", "comment")], b"1,2\n#a,b\n").unwrap_err();
    assert!(error.to_string().contains("line 1: is the first row, without a comment before it"), "{error}");
}

/// Ranges of rows are read from places between comments; a compressed table is read from its start.
#[test]
fn parts_of_a_table_with_comments_are_its_rows() {
    let line = |at: u64| {
        let comment =
            if at.is_multiple_of(3) { format!("# {}\n", "c".repeat(at as usize % 50)) } else { String::new() };
        format!("{comment}  {at}   {}.5 {}\n", at * 7, "x".repeat(40))
    };
    let text: String = std::iter::once("# n v t\n".to_owned()).chain((0..60_000).map(line)).collect();
    let input = MemoryInput::new("a.dat", text.clone().into_bytes());
    let source = source(&[("delimiter", "spaces"), ("comment", "#"), ("header", "comment")]);
    let table = source.open(Arc::new(&input)).unwrap();
    assert_eq!(table.info().unwrap().items, 60_000);
    let stream = StreamInput::new("a.dat.gz", text.into_bytes());
    let compressed = source.open(Arc::new(&stream)).unwrap();
    for from in [0, 1, 29_998, 59_990] {
        for table in [&table, &compressed] {
            let blocks: Vec<Rows> = table.rows(from..from + 5).unwrap().map(Result::unwrap).collect();
            let numbers: Vec<i64> =
                blocks.iter().flat_map(|rows| rows.column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
            assert_eq!(numbers, (from as i64..from as i64 + 5).collect::<Vec<_>>());
        }
    }
}

#[test]
fn the_schema_option_overrides_types() {
    let text = b"id,n\n007,1\n,2\n";
    let rows = read_as("a.csv", &[("schema", "n:float64")], text).unwrap().remove(0);
    assert_eq!(fields(&rows), ["id:Utf8View:true", "n:Float64:false"]);
    let error = read_as("a.csv", &[("schema", "id:int64")], text).unwrap_err();
    assert_eq!(error.to_string(), "a.csv: line 2: column id: \"007\" is not of type int64");
    let error = read_as("a.csv", &[("schema", "idd:int64")], text).unwrap_err();
    assert_eq!(error.kind(), Kind::Config);
}

#[test]
fn texts_of_missing_values_are_named() {
    let text = b"__key__,t,n,s\nNA,2.5,NA,a\nb,-9999,3,NA\nc,7,-9999,\"N/A\"\n";
    let rows = read_as("a.csv", &[("null", "NA,-9999")], text).unwrap().remove(0);
    assert_eq!(fields(&rows), ["__key__:Utf8View:false", "n:Int64:true", "s:Utf8View:true", "t:Float64:true"]);
    assert_eq!(rows.column(0).as_string_view().iter().flatten().collect::<Vec<_>>(), ["NA", "b", "c"]);
    assert_eq!(rows.column(1).as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), [None, Some(3), None]);
    assert_eq!(rows.column(2).as_string_view().iter().collect::<Vec<_>>(), [Some("a"), None, Some("N/A")]);
    assert_eq!(rows.column(3).as_primitive::<Float64Type>().iter().collect::<Vec<_>>(), [Some(2.5), None, Some(7.0)]);
    let plain = read_as("a.csv", &[], text).unwrap().remove(0);
    assert_eq!(fields(&plain)[1], "n:Utf8View:false");
}

#[test]
fn a_key_column_comes_first() {
    let rows = read_as("a.csv", &[], b"a,__key__\n1,12\n2,x\n").unwrap().remove(0);
    assert_eq!(fields(&rows), ["__key__:Utf8View:false", "a:Int64:false"]);
    assert_eq!(refused(b"a,__key__\n1,\n").kind(), Kind::Content);
}

#[test]
fn a_bad_line_is_named() {
    for (text, what) in [
        (&b"a,b\n1,2\n3\n"[..], "line 3: has 1 field, but the first line has 2"),
        (b"a,b\n1,2\n3", "line 3: has 1 field, but the first line has 2"),
        (b"a,b\n1,2\n\n\n3\n", "line 5: has 1 field, but the first line has 2"),
        (b"a,b\r\n1,2\r\n3\r\n", "line 3: has 1 field, but the first line has 2"),
        (b"a,b\r\n1,2\r\n\r\n3", "line 4: has 1 field, but the first line has 2"),
        (b"a,b\r\n1,\"2\r\n2\"\r\n3\r\n", "line 4: has 1 field, but the first line has 2"),
        (b"a,b\n\"1\n\",2\n3,4,5\n", "line 4: has 3 fields, but the first line has 2"),
        (
            b"a,b\n1,\xff\n",
            "line 2: the value of b is not UTF-8; convert the file, for example with iconv -f latin1 -t utf-8 FILE",
        ),
        (
            b"a,b\n1,2\n3,\"4\n5,6\n",
            "line 3: has unclosed quotes; if quotes are text in it, pass `from=csv` and `read=quote=none`",
        ),
        // The quote opens in one row and closes in another.
        (
            b"a,b\n1,2\n\"3,2\nx,2\n\"y,2\nz,1\n",
            "line 3: has text behind a closing quote; if quotes are text in it, pass `from=csv` and `read=quote=none`; if spaces divide columns, \
             pass `from=csv` and `read=delimiter= `",
        ),
        (
            b"a,b\n1,\"2\"\"\n3\"x",
            "line 2: has text behind a closing quote; if quotes are text in it, pass `from=csv` and `read=quote=none`; if spaces divide columns, \
             pass `from=csv` and `read=delimiter= `",
        ),
        (b"a,a\n1,2\n", "line 1: columns 1 and 2 are both called a; rename one"),
        (b"", "is empty: the first line names the columns"),
        (
            b"sep=;\r\nName;Value\r\nA;1\r\n",
            "line 1: is the one in which Excel names the delimiter, and not a line of the table; delete it, and pass `from=csv` \
             and `read=delimiter=;`",
        ),
        (
            b"a b\n1 2\n3 4\n",
            "line 2: is one column, \"a b\", with the value \"1 2\", which looks like several; if spaces divide columns, pass \
             `from=csv` and `read=delimiter=spaces`; if it is one column, `from=csv` and \
             `read=delimiter=,`",
        ),
        (
            b"  1.0  2.0\n  3.0  4.0\n",
            "line 1: is one column, \"  1.0  2.0\", which looks like numbers with spaces between them; if spaces \
             divide columns, pass `from=csv` and `read=delimiter=spaces`; without a line of names, also `read=header=none`",
        ),
        (
            b"# x y z\n1.0 2.0 3.0\n",
            "line 1: names the columns, and begins as a comment does; if such lines are comments, pass `from=csv` and \
             `read=comment=#`; `read=header=comment` says that the last one names the columns; if it names them, `from=csv` and \
             `read=header=first`",
        ),
        (
            b"1::1193::5\n2::661::3\n",
            "line 1: is one column, \"1::1193::5\", where , divides columns; if :: divides them, pass `from=csv` and \
             `read=delimiter=::`; if it is one column, `read=delimiter=,`",
        ),
        (
            b"# x,y\n1,2\n",
            "line 1: names the columns, and begins as a comment does; if such lines are comments, pass `from=csv` and \
             `read=comment=#`; `read=header=comment` says that the last one names the columns; if it names them, `from=csv` and \
             `read=header=first`",
        ),
    ] {
        let error = refused(text);
        assert_eq!((error.kind(), error.to_string()), (Kind::Content, format!("a.csv: {what}")));
    }
    for (text, row) in [
        (&b"a,b\n1,2\n3\n"[..], 1),
        (b"a,b\n1,2\n3,4\n5,\xff\n", 2),
        (b"a,b\n1,2\n3,\"4\"x\n", 1),
        (b"a,b\n1,\"2\" she said\n", 0),
    ] {
        assert_eq!(refused(text).row(), Some(row), "{}", text.escape_ascii());
    }
    let limits = Limits { blob: 1000, ..Limits::default() };
    let source = Csv::default().source(&Default::default(), limits).unwrap();
    let long = [b"a\n\"", &vec![b'x'; 2 << 20][..], b"\"\n"].concat();
    assert_eq!(
        source.open(Arc::new(&MemoryInput::new("a.csv", long))).and_then(|table| table.info()).unwrap_err().kind(),
        Kind::Limit
    );
}

#[test]
fn a_header_alone_is_a_table_without_rows() {
    let input = MemoryInput::new("a.csv", b"a,,c\n".to_vec());
    let info = source(&[]).open(Arc::new(&input)).unwrap().info().unwrap();
    assert_eq!(info.items, 0);
    let names: Vec<_> = info.schema.fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["a", "c", "column2"]);
}

#[test]
fn a_first_line_of_numbers_is_a_row_or_names() {
    for text in [&b"1001,5,0.25\n1002,6,0.5\n"[..], b"5\n6\n", b"1.5,2.5,3.5\n", b"0,1\n1,2\n"] {
        let error = refused(text);
        assert!(
            error.to_string().contains("line 1: names the columns, and ")
                && error.hints().unwrap().contains("header=none")
        );
        let first = read_as("a.csv", &[("header", "first")], text).unwrap();
        let none = read_as("a.csv", &[("header", "none")], text).unwrap();
        let count = |blocks: &[Rows]| blocks.iter().map(Rows::num_rows).sum::<usize>();
        assert_eq!(count(&none), count(&first) + 1);
        assert!(fields(none.first().unwrap()).iter().all(|field| field.starts_with("column")));
    }
    assert!(refused(b"1,1,0\n2,3,4\n").hints().unwrap().contains("header=none"));
    for names in [&b"0,1,2\n5,6,7\n"[..], b"2019,2020,2021\n5,6,7\n", b"0\n7\n", b"1,a\n2,3\n", b",0,1\n0,5,6\n"] {
        assert_eq!(read_as("a.csv", &[], names).unwrap().first().unwrap().num_rows(), 1);
    }
}

#[test]
fn a_range_of_rows_equals_that_slice_of_the_whole() {
    let line = |i: usize| format!("{i},\"{}\n{}\",{}\n", "text ".repeat(i % 50), i, i as f64 / 8.0);
    let rows: String = (0..30_000).map(line).collect();
    for (names, header) in [("n,t,x\n", "first"), ("", "none")] {
        ranges(format!("{names}{rows}"), header);
    }
}

fn ranges(text: String, header: &str) {
    let input = MemoryInput::new("a.csv.gz", text.clone().into_bytes());
    let streamed = StreamInput::new("a.csv.gz", text.into_bytes());
    let source = source(&[("header", header)]);
    for (from, to) in [(0, 30_000), (0, 1), (29_999, 30_000), (12_345, 20_000), (30_000, 40_000)] {
        for input in [&input as &dyn Input, &streamed] {
            let found = typed::read(&*source, input, from..to);
            let numbers: Vec<i64> =
                found.iter().flat_map(|rows| rows.column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
            assert_eq!(numbers, (from as i64..to.min(30_000) as i64).collect::<Vec<_>>());
            let texts = found.iter().flat_map(|rows| rows.column(1).as_string_view().iter().flatten());
            assert!(texts.zip(&numbers).all(|(text, n)| text.ends_with(&format!("\n{n}"))));
        }
    }
}

#[test]
fn conforms() {
    let sample = |key: &str, a: &str| conformance::sample(key, &[("a", a.as_bytes())]);
    conformance::Suite::new(&Csv::default())
        .known("two.csv", b"__key__,a\nk,x\nl,y\n".to_vec(), vec![sample("k", "x"), sample("l", "y")])
        .cuts(conformance::Cuts::AreOtherFiles)
        .run();
}

proptest! {
    #[test]
    fn any_quoted_text_round_trips(rows in proptest::collection::vec(proptest::collection::vec("[ab,\"\r\n é]{0,6}", 3), 1..20)) {
        let quoted = |value: &String| format!("\"{}\"", value.replace('"', "\"\""));
        let line = |row: &Vec<String>| row.iter().map(quoted).collect::<Vec<_>>().join(",") + "\n";
        let text = "x,y,z\n".to_owned() + &rows.iter().map(line).collect::<String>();
        let blocks = read_as("a.csv", &[], text.as_bytes()).unwrap();
        for (i, row) in rows.iter().enumerate() {
            for (j, value) in row.iter().enumerate() {
                let column = blocks[0].column(j).as_string_view();
                let found = if column.is_valid(i) { column.value(i) } else { "" };
                prop_assert_eq!(found, value);
            }
        }
    }

    #[test]
    fn arbitrary_bytes_give_rows_or_an_error(bytes in proptest::collection::vec(prop_oneof![Just(b','), Just(b'"'), Just(b'\n'), Just(b'\r'), any::<u8>()], 0..200)) {
        if let Err(error) = read_as("a.csv", &[], &bytes) {
            prop_assert!(matches!(error.kind(), Kind::Content | Kind::Limit), "{}", error);
        }
    }
}
