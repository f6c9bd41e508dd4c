//! A shard, and the locations of its samples.

use super::committed::Committed;
use super::default_shuffle::numbers;
use crate::cache::{CacheFile, CacheSource};
use packhorse_core::{
    Error, Input, Kind, Limits, Members, Omission, Options, Registry, Result, SchemaRef, Source, Store, Table, counted,
};
use packhorse_dataset::{Digest, Receipt, decode_index};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// A shard that samples are read from.
pub(crate) struct Shard {
    /// The name of its file, for messages.
    pub(crate) name: String,
    /// The start of keys that are numbers of samples.
    pub(crate) stem: String,
    pub(crate) path: PathBuf,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) source: Arc<dyn Source>,
    pub(crate) samples: u64,
    /// The size of the file.
    pub(crate) bytes: u64,
    /// The digest of the file in a sealed dataset; else of data that identifies the file.
    pub(crate) digest: Digest,
    pub(crate) sealed: bool,
    /// Its receipt in a sealed dataset.
    pub(crate) committed: Option<Committed>,
    /// The modification time of a local third-party file when it was indexed.
    pub(crate) modified: Option<i64>,
    /// The file with that digest and its length, if the shard is opened by another file.
    pub(crate) data: Option<(PathBuf, u64)>,
    pub(crate) split: Option<String>,
    /// The location of its member index, of sealed shards or cached.
    pub(crate) index: Option<(Arc<dyn Store>, PathBuf)>,
    pub(crate) limits: Limits,
    /// Its identity for a cache; `None` for shards of several files.
    pub(crate) near: Option<(Arc<CacheSource>, CacheFile)>,
    /// The columns that another reader of it found.
    pub(super) columns: Option<SchemaRef>,
    /// Its content, found when it was opened without an index.
    pub(crate) content: OnceLock<Content>,
}

/// The locations of the samples of a shard.
#[derive(Clone)]
pub(crate) enum Content {
    /// Members at known ranges.
    Members(Arc<Members>),
    /// Rows of typed values; if items are not samples, `starts` are the items at which samples begin.
    Table {
        schema: SchemaRef,
        items: u64,
        /// About the bytes of a sample in memory.
        sample_bytes: u64,
        starts: Option<Arc<[u64]>>,
        /// The fields that can't be read.
        omitted: Arc<[Omission]>,
    },
}

impl Content {
    pub(crate) fn samples(&self) -> u64 {
        match self {
            Content::Members(members) => members.samples() as u64,
            Content::Table { starts: Some(starts), .. } => starts.len() as u64,
            Content::Table { items, .. } => *items,
        }
    }

    /// The content of `table`; if its items are not samples, it is scanned.
    fn of(table: &dyn Table) -> Result<Self> {
        let info = table.info()?;
        let starts = if info.counted {
            None
        } else {
            let mut starts = Vec::new();
            table.starts(&mut |start| {
                starts.push(start);
                Ok(())
            })?;
            Some(starts.into())
        };
        let samples = starts.as_ref().map_or(info.items, |starts: &Arc<[u64]>| starts.len() as u64);
        let bytes = table.decoded_bytes().unwrap_or(0).max(info.bytes);
        let sample_bytes = (bytes / samples.max(1)).max(numbers(&info.schema).0);
        let omitted = info.omitted.into();
        Ok(Content::Table { schema: info.schema, items: info.items, sample_bytes, starts, omitted })
    }
}

/// The reason why a compressed container can't be opened as a dataset.
pub(super) const COMPRESSED: &str = "is compressed as a whole, so its samples can't be read one by one; decompress it, pack it again, \
                                     or read it as a stream";

/// A shard's content, and its table if rows are typed.
type Found = (Content, Option<Box<dyn Table>>);

/// What a shard holds.
pub(crate) struct Looked {
    pub(crate) content: Content,
    /// Its table, if rows are typed.
    pub(crate) table: Option<Box<dyn Table>>,
    /// Whether its members have checksums, of the index of a sealed shard.
    pub(crate) checksums: bool,
    /// Whether the manifest vouches for them.
    pub(crate) vouched: bool,
}

/// Reads the content of `input`, from headers if they suffice.
pub(crate) fn look(source: &dyn Source, input: &Arc<dyn Input>) -> Result<Found> {
    if source.lists() {
        if input.len().is_none() {
            return Err(Error::unsupported(COMPRESSED).in_input(input.name()));
        }
        return Ok((Content::Members(Arc::new(Members::list(source, &**input)?)), None));
    }
    let table = source.open(Arc::clone(input))?;
    Ok((Content::of(&*table)?, Some(table)))
}

