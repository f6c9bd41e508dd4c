//! A partial listing: what one part of a scan found, so that one plan can be made of the listings of all parts.
//!
//! On disk, `.listings/3-of-64.jsonl.zst` is a chain of Zstandard frames (RFC 8878), which `zstd -dc` reads as JSON lines:
//!
//! ```text
//! first line   the header: a [`ListingHeader`]
//! lines        what was found: a [`ListingRecord`] each, in any order but after the lines that it refers to
//! last line    a [`ListingRecord::End`], with the digest of all lines before
//! ```

use crate::frames::{Frames, bug};
use crate::{Digest, FieldRecord, PathText};
use packhorse_core::{Code, Context, Error, Input, Kind, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};

/// The folder of partial listings, in the dataset's folder.
pub const LISTINGS: &str = ".listings";

/// How the names of listings end.
pub const LISTING_SUFFIX: &str = ".jsonl.zst";

/// The name of the listing of part `index` of `count`, in the dataset's folder.
pub fn listing_name(index: u32, count: u32) -> String {
    format!("{LISTINGS}/{index}-of-{count}{LISTING_SUFFIX}")
}

/// The part and the number of parts that the name of a file in [`LISTINGS`] says.
pub fn listed_part(name: &str) -> Option<(u32, u32)> {
    let (index, count) = name.strip_suffix(LISTING_SUFFIX)?.split_once("-of-")?;
    let (index, count) = (index.parse().ok()?, count.parse().ok()?);
    // Other names of the same numbers are not ours.
    (listing_name(index, count) == format!("{LISTINGS}/{name}")).then_some((index, count))
}

/// The first line of a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListingHeader {
    /// Version of this layout.
    pub packhorse_listing: u32,
    /// The part, as `3/64`.
    pub part: String,
    /// Folders that paths are relative to.
    pub roots: Vec<PathText>,
    /// Digest of the inputs: folders, single files, samples of views.
    pub inputs: Digest,
    /// The settings that decide what a scan finds, by name.
    pub settings: BTreeMap<String, String>,
    /// The settings that decide how tables are read, by name. Without tables they decide nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub table_settings: BTreeMap<String, String>,
    /// What decides how text is counted and cut, by name. Without text it decides nothing.
    pub text_settings: BTreeMap<String, String>,
}

impl ListingHeader {
    /// The layout version that this build writes and reads.
    pub const VERSION: u32 = 1;
}

/// A line of a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ListingRecord {
    /// Columns that encoded files decode to. Later files name them by their position among these lines, from 0.
    Columns(Vec<FieldRecord>),
    /// Files of one folder.
    Files(ListedFiles),
    /// Members of one archive.
    Members(ListedMembers),
    /// An input of typed rows.
    Table(Box<ListedTable>),
    /// The next samples of the last table, of kind [`TableKind::Counted`]: the distance of each start to the one before.
    Starts(Vec<u64>),
    /// A sealed dataset whose shards are among the inputs.
    Sealed(ListedDataset),
    /// Samples of the view at a root: shard, offset, position and joined row of each.
    Chosen {
        /// Index into [`ListingHeader::roots`].
        root: u32,
        /// The samples.
        places: Vec<(u32, u64, u64, u64)>,
    },
    /// A bad input.
    Fault(Box<ListedFault>),
    /// Inputs that are ignored for one reason.
    Ignored {
        /// The reason.
        why: String,
        /// Their number.
        inputs: u64,
        /// The first by name, relative to its root.
        first: PathText,
    },
    /// The end.
    End(ListingEnd),
}

/// Files of one folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedFiles {
    /// Index into [`ListingHeader::roots`].
    #[serde(rename = "r")]
    pub root: u32,
    /// The folder, relative to its root.
    #[serde(rename = "d")]
    pub folder: PathText,
    /// Name, length in bytes and modification time (nanoseconds since 1970) of each file.
    #[serde(rename = "f")]
    pub files: Vec<(PathText, u64, i64)>,
    /// The columns that each file decodes to ([`ListingRecord::Columns`]), `None` for a file that was not looked at; empty if
    /// none was.
    #[serde(rename = "c", default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<Option<u32>>,
}

/// Members of one archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedMembers {
    /// Index into [`ListingHeader::roots`].
    #[serde(rename = "r")]
    pub root: u32,
    /// The archive's path, relative to its root.
    #[serde(rename = "p")]
    pub path: PathText,
    /// The archive's length in bytes.
    #[serde(rename = "n")]
    pub size: u64,
    /// The archive's modification time.
    #[serde(rename = "t")]
    pub mtime: i64,
    /// Name, offset and length of each member.
    #[serde(rename = "m")]
    pub members: Vec<(PathText, u64, u64)>,
}

