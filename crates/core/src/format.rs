//! The traits of a format. One crate under `formats/` implements these traits for one container.

use crate::{
    Blocks, Codec, Consumer, Error, Findings, Indexer, Input, InputRange, Limits, Members, Options, Outlet, Result,
    Rows, Schema, SchemaRef, ShardSummary, Table,
};
use std::borrow::Cow;
use std::sync::Arc;

/// The constant facts about a format.
#[derive(Clone, Copy, Debug)]
pub struct FormatInfo {
    /// Its name on the command line and in documents.
    pub id: &'static str,
    /// Raised whenever the bytes that its sink writes change. Part of the plan.
    pub revision: u32,
    /// File name extensions it reads, without the leading dot; `""` means any file.
    pub extensions: &'static [&'static str],
    /// Extensions of fields whose bytes its [`Codec`] decodes (`npy`); files of such names are fields of
    /// samples, not containers.
    pub fields: &'static [&'static str],
}

/// A format: how its files are read, written and checked. What it can't do returns `Unsupported`.
///
/// [`Registry`](crate::Registry) has the shortest format there is; `examples/add_a_format.rs` is a complete one.
pub trait Format: Send + Sync {
    /// What it is.
    fn info(&self) -> &'static FormatInfo;

    /// Extensions of files that belong to a file of this format and are not inputs themselves, as pairs of the main
    /// file's extension and the companion's: `("idx", "bin")` where `x.bin` belongs to `x.idx`.
    fn companions(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// The extensions of a main file and of the companion that holds its values: `("idx", "bin")`. `None` where they are in the main
    /// file.
    fn data_file(&self) -> Option<(&'static str, &'static str)> {
        None
    }

    /// Names of files that describe a folder of files of this format, such as a `state.json`. Beside one of those, or among
    /// folders alone, they are not inputs.
    fn folder_files(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether the file `name`, in a folder that [`folder_files`](Self::folder_files) describe, does not belong to it: a cache, for example.
    fn is_beside(&self, _name: &str) -> bool {
        false
    }

    /// Whether files with its extensions are inputs also where a folder is scanned. If not, those found in folders are
    /// fields of samples (a `.csv` beside a picture); they are inputs only where the request names them.
    fn in_folders(&self) -> bool {
        true
    }

    /// Whether its source takes an option `id-field` itself. For other formats of typed rows that option names the column
    /// whose values are the keys.
    fn has_ids(&self) -> bool {
        false
    }

    /// The format's reader; `options` are parsed here, once.
    fn source(&self, options: &Options, limits: Limits) -> Result<Box<dyn Source>> {
        let _ = (options, limits);
        Err(Error::unsupported(format!("{} can't be read", self.info().id)))
    }

    /// The format's writer; `options` are parsed here, once.
    fn sink(&self, options: &Options) -> Result<Box<dyn Sink>> {
        let _ = options;
        Err(Error::unsupported(format!("{} can't be written", self.info().id)))
    }

    /// The codec of one field's bytes; `options` are parsed here, once. Only for formats whose files are fields of
    /// samples (`.npy`, `.npz`).
    fn codec(&self, options: &Options, limits: Limits) -> Result<Box<dyn Codec>> {
        let _ = (options, limits);
        Err(Error::unsupported(format!("{} does not encode single fields", self.info().id)))
    }

    /// The writer of indexes for other readers; `options` are parsed here, once: those of the sink that choose indexes.
    fn indexer(&self, options: &Options, limits: Limits) -> Result<Box<dyn Indexer>> {
        let _ = (options, limits);
        Err(Error::unsupported(format!("{} has no indexes for other readers", self.info().id)))
    }

    /// Reports damage in any file of this format, also a third-party one, and what each of `consumers` would fail on;
    /// `options` give facts that the file lacks. Calls `each_key` with the key of every sample, so that the caller can
    /// find duplicates across files.
    fn check(
        &self,
        input: &dyn Input,
        options: &Options,
        consumers: &[Consumer],
        findings: &mut Findings,
        each_key: &mut dyn FnMut(&str),
    ) -> Result<()> {
        let _ = (input, options, consumers, findings, each_key);
        Err(Error::unsupported(format!("{} can't be checked for other readers", self.info().id)))
    }

    /// Concatenates shards into one, in their order.
    fn merge(&self, inputs: &[&dyn Input], out: &mut dyn Outlet) -> Result<ShardSummary> {
        let (_, _) = (inputs, out);
        Err(Error::unsupported(format!("{} can't be merged; pack the shards into larger ones", self.info().id)))
    }

    /// Rewrites a damaged file of this format, also a third-party one, where the damage is of a known kind; `options`
    /// give facts that the file lacks. Returns sentences on the damage and its repair; `None`, and writes nothing,
    /// where the file is sound. Damage that can't be repaired is a `Content` error that says why.
    fn repair(&self, input: &dyn Input, options: &Options, out: &mut dyn Outlet) -> Result<Option<Vec<String>>> {
        let (_, _, _) = (input, options, out);
        Err(Error::unsupported(format!("{} can't be repaired; make the file again", self.info().id)))
    }
}

/// One field of a sample inside an input, as [`Source::list`] finds it.
#[derive(Debug)]
pub struct ArchiveMember<'a> {
    /// The member's name as the input holds it; key and field follow by [`split_name`](crate::split_name).
    pub name: &'a [u8],
    /// Where its bytes are; a `Content` error for a member without bytes (a link, a device).
    pub extent: Result<Extent>,
}

/// Where a field's bytes are in an input, verbatim: packing reads them without the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The first byte; of the decompressed bytes where the input is compressed.
    pub offset: u64,
    /// How many bytes.
    pub len: u64,
}