impl Shard {
    /// Whether samples are rows of typed values.
    pub(crate) fn is_table(&self) -> bool {
        match self.content.get() {
            Some(content) => matches!(content, Content::Table { .. }),
            None => self.index.is_none(),
        }
    }

    /// Whether its rows are known to have none of these fields, so that none would be left to read.
    pub(super) fn lacks(&self, names: &[String]) -> bool {
        let known = self.known_schema();
        known.is_some_and(|schema| names.iter().all(|name| schema.column_with_name(name).is_none()))
    }

    /// The columns of its rows, as far as they are known.
    fn known_schema(&self) -> Option<&SchemaRef> {
        match self.content.get() {
            Some(Content::Table { schema, .. }) => Some(schema),
            _ => self.columns.as_ref(),
        }
    }

    /// The fields that can't be read, as far as it is known.
    pub(super) fn omitted(&self) -> &[Omission] {
        match self.content.get() {
            Some(Content::Table { omitted, .. }) => omitted,
            _ => &[],
        }
    }

    /// The same shard, read by `source`.
    pub(super) fn read_by(&self, source: &Arc<dyn Source>) -> Self {
        Self {
            name: self.name.clone(),
            stem: self.stem.clone(),
            path: self.path.clone(),
            store: Arc::clone(&self.store),
            source: Arc::clone(source),
            committed: self.committed.clone(),
            data: self.data.clone(),
            split: self.split.clone(),
            index: self.index.clone(),
            near: self.near.clone(),
            columns: self.known_schema().cloned(),
            content: OnceLock::new(),
            ..*self
        }
    }

    /// Its content, from its index or as found when it was opened; and its table if rows are typed. `input` was opened
    /// before, so that a receipt of the manifest is the receipt of its bytes.
    pub(crate) fn look(&self, input: &Arc<dyn Input>) -> Result<Looked> {
        let receipt = match &self.committed {
            Some(committed) => committed.read(&*self.store)?,
            None => None,
        };
        if let Some(content) = self.content.get() {
            let open = || self.source.open(Arc::clone(input));
            let table = matches!(content, Content::Table { .. }).then(open).transpose()?;
            return Ok(Looked { content: content.clone(), table, checksums: false, vouched: false });
        }
        let index = match &self.index {
            // The headers of the shard tell the same, but for checksums.
            Some((store, path)) => match self.read_index(&**store, path, receipt.as_ref()) {
                Err(error) if error.is_not_found() => None,
                index => Some(index?),
            },
            None => None,
        };
        let checksums = self.sealed && index.is_some();
        let (content, table) = match index {
            Some(members) => (Content::Members(Arc::new(members)), None),
            None => look(&*self.source, input)?,
        };
        if content.samples() != self.samples {
            let message = format!("has {} and should have {}", counted(content.samples(), "sample"), self.samples);
            return Err(Error::content(message).in_input(&self.name));
        }
        Ok(Looked { content, table, checksums, vouched: checksums && receipt.is_some() })
    }

    /// The names of the fields in its index; `None` where that is missing or damaged.
    pub(crate) fn indexed_fields(&self) -> Result<Option<Vec<String>>> {
        let Some((store, index)) = &self.index else { return Ok(None) };
        match self.read_index(&**store, index, None) {
            Err(error) if error.is_not_found() || error.kind() == Kind::Content => Ok(None),
            members => Ok(Some(members?.fields().to_vec())),
        }
    }

    /// The same of its members, for which it is read.
    pub(crate) fn fields_of_members(&self) -> Result<Vec<String>> {
        match look(&*self.source, &Arc::from(self.open()?))?.0 {
            Content::Members(members) => Ok(members.fields().to_vec()),
            Content::Table { .. } => Ok(Vec::new()),
        }
    }

    /// Reads the index at `path`, and compares it with the shard's receipt.
    fn read_index(&self, store: &dyn Store, path: &Path, receipt: Option<&Receipt>) -> Result<Members> {
        let input = store.open(path)?;
        let bytes = input.read_all(self.limits.blob)?;
        let name = path.file_name().and_then(|name| name.to_str());
        let record = receipt.and_then(|receipt| receipt.files.iter().find(|file| Some(&*file.name) == name));
        if record.is_some_and(|record| record.blake3 != Digest::of(&bytes)) {
            let error =
                Error::content("its bytes do not have the recorded digest: it was damaged, or is of another version");
            let hint = "`packhorse verify` says what else is, `packhorse repair` mends what it can";
            return Err(error.hint(hint).in_input(input.name()));
        }
        let members = decode_index(&bytes, &self.limits).map_err(|error| error.in_input(input.name()))?;
        let beyond = |m: usize| members.member(m).is_some_and(|m| m.offset.saturating_add(m.len) > self.bytes);
        if (0..members.len()).any(beyond) {
            let message = format!("is the index of a larger file than {}, which was changed or cut short", self.name);
            return Err(Error::content(message).in_input(input.name()));
        }
        Ok(members)
    }

