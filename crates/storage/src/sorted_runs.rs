//! What an external sort keeps on disk: sorted runs of records, in an unnamed temporary file, and their merge.
//!
//! Records are gathered into blocks, which are Zstandard frames (RFC 8878). Memory: the table of blocks, about a ten-thousandth of the
//! records, and while runs are merged one block of each.

use packhorse_core::{Context, Error, Result};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use zstd::bulk::Decompressor;

/// Fast, and names shrink well at any level.
const LEVEL: i32 = 1;

/// Runs of records, each a key and a value.
pub struct SortedRuns {
    file: File,
    dir: PathBuf,
    at: u64,
    runs: Vec<Vec<Block>>,
}

/// A block in the file.
#[derive(Clone, Copy)]
struct Block {
    offset: u64,
    len: u32,
    /// Its length, decompressed.
    bytes: u32,
}

impl SortedRuns {
    /// No run, in a file of the folder `dir` that is gone when this is dropped, even after a crash.
    ///
    /// Errors: `Environment` if the file can't be made.
    pub fn new(dir: &Path) -> Result<Self> {
        let file = scratch_file(dir)?;
        Ok(Self { file, dir: dir.to_owned(), at: 0, runs: Vec::new() })
    }

    /// Begins a run.
    pub fn begin(&mut self) {
        self.runs.push(Vec::new());
    }

    /// Adds records to the run, whose keys ascend.
    pub fn add(&mut self, records: &EncodedRecords) -> Result<()> {
        let EncodedRecords { frame, bytes } = records;
        let written = self.file.write_all_at(frame, self.at).context("write a temporary file");
        written.map_err(|e| in_scratch(e, &self.dir))?;
        let size = |len: usize| u32::try_from(len).map_err(|_| Error::bug("a block of 4 GB"));
        let block = Block { offset: self.at, len: size(frame.len())?, bytes: size(*bytes)? };
        self.runs.last_mut().ok_or_else(|| Error::bug("a record before the first run"))?.push(block);
        self.at += frame.len() as u64;
        Ok(())
    }

    /// All records, by ascending keys; of equal keys those of earlier runs come first.
    pub fn merge(&self) -> Result<Merge<'_>> {
        let zstd = Decompressor::new().context("start zstd")?;
        let mut merge =
            Merge { runs: self, zstd, frame: Vec::new(), cursors: Vec::new(), heads: BinaryHeap::new(), now: None };
        for run in 0..self.runs.len() {
            merge.cursors.push(Cursor::default());
            let mut head = Head { key: Vec::new(), value: Vec::new(), run };
            if merge.advance(&mut head)? {
                merge.heads.push(head);
            }
        }
        Ok(merge)
    }
}

/// Some records of a run, encoded for [`SortedRuns::add`]: threads may encode several at once.
pub struct EncodedRecords {
    frame: Vec<u8>,
    bytes: usize,
}

impl EncodedRecords {
    /// Encodes the records that `each` gives: it is called with what takes one. Best a few thousand, which a reader holds at once.
    pub fn new(each: impl FnOnce(&mut dyn FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()>) -> Result<Self> {
        let mut text = Vec::new();
        each(&mut |key, value| append(&mut text, key, value))?;
        Ok(Self { frame: zstd::bulk::compress(&text, LEVEL).context("compress")?, bytes: text.len() })
    }
}

fn append(text: &mut Vec<u8>, key: &[u8], value: &[u8]) -> Result<()> {
    for part in [key, value] {
        let len = u32::try_from(part.len()).map_err(|_| Error::bug("a record of 4 GB"))?;
        text.extend_from_slice(&len.to_le_bytes());
    }
    text.extend_from_slice(key);
    text.extend_from_slice(value);
    Ok(())
}

/// A file without a name in the folder `dir`, which is gone when it is closed, even after a crash.
///
/// Errors: `Environment` if it can't be made.
pub fn scratch_file(dir: &Path) -> Result<File> {
    tempfile::tempfile_in(dir).context("make a temporary file").map_err(|e| in_scratch(e, dir))
}

fn in_scratch(error: Error, dir: &Path) -> Error {
    error.hint("TMPDIR names a folder with more room").in_input(dir.display())
}

/// A merge of sorted runs.
pub struct Merge<'a> {
    runs: &'a SortedRuns,
    zstd: Decompressor<'static>,
    frame: Vec<u8>,
    cursors: Vec<Cursor>,
    heads: BinaryHeap<Head>,
    /// The record that was given last.
    now: Option<Head>,
}

/// Where a run is read.
#[derive(Default)]
struct Cursor {
    text: Vec<u8>,
    at: usize,
    /// The next block.
    block: usize,
}

/// The next record of a run.
struct Head {
    key: Vec<u8>,
    value: Vec<u8>,
    run: usize,
}

