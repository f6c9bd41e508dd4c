use super::page::{LOCK_PAGE, MOST_LOCAL_ROW, MOST_PAGES, PAGE, Pages};
use super::record::{RowRecord, put_varint, varint_size};
use super::*;
use std::io;

const ROWS: &str = "CREATE TABLE t (k TEXT UNIQUE, n INTEGER)";
const BY_N: &str = "CREATE INDEX by_n ON t (n)";

#[derive(Clone, Debug, PartialEq)]
enum Cell {
    Null,
    Integer(i64),
    Text(String),
}

/// The FNV-1a hash of a database of 2000 rows. If it changes, the bytes of every index change.
const GOLDEN: u64 = 0xaff9_19d1_d583_ff3c;

/// Reads a database by the specification, without code of the writer.
struct Reader(Vec<u8>);

impl Reader {
    fn page(&self, number: u32) -> &[u8] {
        &self.0[(number as usize - 1) * 4096..number as usize * 4096]
    }

    fn number(&self, at: usize, size: usize) -> u64 {
        self.0[at..at + size].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    }

    fn varint(bytes: &[u8], at: &mut usize) -> u64 {
        let mut value = 0;
        for turn in 0..9 {
            let byte = u64::from(bytes[*at]);
            *at += 1;
            if turn == 8 {
                return value << 8 | byte;
            }
            value = value << 7 | byte & 0x7f;
            if byte < 0x80 {
                break;
            }
        }
        value
    }

    /// The payload that starts at `at` of a page, with its overflow pages.
    fn payload(&self, page: &[u8], at: usize, size: usize, most: usize) -> Vec<u8> {
        let spilled = 489 + (size.max(489) - 489) % 4092;
        let local = if size <= most { size } else { [489, spilled][usize::from(spilled <= most)] };
        let mut out = page[at..at + local].to_vec();
        if size > local {
            let mut next = u32::from_be_bytes(page[at + local..at + local + 4].try_into().unwrap());
            while next != 0 {
                let more = self.page(next);
                out.extend(&more[4..4 + (size - out.len()).min(4092)]);
                next = u32::from_be_bytes(more[..4].try_into().unwrap());
            }
        }
        assert_eq!(out.len(), size);
        out
    }

    fn record(bytes: &[u8]) -> Vec<Cell> {
        let mut at = 0;
        let header = usize::try_from(Self::varint(bytes, &mut at)).unwrap();
        let mut body = header;
        let mut out = Vec::new();
        while at < header {
            let serial = Self::varint(bytes, &mut at);
            let size = match serial {
                0 | 8 | 9 => 0,
                1..=4 => serial,
                5 => 6,
                6 => 8,
                _ => (serial - 13) / 2,
            };
            let own = &bytes[body..body + usize::try_from(size).unwrap()];
            body += own.len();
            let sign = own.first().map_or(0, |first| i64::from(*first as i8) >> 7);
            out.push(match serial {
                0 => Cell::Null,
                8 | 9 => Cell::Integer(i64::from(serial == 9)),
                1..=6 => Cell::Integer(own.iter().fold(sign, |sum, byte| sum << 8 | i64::from(*byte))),
                _ => Cell::Text(String::from_utf8(own.to_vec()).unwrap()),
            });
        }
        assert_eq!(body, bytes.len());
        out
    }