/// An input of typed rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedTable {
    /// Index into [`ListingHeader::roots`].
    pub root: u32,
    /// Its path, relative to its root.
    pub path: PathText,
    /// Its length in bytes.
    pub size: u64,
    /// Its modification time.
    pub mtime: i64,
    /// Format id.
    pub format: String,
    /// The columns of its samples.
    pub schema: Vec<FieldRecord>,
    /// Arrow metadata of the schema.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// The number of items.
    pub items: u64,
    /// About the bytes of all items.
    pub bytes: u64,
    /// The kind of its items.
    pub kind: TableKind,
    /// For compressed text that is divided: its decompressed length and the seek points, each with its offset in the file
    /// and its decompressed offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<(u64, Vec<(u64, u64)>)>,
    /// Fields that its samples lack, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub omitted: Vec<(String, String)>,
    /// Those of them that have no value.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub empty: BTreeSet<String>,
}

/// The kind of a table's items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TableKind {
    /// Samples.
    Samples,
    /// Positions (bytes of text), in a range of which any number of samples starts.
    Positions,
    /// Samples that start at known positions, which [`ListingRecord::Starts`] lists.
    Counted {
        /// The number of positions.
        positions: u64,
    },
}

/// A sealed dataset whose shards are among the inputs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ListedDataset {
    /// Index into [`ListingHeader::roots`].
    pub root: u32,
    /// Its folder, relative to its root.
    pub folder: PathText,
    /// Whether all of it is an input, with its record of skipped samples.
    pub whole: bool,
}

/// A bad input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedFault {
    /// The kind of the error.
    pub kind: String,
    /// The code of the error.
    pub code: String,
    /// What happened.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// The root that `input` is relative to, an index into [`ListingHeader::roots`]; absent for a path of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<u32>,
    /// The sample's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<String>,
    /// The field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<u64>,
}

/// The last line of a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListingEnd {
    /// Digest of the inputs and of the folders that all parts list. Listings with other digests are not parts of one scan.
    pub shared: Digest,
    /// Digest of all lines before.
    pub blake3: Digest,
}

impl ListedFault {
    /// The fault that `error` reports. `input` is its input relative to a root, if it is below one.
    pub fn of(error: &Error, input: Option<(u32, &str)>) -> Self {
        Self {
            kind: error.kind().name().to_owned(),
            code: error.code().name().to_owned(),
            message: error.message().to_owned(),
            hint: error.hints().map(str::to_owned),
            input: input.map(|(_, path)| path).or(error.input()).map(str::to_owned),
            root: input.map(|(root, _)| root),
            sample: error.sample().map(str::to_owned),
            field: error.field().map(str::to_owned),
            row: error.row(),
        }
    }

    /// The error again, with this input.
    ///
    /// Errors: `Content` for a kind or a code that this build does not know.
    pub fn error(&self, input: Option<String>) -> Result<Error> {
        let unknown = || Error::content(format!("has an error of the unknown kind {}, code {}", self.kind, self.code));
        let kind = Kind::ALL.iter().find(|kind| kind.name() == self.kind).ok_or_else(unknown)?;
        let code = Code::ALL.iter().find(|code| code.name() == self.code).ok_or_else(unknown)?;
        let error = Error::new(*kind, &*self.message).with_code(*code);
        let error = self.hint.iter().fold(error, Error::hint);
        let error = input.iter().fold(error, Error::in_input);
        let error = self.sample.iter().fold(error, Error::in_sample);
        let error = self.field.iter().fold(error, Error::in_field);
        Ok(self.row.iter().fold(error, |error, row| error.at_row(*row)))
    }
}

/// Frames end after about this many bytes of text.
const FRAME: u64 = 4 << 20;

/// The most bytes of a line: that of 512 files with the longest names a file system has, many times over.
const LONGEST: u64 = 64 << 20;

/// Writes a listing in constant memory: call `new`, then `record` for each record, then `finish`.
pub struct ListingWriter<'a> {
    frames: Frames<'a>,
    hasher: blake3::Hasher,
    line: Vec<u8>,
    /// Bytes of text in the open frame.
    open: u64,
}

impl<'a> ListingWriter<'a> {
    /// Writes the header of a new listing to `out`.
    pub fn new(out: impl Write + Send + 'a, header: &ListingHeader) -> Result<Self> {
        let frames = Frames::new(out)?;
        let mut writer = Self { frames, hasher: blake3::Hasher::new(), line: Vec::new(), open: 0 };
        writer.write(header)?;
        Ok(writer)
    }

