//! A format of one's own, whole: `cargo run --example add_a_format`.
//!
//! A format says what it is ([`Format`]), how it is read ([`Source`]) and how it is written ([`Sink`],
//! [`ShardWriter`]). It knows its own bytes, and leaves names, hashes, syncs, plans and threads to
//! others. Then it goes on the list beside the others, and into testkit's conformance suite.
//!
//! * **The format**: `.rec`, records one after the other. **Other readers**: none.
//! * **The bytes**, numbers little-endian:
//!
//!   ```text
//!   8 B     "PACKREC1"
//!   record  u8 1, u16 length of the key, key, u16 fields;
//!           for each field: u16 length of the name, name, u32 length, bytes
//!   …
//!   end     u8 0: without it the file was cut
//!   ```
//! * **Options**: none. **Revisions**: 1, the first.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use arrow_array::builder::{BinaryViewBuilder, StringViewBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use packhorse::core::{
    ArchiveMember, Blocks, Context, DataType, Error, Extent, Field, Format, FormatInfo, Input, KEY, Limits, Members,
    Options, Outlet, Result, Rows, Sample, Schema, SchemaRef, ShardSummary, ShardWriter, Sink, Source, Store as _,
    Table, TableInfo, blocks, crc32c, is_blob,
};
use packhorse::storage::Local;
use packhorse::{Recipe, Session};
use packhorse_testkit::conformance::{Suite, sample};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufWriter, Read, Write};
use std::ops::Range;
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"PACKREC1";
const RECORD: u8 = 1;
const END: u8 = 0;

struct Rec;

static INFO: FormatInfo = FormatInfo { id: "rec", revision: 1, extensions: &["rec"], fields: &[] };

impl Format for Rec {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn source(&self, options: &Options, limits: Limits) -> Result<Box<dyn Source>> {
        options.only(&[])?;
        Ok(Box::new(RecSource { limits }))
    }

    fn sink(&self, options: &Options) -> Result<Box<dyn Sink>> {
        options.only(&[])?;
        Ok(Box::new(RecSink))
    }
}

// ---- Writing

struct RecSink;

impl Sink for RecSink {
    fn suffix(&self) -> &'static str {
        ".rec"
    }

    fn accept(&self, schema: &SchemaRef) -> Result<()> {
        match schema.fields().iter().find(|f| f.name() != KEY && !is_blob(f.data_type())) {
            None => Ok(()),
            Some(f) => {
                Err(Error::unsupported(format!("field {} is {}, and .rec holds bytes", f.name(), f.data_type())))
            }
        }
    }

    fn longest_key(&self, _field: &str) -> usize {
        usize::from(u16::MAX)
    }

    fn admit(&self, key: &str, field: &str, bytes: u64) -> Result<()> {
        match u32::try_from(bytes) {
            Ok(_) if key.len().max(field.len()) <= usize::from(u16::MAX) => Ok(()),
            _ => Err(Error::content(format!("field {field} or its name is too long for .rec")).in_sample(key)),
        }
    }

    fn size_of(&self, bytes: u64) -> u64 {
        bytes + 16
    }

    fn create(&self, schema: &SchemaRef, out: &mut dyn Outlet) -> Result<Box<dyn ShardWriter>> {
        self.accept(schema)?;
        let names: Vec<String> = schema.fields().iter().map(|f| f.name().clone()).filter(|name| name != KEY).collect();
        let members = Members::new(names.clone());
        let mut writer = RecWriter { out: BufWriter::new(out.stream(".rec")?), at: 0, names, members };
        writer.put(MAGIC)?;
        Ok(Box::new(writer))
    }
}

struct RecWriter {
    out: BufWriter<Box<dyn Write + Send>>,
    at: u64,
    names: Vec<String>,
    members: Members,
}

impl RecWriter {
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.at += bytes.len() as u64;
        self.out.write_all(bytes).context("write")
    }

    /// Text after its length. [`Sink::admit`] has seen to it that the length fits.
    fn text(&mut self, text: &str) -> Result<()> {
        self.put(&(text.len() as u16).to_le_bytes())?;
        self.put(text.as_bytes())
    }

    fn sample(&mut self, sample: Sample<'_>) -> Result<()> {
        let fields: Vec<(usize, String, &[u8])> = self
            .names
            .iter()
            .enumerate()
            .filter_map(|(i, name)| Some((i, name.clone(), sample.bytes(name)?)))
            .collect();
        self.put(&[RECORD])?;
        self.text(sample.key()?)?;
        self.put(&(fields.len() as u16).to_le_bytes())?;
        self.members.push_sample(sample.key()?);
        for (i, name, bytes) in fields {
            self.text(&name)?;
            self.put(&(bytes.len() as u32).to_le_bytes())?;
            self.members.push_member(i as u16, self.at, bytes.len() as u64, crc32c(bytes));
            self.put(bytes)?;
        }
        Ok(())
    }
}