/// One of the tables that an input may hold, such as a tree of a ROOT file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputTable {
    /// Its path in the input, folders separated by slashes; the source's options choose a table by it.
    pub name: String,
    /// How many items it has.
    pub items: u64,
    /// Why none of its columns can be read (a lowercase fragment); `None` where some can.
    pub refused: Option<String>,
}

/// Reads one format.
///
/// There are two kinds of containers. One holds each field's bytes as they are (a tar): [`Source::list`] says
/// where. The other holds typed values by column (HDF5, Parquet, ROOT): an open [`Table`] says which.
pub trait Source: Send + Sync {
    /// Whether fields are listed. If not, the inputs are typed rows.
    fn lists(&self) -> bool {
        false
    }

    /// Calls `each` for every field in `input`, in the order of the input, reading headers only.
    /// An error of `each` ends the listing and is returned. `Unsupported` for typed rows.
    fn list(&self, input: &dyn Input, each: &mut dyn FnMut(ArchiveMember<'_>) -> Result<()>) -> Result<()> {
        let (_, _) = (input, each);
        Err(Error::unsupported("its fields are not ranges of bytes"))
    }

    /// Opens `input`. Its metadata is parsed here or on first use, and kept as long as the table.
    fn open<'a>(&self, input: Arc<dyn Input + 'a>) -> Result<Box<dyn Table + 'a>>;

    /// A source for readers that want only the fields `names`, and keys: its rows and its schema may lack other fields.
    /// `None` where that saves nothing.
    fn narrowed(&self, names: &[String]) -> Option<Box<dyn Source>> {
        let _ = names;
        None
    }

    /// The tables of `input`, in the order of their names, reading headers only; `Unsupported` where an input of the
    /// format is one table.
    fn tables(&self, input: &dyn Input) -> Result<Vec<InputTable>> {
        let _ = input;
        Err(Error::unsupported("is of a format whose files hold no trees to choose from"))
    }

    /// The columns of `input` in plain Arrow types, nested ones too, and not as fields of samples: for tables of
    /// metadata. `choose` gets all columns and returns the positions of the wanted ones; the blocks have these in the
    /// order of the file. Its error is returned. `None` where inputs are not tables.
    fn columns<'a>(
        &'a self,
        input: &'a dyn Input,
        choose: &mut dyn FnMut(&Schema) -> Result<Vec<usize>>,
    ) -> Result<Option<Blocks<'a>>> {
        let (_, _) = (input, choose);
        Ok(None)
    }
}