    /// Every record below a page in order, with its rowid (in a table). Checks what SQLite would check.
    fn walk(&self, number: u32, depth: &mut Vec<u32>, out: &mut Vec<(i64, Vec<Cell>)>) {
        let page = self.page(number);
        let head = if number == 1 { 100 } else { 0 };
        let two = |at: usize| usize::from(u16::from_be_bytes([page[at], page[at + 1]]));
        let four = |at: usize| u32::from_be_bytes(page[at..at + 4].try_into().unwrap());
        let (kind, cells) = (page[head], two(head + 3));
        let leaf = kind == 0x0d || kind == 0x0a;
        assert!(leaf || cells > 0, "an interior page without cells");
        let pointers = head + if leaf { 8 } else { 12 };
        assert!(two(head + 5) >= pointers + 2 * cells, "cells over pointers");
        for cell in 0..cells {
            let mut at = two(pointers + 2 * cell);
            if !leaf {
                self.walk(four(at), depth, out);
                at += 4;
            }
            let first = Self::varint(page, &mut at);
            if kind == 0x05 {
                assert_eq!(out.last().unwrap().0.unsigned_abs(), first, "a divider that is not the last rowid");
                continue;
            }
            let rowid = if kind == 0x0d { Self::varint(page, &mut at) } else { 0 };
            let most = if kind == 0x0d { 4061 } else { 1002 };
            let payload = self.payload(page, at, usize::try_from(first).unwrap(), most);
            out.push((rowid.cast_signed(), Self::record(&payload)));
        }
        if leaf {
            depth.push(number);
        } else {
            self.walk(four(head + 8), depth, out);
        }
    }

    fn rows(&self, root: u32) -> Vec<(i64, Vec<Cell>)> {
        let mut out = Vec::new();
        self.walk(root, &mut Vec::new(), &mut out);
        out
    }

    /// The name, root and statement of each table and index.
    fn schema(&self) -> Vec<(String, u32, Cell)> {
        let parts = |(_, row): (i64, Vec<Cell>)| match row.as_slice() {
            [_, Cell::Text(name), _, Cell::Integer(root), sql] => {
                (name.clone(), u32::try_from(*root).unwrap(), sql.clone())
            }
            other => panic!("{other:?}"),
        };
        self.rows(1).into_iter().map(parts).collect()
    }
}

fn text(value: &str) -> Cell {
    Cell::Text(value.to_owned())
}

fn new() -> Database<Vec<u8>> {
    Database::new(Vec::new()).unwrap()
}

fn finished(database: Database<Vec<u8>>) -> Vec<u8> {
    let (mut file, first) = database.finish().unwrap();
    file[..first.len()].copy_from_slice(&first);
    file
}

/// Keys of many lengths in order, each with a number.
fn keys(count: usize, pad: usize) -> Vec<(String, i64)> {
    let key = |n: usize| (format!("{n:08}{}", "x".repeat(n * 7 % (pad + 1))), (n * 37 % 1000) as i64 - 300);
    (0..count).map(key).collect()
}

fn build(keys: &[(String, i64)]) -> Reader {
    let mut db = new();
    let table = db.table("t", ROWS);
    let unique = db.autoindex(table).unwrap();
    let by_n = db.index("by_n", table, BY_N).unwrap();
    for (key, n) in keys {
        let rowid = db.row(table, &[SqlValue::Text(key), SqlValue::Integer(*n)]).unwrap();
        db.entry(unique, &[SqlValue::Text(key)], rowid).unwrap();
    }
    let mut order: Vec<_> = (1..).zip(keys).map(|(rowid, (_, n))| (*n, rowid)).collect();
    order.sort_unstable();
    for (n, rowid) in order {
        db.entry(by_n, &[SqlValue::Integer(n)], rowid).unwrap();
    }
    Reader(finished(db))
}

fn check(keys: &[(String, i64)]) -> Reader {
    let file = build(keys);
    assert_eq!(file.0.len() % 4096, 0);
    assert_eq!(file.number(28, 4) as usize, file.0.len() / 4096);
    let schema = file.schema();
    let names: Vec<_> = schema.iter().map(|(name, _, sql)| (name.as_str(), sql.clone())).collect();
    assert_eq!(names, [("t", text(ROWS)), ("sqlite_autoindex_t_1", Cell::Null), ("by_n", text(BY_N))]);
    let rows = |at: usize| file.rows(schema[at].1);
    let numbered = || (1i64..).zip(keys);
    let want: Vec<_> = numbered().map(|(rowid, (key, n))| (rowid, vec![text(key), Cell::Integer(*n)])).collect();
    assert!(rows(0) == want);
    let want: Vec<_> = numbered().map(|(rowid, (key, _))| (0, vec![text(key), Cell::Integer(rowid)])).collect();
    assert!(rows(1) == want);
    let mut order: Vec<_> = numbered().map(|(rowid, (_, n))| (*n, rowid)).collect();
    order.sort_unstable();
    let want: Vec<_> = order.iter().map(|(n, rowid)| (0, vec![Cell::Integer(*n), Cell::Integer(*rowid)])).collect();
    assert!(rows(2) == want);
    file
}