impl Merge<'_> {
    /// Goes to the next record, its key and its value; `None` after the last one.
    #[expect(clippy::should_implement_trait, reason = "records lie in memory that is used again")]
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.now = match self.now.take() {
            None => self.heads.pop(),
            Some(mut head) => match self.advance(&mut head)? {
                false => self.heads.pop(),
                true => {
                    if let Some(mut top) = self.heads.peek_mut().filter(|top| **top > head) {
                        std::mem::swap(&mut *top, &mut head);
                    }
                    Some(head)
                }
            },
        };
        Ok(self.current())
    }

    /// The record that [`next`](Self::next) went to.
    pub fn current(&self) -> Option<(&[u8], &[u8])> {
        self.now.as_ref().map(|head| (&head.key[..], &head.value[..]))
    }

    /// Reads the next record of a run; `false` at its end.
    fn advance(&mut self, head: &mut Head) -> Result<bool> {
        let Self { runs, zstd, frame, cursors, .. } = self;
        let damaged = || Error::bug("a temporary file has other bytes than were written");
        let cursor = cursors.get_mut(head.run).ok_or_else(damaged)?;
        while cursor.at == cursor.text.len() {
            let Some(block) = runs.runs.get(head.run).and_then(|blocks| blocks.get(cursor.block)) else {
                return Ok(false);
            };
            frame.resize(block.len as usize, 0);
            let read = runs.file.read_exact_at(frame, block.offset).context("read a temporary file");
            read.map_err(|e| in_scratch(e, &runs.dir))?;
            cursor.text.clear();
            cursor.text.reserve(block.bytes as usize);
            zstd.decompress_to_buffer(frame, &mut cursor.text).context("decompress a temporary file")?;
            (cursor.at, cursor.block) = (0, cursor.block + 1);
        }
        let mut take = |len: usize| {
            let part = cursor.text.get(cursor.at..cursor.at + len).ok_or_else(damaged)?;
            cursor.at += len;
            Ok::<&[u8], Error>(part)
        };
        let mut lens = [0; 2];
        for len in &mut lens {
            *len = u32::from_le_bytes(take(4)?.try_into().map_err(|_| damaged())?) as usize;
        }
        for (part, len) in [&mut head.key, &mut head.value].into_iter().zip(lens) {
            part.clear();
            part.extend_from_slice(take(len)?);
        }
        Ok(true)
    }
}

impl Head {
    /// The least is the greatest of a heap.
    fn order(&self, other: &Self) -> Ordering {
        other.key.cmp(&self.key).then_with(|| other.run.cmp(&self.run))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.order(other) == Ordering::Equal
    }
}

impl Eq for Head {}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Records = Vec<(Vec<u8>, Vec<u8>)>;

    fn encoded<'a>(mut records: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> EncodedRecords {
        EncodedRecords::new(|push| records.try_for_each(|(key, value)| push(key, value))).unwrap()
    }

    fn merged(runs: &SortedRuns) -> Records {
        let (mut merge, mut found) = (runs.merge().unwrap(), Vec::new());
        while let Some((key, value)) = merge.next().unwrap() {
            found.push((key.to_vec(), value.to_vec()));
        }
        found
    }

    proptest! {
        #[test]
        fn a_merge_gives_all_records_in_order(
            mut all in proptest::collection::vec(proptest::collection::vec((".{0,6}", ".{0,9}"), 0..40), 0..12),
        ) {
            let mut runs = SortedRuns::new(&std::env::temp_dir()).unwrap();
            for run in &mut all {
                run.sort_by(|a, b| a.0.as_bytes().cmp(b.0.as_bytes()));
                runs.begin();
                for piece in run.chunks(run.len().div_ceil(2).max(1)) {
                    runs.add(&encoded(piece.iter().map(|(key, value)| (key.as_bytes(), value.as_bytes())))).unwrap();
                }
            }
            let bytes = |(key, value): &(String, String)| (key.clone().into_bytes(), value.clone().into_bytes());
            let mut wanted: Records = all.concat().iter().map(bytes).collect();
            // Stable: of equal keys those of earlier runs, and earlier ones of a run, come first.
            wanted.sort_by(|a, b| a.0.cmp(&b.0));
            prop_assert_eq!(merged(&runs), wanted.clone());
            prop_assert_eq!(merged(&runs), wanted, "again");
        }
    }

    #[test]
    fn long_runs_take_many_blocks() {
        let mut runs = SortedRuns::new(&std::env::temp_dir()).unwrap();
        for run in 0..3u32 {
            runs.begin();
            for first in (0..60_000u32).step_by(10_000) {
                let keys: Vec<[u8; 4]> = (first..first + 10_000).map(|n| (3 * n + run).to_be_bytes()).collect();
                runs.add(&encoded(keys.iter().map(|key| (&key[..], &[7; 20][..])))).unwrap();
            }
        }
        assert!(runs.runs.iter().all(|blocks| blocks.len() > 5));
        let keys = merged(&runs).into_iter().map(|(key, _)| key);
        assert!(keys.eq((0..180_000u32).map(|n| n.to_be_bytes().to_vec())));
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = SortedRuns::new(Path::new("/no/folder")).map(drop).unwrap_err().to_string();
        assert!(error.contains("/no/folder") && error.contains("TMPDIR"), "{error}");
    }
}