    /// Writes the next record.
    pub fn record(&mut self, record: &ListingRecord) -> Result<()> {
        self.write(record)
    }

    /// Ends the listing. `shared`: see [`ListingEnd::shared`].
    pub fn finish(mut self, shared: Digest) -> Result<()> {
        let blake3 = self.hasher.finalize().into();
        self.write(&ListingRecord::End(ListingEnd { shared, blake3 }))?;
        self.frames.end()?;
        self.frames.close(&[])
    }

    fn write(&mut self, line: &impl Serialize) -> Result<()> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, line).map_err(bug)?;
        self.line.push(b'\n');
        if self.line.len() as u64 > LONGEST {
            return Err(Error::bug("a line of a listing is too long to be read again"));
        }
        self.hasher.update(&self.line);
        self.frames.write_all(&self.line).context("write the listing")?;
        self.open += self.line.len() as u64;
        if self.open >= FRAME {
            self.frames.end()?;
            self.open = 0;
        }
        Ok(())
    }
}

/// Reads a listing line by line.
pub struct ListingReader<'a> {
    name: &'a str,
    lines: BufReader<zstd::Decoder<'static, BufReader<Box<dyn Read + Send + 'a>>>>,
    hasher: blake3::Hasher,
    line: Vec<u8>,
    ended: bool,
}

impl<'a> ListingReader<'a> {
    /// Opens a listing and reads its header.
    ///
    /// Errors: `Content` for anything else, and for another version.
    pub fn open(input: &'a dyn Input) -> Result<(Self, ListingHeader)> {
        let name = input.name();
        let decoder = zstd::Decoder::new(input.stream()?).context("read the listing");
        let lines = BufReader::with_capacity(256 << 10, decoder.map_err(|e| e.in_input(name))?);
        let mut reader = Self { name, lines, hasher: blake3::Hasher::new(), line: Vec::new(), ended: false };
        let header: Option<ListingHeader> = reader.line().map_err(|e| e.in_input(name))?;
        reader.hasher.update(&reader.line);
        match header {
            Some(header) if header.packhorse_listing == ListingHeader::VERSION => Ok((reader, header)),
            Some(header) => {
                let message =
                    format!("is a listing of version {}, which this build does not read", header.packhorse_listing);
                Err(Error::content(message).in_input(name))
            }
            None => Err(damaged("it is empty").in_input(name)),
        }
    }

    fn read(&mut self) -> Result<Option<ListingRecord>> {
        if self.ended {
            return Ok(None);
        }
        let record = self.line()?.ok_or_else(|| Error::cut_short("its last line is missing"))?;
        if let ListingRecord::End(end) = &record {
            let whole = Digest::from(self.hasher.finalize()) == end.blake3;
            self.ended = true;
            if !whole || self.line::<ListingRecord>()?.is_some() {
                return Err(damaged("its lines do not have their digest"));
            }
        } else {
            self.hasher.update(&self.line);
        }
        Ok(Some(record))
    }

    fn line<T: DeserializeOwned>(&mut self) -> Result<Option<T>> {
        self.line.clear();
        let mut limited = (&mut self.lines).take(LONGEST);
        // The decoder's errors are those of damaged frames.
        let n = limited.read_until(b'\n', &mut self.line).map_err(|e| damaged(&e.to_string()).caused_by(e))?;
        match n {
            0 => Ok(None),
            _ if !self.line.ends_with(b"\n") => Err(Error::cut_short("its last line does not end")),
            _ => serde_json::from_slice(&self.line).map(Some).map_err(|e| damaged(&e.to_string())),
        }
    }
}

impl Iterator for ListingReader<'_> {
    type Item = Result<ListingRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().map_err(|e| e.in_input(self.name)).transpose()
    }
}