#[test]
fn all_rows_and_entries_are_read_back() {
    (0..400).for_each(|count| drop(check(&keys(count, 90))));
    for (count, pad) in [(1000, 0), (5000, 1500), (100_000, 60), (300_000, 0)] {
        check(&keys(count, pad));
    }
}

#[test]
fn long_records_continue_on_overflow_pages() {
    for around in [489, 1002, 4061, 4092, 8184, 20_000] {
        for size in around - 12..around + 12 {
            let keys = ["a", "b", "c"].map(|letter| (letter.repeat(size), 5));
            check(&keys);
        }
    }
    check(&keys(30, 9000));
}

#[test]
fn an_empty_database_has_these_bytes() {
    let file = finished(new());
    let start =
        b"SQLite format 3\0\x10\0\x01\x01\0\x40\x20\x20\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\x04";
    assert_eq!(file[..48], start[..]);
    assert_eq!(file[48..60], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(file[60..92], [0; 32]);
    assert_eq!(file[92..108], [0, 0, 0, 1, 0, 0x2e, 0x63, 0x01, 0x0d, 0, 0, 0, 0, 0x10, 0, 0]);
    assert_eq!(file[108..], [0; 4096 - 108]);
}

#[test]
fn a_small_table_has_these_bytes() {
    let mut db = new();
    let table = db.table("t", "CREATE TABLE t (a, b, c)");
    db.row(table, &[SqlValue::Integer(1), SqlValue::Text("hi"), SqlValue::Integer(-2)]).unwrap();
    db.row(table, &[SqlValue::Null, SqlValue::Integer(0), SqlValue::Integer(300)]).unwrap();
    let file = finished(db);
    assert_eq!(file.len(), 8192);
    let cells = [7, 1, 4, 9, 17, 1, b'h', b'i', 0xfe, 6, 2, 4, 0, 8, 2, 1, 0x2c];
    assert_eq!(file[4096..4108], [0x0d, 0, 0, 0, 2, 0x0f, 0xef, 0, 0x0f, 0xef, 0x0f, 0xf8]);
    assert_eq!(file[8192 - cells.len()..], cells);
}

#[test]
fn the_same_calls_give_the_same_bytes() {
    let keys = keys(2000, 80);
    assert!(build(&keys).0 == build(&keys).0);
    let sum = build(&keys)
        .0
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    assert_eq!(sum, GOLDEN, "{sum:#x}");
}

#[test]
fn every_integer_width_is_read_back() {
    let edges = (0..64).flat_map(|bit| [-1, 0, 1].map(|step| (1_i64 << bit).wrapping_add(step)));
    let mut numbers: Vec<i64> = edges.flat_map(|edge| [edge, edge.wrapping_neg()]).collect();
    numbers.sort_unstable();
    let mut db = new();
    let table = db.table("t", "CREATE TABLE t (n INTEGER)");
    let index = db.index("i", table, "CREATE INDEX i ON t (n)").unwrap();
    for number in &numbers {
        let rowid = db.row(table, &[SqlValue::Integer(*number)]).unwrap();
        db.entry(index, &[SqlValue::Integer(*number)], rowid).unwrap();
    }
    let file = Reader(finished(db));
    let root = file.schema()[0].1;
    let read: Vec<_> = file.rows(root).into_iter().map(|(_, row)| row).collect();
    assert_eq!(read, numbers.into_iter().map(|number| vec![Cell::Integer(number)]).collect::<Vec<_>>());
}

#[test]
fn varints_are_minimal() {
    for (value, size) in [(0, 1), (127, 1), (128, 2), (16_383, 2), (16_384, 3), ((1 << 56) - 1, 8), (1 << 56, 9)] {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, value);
        assert_eq!((bytes.len(), varint_size(value)), (size, size));
        assert_eq!(Reader::varint(&bytes, &mut 0), value);
    }
    let mut bytes = Vec::new();
    put_varint(&mut bytes, u64::MAX);
    assert_eq!(bytes, [0xff; 9]);
}