/// A dataset at seal time, as [`Sink::seal`] gets it.
pub struct Sealed<'a> {
    /// The dataset's name.
    pub name: &'a str,
    /// The root digest in hexadecimal.
    pub root_digest: &'a str,
    /// The shards in plan order, without their members.
    pub shards: &'a [ShardSummary],
    /// Loads the members of shard `i`: one shard at a time keeps memory bounded.
    pub members: &'a dyn Fn(usize) -> Result<Members>,
}

/// Checks rows before they are written. A `Content` error names a sample that can't be written.
pub type RowCheck = Box<dyn Fn(&Rows) -> Result<()> + Send + Sync>;

/// Writes one format with settled options.
pub trait Sink: Send + Sync {
    /// The suffix of data files, after the shard's name (`".tar"`).
    fn suffix(&self) -> &'static str;

    /// Whether rows of this schema can be written; the error names field and type.
    fn accept(&self, schema: &SchemaRef) -> Result<()>;

    /// The check of rows of this schema. `None` where every sample of the schema can be written.
    fn row_check(&self, schema: &SchemaRef) -> Option<RowCheck> {
        let _ = schema;
        None
    }

    /// The longest key, in bytes, that readers accept together with this field.
    fn longest_key(&self, field: &str) -> usize {
        let _ = field;
        usize::MAX
    }

    /// A key as it is written, whose bytes [`longest_key`](Self::longest_key) counts. Errors: `Content` for one that can't be written.
    fn written_key(&self) -> fn(&str) -> Result<Cow<'_, str>> {
        |key| Ok(Cow::Borrowed(key))
    }

    /// Whether a field of this name and size can be written so that readers accept it. If not, a `Content` error says
    /// what to do.
    fn admit(&self, key: &str, field: &str, bytes: u64) -> Result<()>;

    /// The bytes that a field of `bytes` input bytes takes up in a shard, for cutting shards by size.
    fn size_of(&self, bytes: u64) -> u64;

    /// The bytes of a shard without samples, for cutting shards by size.
    fn frame(&self) -> u64 {
        0
    }

    /// Whether values are stored by type, so that encoded fields (`.npy`) are decoded first.
    fn typed(&self) -> bool {
        false
    }

    /// What readers of its files need beyond the format's usual library, as a sentence for the user; `None` where they
    /// need nothing else.
    fn readers_need(&self) -> Option<&'static str> {
        None
    }

    /// The name that its files have for a field; `None` where it is the field's own.
    fn renames(&self, field: &str) -> Option<String> {
        let _ = field;
        None
    }

    /// About how many bytes of rows of this schema, at most, a shard's writer buffers before it writes them.
    fn gathers(&self, schema: &SchemaRef) -> u64 {
        let _ = schema;
        0
    }

    /// Whether blobs are stored in a shard verbatim, so that large ones can be copied in pieces
    /// ([`ShardWriter::push_parts`]).
    fn copies(&self) -> bool {
        false
    }

    /// Starts a shard.
    fn create(&self, schema: &SchemaRef, out: &mut dyn Outlet) -> Result<Box<dyn ShardWriter>>;

    /// Writes the dataset's companion files: those that belong to no single shard.
    fn seal(&self, dataset: &Sealed<'_>, out: &mut dyn Outlet) -> Result<()> {
        let _ = (dataset, out);
        Ok(())
    }
}

/// Writes one shard.
pub trait ShardWriter: Send {
    /// Appends `rows`, in order. Their schema is the one given to [`Sink::create`].
    fn push(&mut self, rows: &Rows) -> Result<()>;

    /// Appends the one sample of `rows`. Its blobs that are too large for memory are null there, in nullable columns;
    /// `parts` has their bytes, by the names of their columns. Writes the same bytes as [`ShardWriter::push`]. After an
    /// error the shard can't be used. Only where the sink [copies](Sink::copies).
    fn push_parts(&mut self, rows: &Rows, parts: &[(&str, InputRange<'_>)]) -> Result<()> {
        let (_, _) = (rows, parts);
        Err(Error::unsupported("fields are not copied in pieces"))
    }

    /// Ends the shard. Until this returned `Ok` the shard is not complete.
    fn finish(self: Box<Self>) -> Result<ShardSummary>;
}