impl ShardWriter for RecWriter {
    fn push(&mut self, rows: &Rows) -> Result<()> {
        (0..rows.num_rows()).filter_map(|row| Sample::new(rows, row)).try_for_each(|sample| self.sample(sample))
    }

    fn finish(mut self: Box<Self>) -> Result<ShardSummary> {
        self.put(&[END])?;
        self.out.flush().context("write")?;
        let samples = self.members.samples() as u64;
        Ok(ShardSummary { samples, bytes: self.at, members: Some(self.members), ..ShardSummary::default() })
    }
}

// ---- Reading

struct RecSource {
    limits: Limits,
}

impl Source for RecSource {
    fn lists(&self) -> bool {
        true
    }

    fn list(&self, input: &dyn Input, each: &mut dyn FnMut(ArchiveMember<'_>) -> Result<()>) -> Result<()> {
        let mut cursor = Cursor::start(input, self.limits)?;
        while let Some((key, fields)) = cursor.record()? {
            for _ in 0..fields {
                let (name, len) = cursor.field()?;
                let extent = Ok(Extent { offset: cursor.at, len });
                cursor.skip(len)?;
                each(ArchiveMember { name: format!("{key}.{name}").as_bytes(), extent })?;
            }
        }
        Ok(())
    }

    fn open<'a>(&self, input: Arc<dyn Input + 'a>) -> Result<Box<dyn Table + 'a>> {
        Ok(Box::new(RecTable { input, limits: self.limits }))
    }
}

/// An open file. A format of typed rows parses its headers where it is opened, and `info` says what they hold.
struct RecTable<'a> {
    input: Arc<dyn Input + 'a>,
    limits: Limits,
}

impl Table for RecTable<'_> {
    fn info(&self) -> Result<TableInfo> {
        Err(Error::unsupported("its fields are ranges of bytes").in_input(self.input.name()))
    }

    fn rows(&self, items: Range<u64>) -> Result<Blocks<'_>> {
        let mut cursor = Cursor::start(&*self.input, self.limits)?;
        let mut number = 0;
        Ok(blocks(self.input.name(), move || cursor.block(&items, &mut number)))
    }
}

/// One record as read.
type Fields = BTreeMap<String, Vec<u8>>;

/// Reads forward: by position where the input allows it, else as a stream.
struct Cursor<'a> {
    input: &'a dyn Input,
    stream: Option<Box<dyn Read + Send + 'a>>,
    at: u64,
    ended: bool,
    limits: Limits,
}

impl<'a> Cursor<'a> {
    fn start(input: &'a dyn Input, limits: Limits) -> Result<Self> {
        let stream = if input.len().is_none() { Some(input.stream()?) } else { None };
        let mut cursor = Self { input, stream, at: 0, ended: false, limits };
        match cursor.bytes(8)? == MAGIC {
            true => Ok(cursor),
            false => Err(Error::content("is not a .rec file").in_input(input.name())),
        }
    }

    /// The next `len` bytes. Memory grows with the bytes read, not with a header's claim.
    fn bytes(&mut self, len: u64) -> Result<Vec<u8>> {
        let size = self.limits.blob(len).map_err(|e| e.in_input(self.input.name()))?;
        let mut bytes = Vec::new();
        match &mut self.stream {
            Some(stream) => drop(stream.take(len).read_to_end(&mut bytes).context("read")?),
            None if self.at + len <= self.input.len().unwrap_or(0) => {
                bytes.resize(size, 0);
                self.input.read_at(self.at, &mut bytes)?;
            }
            None => {}
        }
        self.at += len;
        if bytes.len() == size { Ok(bytes) } else { Err(self.cut()) }
    }

    fn skip(&mut self, len: u64) -> Result<()> {
        self.at += len;
        let whole = match &mut self.stream {
            Some(stream) => std::io::copy(&mut stream.take(len), &mut std::io::sink()).context("read")? == len,
            None => self.input.len().is_some_and(|end| self.at <= end),
        };
        if whole { Ok(()) } else { Err(self.cut()) }
    }

