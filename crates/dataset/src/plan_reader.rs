//! Reads parts of a plan: the table, the header, single shards.

use crate::plan::is_false;
use crate::{Digest, PathText, PlanEntry, PlanHeader, SkipRecord};
use blake3::Hasher;
use packhorse_core::{Context, Error, Input, InputRange, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Read};

/// The extent of a frame in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FrameExtent {
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// A shard's entry in the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardFrame {
    /// The shard's name, without an extension.
    pub name: String,
    /// Its split.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// Planned samples, without uncounted ones.
    pub samples: u64,
    /// Whether it has inputs with an unknown number of samples.
    #[serde(default, skip_serializing_if = "is_false")]
    pub uncounted: bool,
    /// Input bytes.
    pub bytes: u64,
    /// Whether it starts in the same frame of a compressed input as the previous shard. Packed in sequence, the two
    /// decompress that frame once.
    #[serde(default, skip_serializing_if = "is_false")]
    pub goes_on: bool,
    #[serde(flatten)]
    pub(crate) frame: FrameExtent,
    /// Digest of its entries.
    pub blake3: Digest,
}

impl ShardFrame {
    /// Its position in the plan; increases from shard to shard.
    pub fn place(&self) -> u64 {
        self.frame.offset
    }

    /// Whether `samples`, packed and skipped together, match the plan.
    pub fn holds(&self, samples: u64) -> bool {
        samples == self.samples || self.uncounted && samples > self.samples
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FrameTable {
    pub(crate) digest: Digest,
    #[serde(rename = "stamps")]
    pub(crate) mtime_digest: Digest,
    pub(crate) header: FrameExtent,
    pub(crate) shards: Vec<ShardFrame>,
    pub(crate) skipped: FrameExtent,
    pub(crate) skips: u64,
}

/// The end of the file: a skippable Zstandard frame.
pub(crate) struct Trailer {
    pub(crate) table: FrameExtent,
    pub(crate) magic: [u8; 8],
}

pub(crate) const TRAILER_MAGIC: [u8; 8] = *b"PHPLAN\x00\x01";
const SKIPPABLE: u32 = 0x184D_2A5E;
const TRAILER_LEN: usize = 32;

impl Trailer {
    pub(crate) fn encode(&self) -> [u8; TRAILER_LEN] {
        let mut bytes = [0; TRAILER_LEN];
        let parts: [&[u8]; 5] = [
            &SKIPPABLE.to_le_bytes(),
            &24u32.to_le_bytes(),
            &self.table.offset.to_le_bytes(),
            &self.table.len.to_le_bytes(),
            &self.magic,
        ];
        bytes.iter_mut().zip(parts.concat()).for_each(|(to, from)| *to = from);
        bytes
    }

    fn decode(bytes: &[u8; TRAILER_LEN]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let magic: [u8; 8] = bytes.get(24..)?.try_into().ok()?;
        let table = FrameExtent { offset: word(8)?, len: word(16)? };
        (magic == TRAILER_MAGIC && bytes.starts_with(&SKIPPABLE.to_le_bytes())).then_some(Self { table, magic })
    }
}

/// An open plan.
pub struct PlanReader {
    input: Box<dyn Input>,
    header: PlanHeader,
    table: FrameTable,
}

/// The most decompressed bytes of the header or the table.
const DOCUMENT_LIMIT: u64 = 4 << 30;

impl PlanReader {
    /// Reads the table and the header. A `Content` error if the file is not a plan or is truncated.
    pub fn open(input: Box<dyn Input>) -> Result<Self> {
        let (table, header) = read_table(&*input).map_err(|e| e.in_input(input.name()))?;
        Ok(Self { input, header, table })
    }

    /// The header.
    pub fn header(&self) -> &PlanHeader {
        &self.header
    }

    /// The logical digest, independent of folders and times.
    pub fn digest(&self) -> Digest {
        self.table.digest
    }

    /// The places of its inputs, on which its digest does not depend.
    pub fn roots_mut(&mut self) -> &mut [PathText] {
        &mut self.header.roots
    }

    /// The digest of the inputs' modification times.
    pub fn mtime_digest(&self) -> Digest {
        self.table.mtime_digest
    }

    /// The shards in order.
    pub fn shards(&self) -> &[ShardFrame] {
        &self.table.shards
    }

    /// Total samples; `None` if some are uncounted.
    pub fn samples(&self) -> Option<u64> {
        self.table.shards.iter().map(|s| (!s.uncounted).then_some(s.samples)).sum()
    }

    /// Total input bytes.
    pub fn bytes(&self) -> u64 {
        self.table.shards.iter().map(|s| s.bytes).sum()
    }

    /// Reads the entries of a shard in order. Damage is reported at the end at the latest.
    pub fn entries(&self, shard: &ShardFrame) -> Result<Entries<'_>> {
        let frame = frame_reader(&*self.input, shard.frame)?;
        Ok(Entries {
            lines: BufReader::with_capacity(64 << 10, frame),
            line: Vec::new(),
            hasher: Hasher::new(),
            left: shard.samples,
            expected: shard.blake3,
            name: self.input.name(),
        })
    }

    /// What scan skipped.
    pub fn skipped(&self) -> Result<Vec<SkipRecord>> {
        let mut lines = BufReader::new(frame_reader(&*self.input, self.table.skipped)?);
        let (mut line, mut records) = (Vec::new(), Vec::new());
        while read_line_of(&mut lines, &mut line)? {
            records.push(parse(&line)?);
            line.clear();
        }
        Ok(records)
    }

    /// Number of inputs that scan skipped.
    pub fn skips(&self) -> u64 {
        self.table.skips
    }
}

fn read_table(input: &dyn Input) -> Result<(FrameTable, PlanHeader)> {
    let len = input.len().ok_or_else(|| Error::unsupported("a plan must be a plain file"))?;
    let mut trailer = [0; TRAILER_LEN];
    let at = len.checked_sub(TRAILER_LEN as u64).ok_or_else(no_plan)?;
    input.read_at(at, &mut trailer)?;
    let trailer = Trailer::decode(&trailer).ok_or_else(no_plan)?;
    let table: FrameTable = read_line(input, trailer.table)?;
    let header: PlanHeader = read_line(input, table.header)?;
    if header.packhorse_plan != PlanHeader::VERSION {
        let message =
            format!("is a plan of version {}; this build reads version {}", header.packhorse_plan, PlanHeader::VERSION);
        return Err(Error::unsupported(message));
    }
    Ok((table, header))
}

fn no_plan() -> Error {
    Error::content("is not a plan, or is cut short")
}

/// Reads a frame's document piece by piece: a table of a million shards takes 250 MB as text.
fn read_line<T: DeserializeOwned>(input: &dyn Input, frame: FrameExtent) -> Result<T> {
    let text = BufReader::with_capacity(1 << 17, frame_reader(input, frame)?.take(DOCUMENT_LIMIT));
    serde_json::from_reader(text).or_else(|e| match e.is_io() {
        true => Err(std::io::Error::from(e)).context("read the plan"),
        false => Err(damaged(&e)),
    })
}

fn parse<T: DeserializeOwned>(line: &[u8]) -> Result<T> {
    serde_json::from_slice(line).map_err(|e| damaged(&e))
}

fn damaged(error: &dyn std::fmt::Display) -> Error {
    let hint = "remove the file, and store the same plan again with the command that made it";
    Error::content(format!("the plan is damaged: {error}")).hint(hint)
}

fn frame_reader(input: &dyn Input, frame: FrameExtent) -> Result<Box<dyn Read + Send + '_>> {
    let end = frame.offset.checked_add(frame.len).filter(|end| input.len().is_some_and(|len| *end <= len));
    end.ok_or_else(no_plan)?;
    let range = InputRange { input, offset: frame.offset, len: frame.len };
    let decoder = zstd::Decoder::new(range).context("read the plan")?.single_frame();
    Ok(Box::new(Damage(decoder)))
}