fn damaged(how: &str) -> Error {
    Error::content(format!("is not a listing, or is damaged: {how}")).hint("scan this part again")
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::Store;
    use packhorse_storage::Local;
    use std::path::Path;

    fn header() -> ListingHeader {
        ListingHeader {
            packhorse_listing: 1,
            part: "3/64".into(),
            roots: vec![PathText::new(b"/data/photos")],
            inputs: Digest::of(b"inputs"),
            settings: BTreeMap::from([("exclude".to_owned(), "*.tmp".to_owned())]),
            table_settings: BTreeMap::new(),
            text_settings: BTreeMap::new(),
        }
    }

    fn records() -> Vec<ListingRecord> {
        let fault = Error::content("is cut short").hint("leave it out").in_sample("a").in_field("jpg").at_row(7);
        let table = ListedTable {
            root: 0,
            path: PathText::new(b"x.jsonl.zst"),
            size: 10,
            mtime: -5,
            format: "text".into(),
            schema: Vec::new(),
            metadata: BTreeMap::new(),
            items: 3,
            bytes: 99,
            kind: TableKind::Counted { positions: 99 },
            frames: Some((99, vec![(0, 0), (5, 50)])),
            omitted: vec![("f".into(), "a map".into())],
            empty: BTreeSet::from(["f".into()]),
        };
        let files = vec![(PathText::new(b"1.jpg"), 7, 1_700_000_000_000_000_000), (PathText::new(b"\xff.jpg"), 0, -1)];
        let members = vec![(PathText::new(b"a/1.jpg"), 512, 7)];
        vec![
            ListingRecord::Files(ListedFiles {
                root: 0,
                folder: PathText::new(b"a"),
                files,
                columns: vec![Some(0), None],
            }),
            ListingRecord::Members(ListedMembers {
                root: 0,
                path: PathText::new(b"x.tar"),
                size: 9,
                mtime: 2,
                members,
            }),
            ListingRecord::Table(Box::new(table)),
            ListingRecord::Starts(vec![0, 30, 60]),
            ListingRecord::Sealed(ListedDataset { root: 0, folder: PathText::new(b""), whole: true }),
            ListingRecord::Chosen { root: 0, places: vec![(1, 2, 3, 4)] },
            ListingRecord::Fault(Box::new(ListedFault::of(&fault, Some((0, "x.jpg"))))),
            ListingRecord::Ignored { why: "hidden".into(), inputs: 2, first: PathText::new(b".x") },
        ]
    }

    fn written(records: &[ListingRecord]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = ListingWriter::new(&mut bytes, &header()).unwrap();
        records.iter().for_each(|record| writer.record(record).unwrap());
        writer.finish(Digest::of(b"folders")).unwrap();
        bytes
    }

    fn read(path: &Path) -> Result<(ListingHeader, Vec<ListingRecord>)> {
        let file = Local.open(path)?;
        let (reader, header) = ListingReader::open(&*file)?;
        Ok((header, reader.collect::<Result<_>>()?))
    }

    #[test]
    fn a_listing_survives_and_damage_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let (path, bytes) = (dir.path().join("l"), written(&records()));
        std::fs::write(&path, &bytes).unwrap();
        let (found, lines) = read(&path).unwrap();
        assert_eq!(found, header());
        let (end, lines) = lines.split_last().unwrap();
        assert_eq!(lines, records());
        assert!(matches!(end, ListingRecord::End(end) if end.shared == Digest::of(b"folders")));
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x10;
            std::fs::write(&path, &bytes).unwrap();
            // Zstandard has bits that decide nothing.
            let same = |(found, lines): (ListingHeader, Vec<_>)| found == header() && lines.starts_with(&records());
            assert!(read(&path).is_ok_and(same) || read(&path).is_err(), "a flipped bit at {at}");
            std::fs::write(&path, &bytes[..at]).unwrap();
            assert!(read(&path).is_err(), "{at} bytes");
        }
    }

    #[test]
    fn long_listings_are_several_frames() {
        let files = (0..512).map(|n| (PathText::new(format!("{n:0100}.jpg").as_bytes()), n, 0)).collect();
        let record =
            ListingRecord::Files(ListedFiles { root: 0, folder: PathText::new(b"a"), files, columns: Vec::new() });
        let (dir, all) = (tempfile::tempdir().unwrap(), vec![record; 200]);
        let path = dir.path().join("l");
        std::fs::write(&path, written(&all)).unwrap();
        let (_, lines) = read(&path).unwrap();
        assert!(lines.len() == 201 && lines[..200] == all);
    }

    #[test]
    fn errors_come_back_as_they_were() {
        let error = Error::new(Kind::Limit, "is too large").with_code(Code::OverLimit).hint("raise `memory`");
        let error = error.in_input("x/a.npy").in_sample("a").in_field("npy").at_row(3);
        let again = ListedFault::of(&error, None).error(Some("x/a.npy".into())).unwrap();
        assert_eq!(format!("{again:?}"), format!("{error:?}"));
        let strange = ListedFault { kind: "odd".into(), ..ListedFault::of(&error, None) };
        assert!(strange.error(None).is_err());
    }

    #[test]
    fn names_say_the_part() {
        assert_eq!(listing_name(3, 64), ".listings/3-of-64.jsonl.zst");
        assert_eq!(listed_part("3-of-64.jsonl.zst"), Some((3, 64)));
        for other in ["3-of-64.jsonl", "03-of-64.jsonl.zst", "+3-of-64.jsonl.zst", "x-of-2.jsonl.zst", ".x"] {
            assert_eq!(listed_part(other), None, "{other}");
        }
    }
}