    /// Bytes of its files.
    pub(super) fn stored(&self) -> u64 {
        let data = self.data.as_ref().map_or(0, |(_, bytes)| *bytes);
        self.bytes.saturating_add(data)
    }

    /// Bytes of the file that has the values: an `.idx` is small beside its `.bin`.
    pub(crate) fn main_bytes(&self) -> u64 {
        self.data.as_ref().map_or(self.bytes, |(_, bytes)| *bytes)
    }

    /// Opens the file; an error if its size has changed.
    pub(crate) fn open(&self) -> Result<Box<dyn Input>> {
        self.open_data()?;
        let input = self.checked(self.store.open(&self.path)?)?;
        let now = if self.modified.is_some() { input.stat()?.map(|stat| stat.mtime) } else { None };
        if now != self.modified {
            let error = Error::new(Kind::Changed, "was written again since the dataset was opened");
            return Err(error.hint("open the dataset again").in_input(input.name()));
        }
        Ok(input)
    }

    /// Opens the separate file of its bytes, if it has one.
    pub(crate) fn open_data(&self) -> Result<Option<Box<dyn Input>>> {
        let Some((path, bytes)) = &self.data else { return Ok(None) };
        self.of_length(self.store.open(path)?, *bytes).map(Some)
    }

    /// `input`, if its size is that of this shard's file.
    pub(crate) fn checked(&self, input: Box<dyn Input>) -> Result<Box<dyn Input>> {
        self.of_length(input, self.bytes)
    }

    /// `input`, unless its length is known and is not `bytes`. The receipt tells another version of the dataset from damage.
    fn of_length(&self, input: Box<dyn Input>, bytes: u64) -> Result<Box<dyn Input>> {
        let Some(len) = input.len().filter(|len| *len != bytes) else { return Ok(input) };
        let receipt = self.committed.as_ref().map(|committed| committed.read(&*self.store));
        match receipt {
            Some(Err(error)) => Err(error),
            _ => {
                let message = format!("has {len} bytes and should have {bytes}: it was changed or cut short");
                Err(Error::content(message).in_input(input.name()))
            }
        }
    }
}

/// The file that opens a shard: the `.idx` for a `.bin`.
pub(crate) fn main_path(registry: &Registry, store: &dyn Store, path: &Path) -> Result<PathBuf> {
    let name = path.as_os_str().as_encoded_bytes();
    if registry.by_name(name).is_some() {
        return Ok(path.to_owned());
    }
    for main in registry.mains(name).filter_map(|main| String::from_utf8(main).ok().map(PathBuf::from)) {
        if exists(store, &main)? {
            return Ok(main);
        }
    }
    Ok(path.to_owned())
}

fn exists(store: &dyn Store, path: &Path) -> Result<bool> {
    match store.stat(path, true) {
        Ok(_) => Ok(true),
        Err(error) if error.is_absent() => Ok(false),
        Err(error) => Err(error.in_input(path.display())),
    }
}

/// The source of a format with these options.
pub(crate) fn source(registry: &Registry, id: &str, options: &Options, limits: Limits) -> Result<Arc<dyn Source>> {
    registry.get(id)?.source(options, limits).map(Arc::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::{Blocks, DataType, FieldType, Schema, TableInfo};
    use std::ops::Range;

    /// Rows of a vector of 1,000 numbers and more, which take 500 bytes in a file.
    struct Packed(Option<u64>);

    impl Table for Packed {
        fn info(&self) -> Result<TableInfo> {
            let field = FieldType::Tensor { element: DataType::Float32, shape: vec![1000] }.field("x", false);
            let schema = Arc::new(Schema::new(vec![field]));
            Ok(TableInfo { schema, items: 10, bytes: 500, counted: true, omitted: Vec::new() })
        }

        fn decoded_bytes(&self) -> Option<u64> {
            self.0
        }

        fn rows(&self, _: Range<u64>) -> Result<Blocks<'_>> {
            Err(Error::bug("not read"))
        }
    }

    #[test]
    fn samples_count_as_what_they_take_in_memory() {
        for (decoded, wanted) in [(None, 4000), (Some(10), 4000), (Some(70_000), 7000)] {
            let Content::Table { sample_bytes, .. } = Content::of(&Packed(decoded)).unwrap() else { panic!() };
            assert_eq!(sample_bytes, wanted);
        }
    }
}