/// Turns decompression errors into `Content`: the document is damaged, not the disk.
struct Damage<R>(R);

impl<R: Read> Read for Damage<R> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buf).map_err(|e| match e.raw_os_error().is_some() || e.get_ref().is_some_and(|e| e.is::<Error>()) {
            true => e,
            false => damaged(&e).into(),
        })
    }
}

/// Iterates over the entries of a shard, line by line.
pub struct Entries<'a> {
    lines: BufReader<Box<dyn Read + Send + 'a>>,
    line: Vec<u8>,
    hasher: Hasher,
    left: u64,
    expected: Digest,
    name: &'a str,
}

/// The most bytes of a line: a sample has thousands of fields at most, and rows of metadata are smaller than this.
const LONGEST: u64 = 1 << 30;

/// Appends the next line to `line`; false at the end.
///
/// Errors: `Content` for a line that does not end.
fn read_line_of(lines: &mut impl BufRead, line: &mut Vec<u8>) -> Result<bool> {
    let n = lines.take(LONGEST).read_until(b'\n', line).context("read the plan")?;
    if n as u64 == LONGEST && !line.ends_with(b"\n") {
        return Err(damaged(&"it has an endless line"));
    }
    Ok(n > 0)
}

impl Entries<'_> {
    fn read(&mut self) -> Result<Option<PlanEntry>> {
        self.line.clear();
        if !read_line_of(&mut self.lines, &mut self.line)? {
            return self.end().map(|()| None);
        }
        let entry: PlanEntry = parse(&self.line)?;
        entry.digest_into(&mut self.hasher);
        self.left = self.left.checked_sub(entry.samples()).ok_or_else(|| damaged(&"a shard has too many samples"))?;
        Ok(Some(entry))
    }

    fn end(&self) -> Result<()> {
        if self.left == 0 && Digest::from(self.hasher.finalize()) == self.expected {
            return Ok(());
        }
        Err(damaged(&"a shard's samples do not have their digest"))
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<PlanEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().map_err(|e| e.in_input(self.name)).transpose()
    }
}