    fn cut(&self) -> Error {
        Error::content(format!("is cut short (near byte {})", self.at)).in_input(self.input.name())
    }

    fn number(&mut self, bytes: u64) -> Result<u64> {
        Ok(self.bytes(bytes)?.iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte)))
    }

    fn text(&mut self) -> Result<String> {
        let len = self.number(2)?;
        let bytes = self.bytes(len)?;
        String::from_utf8(bytes).map_err(|_| Error::content("has a name that is not UTF-8").in_input(self.input.name()))
    }

    /// Key and number of fields of the next record, or `None` at the end.
    fn record(&mut self) -> Result<Option<(String, u64)>> {
        if self.ended {
            return Ok(None);
        }
        match self.bytes(1)?.first() {
            Some(&RECORD) => Ok(Some((self.text()?, self.number(2)?))),
            Some(&END) => {
                self.ended = true;
                Ok(None)
            }
            _ => Err(Error::content(format!("is damaged before byte {}", self.at)).in_input(self.input.name())),
        }
    }

    fn field(&mut self) -> Result<(String, u64)> {
        Ok((self.text()?, self.number(4)?))
    }

    /// The next block of the samples `items`; `number` counts the samples passed.
    fn block(&mut self, items: &Range<u64>, number: &mut u64) -> Result<Option<Rows>> {
        let (mut samples, mut bytes) = (Vec::new(), 0);
        while bytes < 8 << 20 && *number < items.end {
            let Some((key, fields)) = self.record()? else { break };
            let mut sample = Fields::new();
            for _ in 0..fields {
                let (name, len) = self.field()?;
                match items.contains(number) {
                    true => drop(sample.insert(name, self.bytes(len)?)),
                    false => self.skip(len)?,
                }
            }
            if items.contains(number) {
                bytes += sample.values().map(Vec::len).sum::<usize>();
                samples.push((key, sample));
            }
            *number += 1;
        }
        if samples.is_empty() { Ok(None) } else { rows_of(&samples).map(Some) }
    }
}

/// A column for the key, then one for each field; what a sample lacks is null.
fn rows_of(samples: &[(String, Fields)]) -> Result<Rows> {
    let names: BTreeSet<&String> = samples.iter().flat_map(|(_, fields)| fields.keys()).collect();
    let mut keys = StringViewBuilder::new();
    samples.iter().for_each(|(key, _)| keys.append_value(key));
    let mut fields = vec![Field::new(KEY, DataType::Utf8View, false)];
    let mut columns: Vec<ArrayRef> = vec![Arc::new(keys.finish())];
    for name in names {
        let mut column = BinaryViewBuilder::new();
        samples.iter().for_each(|(_, fields)| column.append_option(fields.get(name)));
        fields.push(Field::new(name, DataType::BinaryView, true));
        columns.push(Arc::new(column.finish()));
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(|e| Error::bug(e.to_string()))
}

// ---- Using it

fn main() -> Result<()> {
    // Every promise that a format makes, in one call; a crate for a format has this in its tests.
    let one = b"PACKREC1\x01\x01\0a\x01\0\x03\0txt\x05\0\0\0hello\0";
    Suite::new(&Rec).known("one.rec", one, vec![sample("a", &[("txt", b"hello")])]).run();

    // On the list beside the others, for reading and writing.
    let registry = packhorse::registry().with(Rec);
    let dir = tempfile::tempdir().context("create a temporary folder")?;
    let (photos, shards) = (dir.path().join("photos"), dir.path().join("shards"));
    std::fs::create_dir(&photos).context("create a folder")?;
    for (name, bytes) in [("cat.jpg", "\u{1f408}"), ("cat.txt", "a cat"), ("dog.jpg", "\u{1f415}")] {
        std::fs::write(photos.join(name), bytes).context("write")?;
    }

    let packed = Session::new(registry.clone()).pack(&Recipe::new(photos, "rec", &shards))?;
    println!("root {}", packed.manifest.root);

    let shard = Local.open(&shards.join("shard-000000.rec"))?;
    let table = registry.get("rec")?.source(&Options::new(), Limits::default())?.open(shard.into())?;
    for rows in table.rows(0..u64::MAX)? {
        let rows = rows?;
        for sample in (0..rows.num_rows()).filter_map(|row| Sample::new(&rows, row)) {
            let text = |field| sample.bytes(field).map_or("nothing".into(), String::from_utf8_lossy);
            println!("{}: jpg {}, txt {}", sample.key()?, text("jpg"), text("txt"));
        }
    }
    Ok(())
}