#[test]
fn records_with_many_columns_have_long_headers() {
    for columns in [125, 126, 127, 128, 2000] {
        let values: Vec<_> = (0..columns).map(SqlValue::Integer).collect();
        let mut record = RowRecord::default();
        record.set(&values);
        let size = record.seal(None);
        let read = Reader::record(&record.cell[record.cell.len() - size..]);
        assert_eq!(read, (0..columns).map(Cell::Integer).collect::<Vec<_>>());
    }
}

#[test]
fn index_entries_out_of_order_or_twice_are_refused() {
    let entries = [
        (SqlValue::Null, 2),
        (SqlValue::Integer(i64::MIN), 1),
        (SqlValue::Integer(-1), 1),
        (SqlValue::Integer(0), 1),
        (SqlValue::Integer(256), 1),
        (SqlValue::Text(""), 1),
        (SqlValue::Text("\0"), 1),
        (SqlValue::Text("\u{1}"), 1),
        (SqlValue::Text("a"), 1),
        (SqlValue::Text("a\0"), 1),
        (SqlValue::Text("a\0b"), 1),
        (SqlValue::Text("aa"), 1),
        (SqlValue::Text("é"), 1),
    ];
    let put = |first: (SqlValue, i64), second: (SqlValue, i64), unique: bool| {
        let mut db = new();
        let table = db.table("t", ROWS);
        let index = if unique { db.autoindex(table) } else { db.index("i", table, BY_N) }.unwrap();
        db.entry(index, &[first.0], first.1).unwrap();
        db.entry(index, &[second.0], second.1).is_ok()
    };
    for (at, first) in entries.iter().enumerate() {
        for (next, second) in entries.iter().enumerate() {
            assert_eq!(put(*first, *second, false), at < next, "{first:?} {second:?}");
        }
        let later = (first.0, 3);
        assert!(put(*first, later, false));
        assert_eq!(put(*first, later, true), first.0 == SqlValue::Null);
    }
}

#[test]
fn an_index_must_have_an_entry_for_each_row() {
    let mut db = new();
    let table = db.table("t", ROWS);
    db.autoindex(table).unwrap();
    db.row(table, &[SqlValue::Text("a"), SqlValue::Null]).unwrap();
    let error = db.finish().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("sqlite_autoindex_t_1"), "{error}");
}

#[test]
fn invalid_rows_and_handles_are_refused() {
    let mut db = new();
    let table = db.table("t", &format!("CREATE TABLE t (a) -- {}", "x".repeat(4000)));
    assert!(db.row(table, &[]).is_err());
    assert!(db.row(TableHandle(1), &[SqlValue::Null]).is_err());
    assert!(db.entry(IndexHandle(0), &[SqlValue::Null], 1).is_err());
    assert!(db.finish().is_err());
}

#[test]
fn the_lock_byte_page_is_left_empty() {
    let mut pages = Pages { out: Vec::new(), last: LOCK_PAGE - 2 };
    let mut cell = vec![7; 9500];
    pages.spill(&mut cell, 9500, MOST_LOCAL_ROW).unwrap();
    assert_eq!(pages.write(&[9; PAGE]).unwrap(), LOCK_PAGE + 2);
    let ends: Vec<_> = pages.out.chunks(PAGE).map(|page| page[PAGE - 1]).collect();
    assert_eq!(ends, [7, 0, 7, 9]);
    assert_eq!(&pages.out[..4], &(LOCK_PAGE + 1).to_be_bytes());
}

#[test]
fn a_file_too_large_is_refused() {
    let mut pages = Pages { out: io::sink(), last: MOST_PAGES - 1 };
    assert!(pages.write(&[0; PAGE]).is_ok());
    assert!(pages.write(&[0; PAGE]).is_err());
}
