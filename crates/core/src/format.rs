//! What a format brings. One crate under `formats/` implements these traits for one container.

use crate::{
    Blocks, Codec, Consumer, Error, Findings, Input, Limits, Members, Options, Outlet, Part, Result, Rows, Schema,
    SchemaRef, ShardSummary, Table,
};
use std::sync::Arc;

/// What a format is.
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

/// A format. What it can't do returns `Unsupported`.
pub trait Format: Send + Sync {
    /// What it is.
    fn info(&self) -> &'static FormatInfo;

    /// Endings of files that belong to a file of this format and are no inputs of their own, each after the
    /// extension of that file: `("idx", "bin")` where `x.bin` belongs to `x.idx`.
    fn companions(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Whether files of its extensions are inputs wherever they are found. If not, those that are found in folders are
    /// fields of samples (a `.csv` beside a picture), and inputs only where they are named one by one.
    fn in_folders(&self) -> bool {
        true
    }

    /// How to read it; `options` are parsed here, once.
    fn source(&self, options: &Options, limits: Limits) -> Result<Box<dyn Source>> {
        let _ = (options, limits);
        Err(Error::unsupported(format!("{} can't be read", self.info().id)))
    }

    /// How to write it; `options` are parsed here, once.
    fn sink(&self, options: &Options) -> Result<Box<dyn Sink>> {
        let _ = options;
        Err(Error::unsupported(format!("{} can't be written", self.info().id)))
    }

    /// What is inside one field's bytes; `options` are parsed here, once. Only for formats whose files
    /// are fields of samples (`.npy`, `.npz`).
    fn codec(&self, options: &Options, limits: Limits) -> Result<Box<dyn Codec>> {
        let _ = (options, limits);
        Err(Error::unsupported(format!("{} is no format of single fields", self.info().id)))
    }

    /// Reports what is damaged in a file of this format, anybody's file, and what each of `consumers` would
    /// trip over; `options` say what else is known of it. `each_key` sees the key of every sample, so that
    /// the caller can look for doubles across files.
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

    /// Makes one shard of many, in their order.
    fn merge(&self, inputs: &[&dyn Input], out: &mut dyn Outlet) -> Result<ShardSummary> {
        let (_, _) = (inputs, out);
        Err(Error::unsupported(format!("{} can't be merged; pack the shards into larger ones", self.info().id)))
    }

    /// Writes what is wrong with a file of this format, anybody's file, anew, where it is known how it went
    /// wrong; `options` say what else is known of it. Returns sentences about what was wrong and what was
    /// done; `None`, and nothing written, where nothing is wrong. What can't be repaired is a `Content` error
    /// that says why.
    fn repair(&self, input: &dyn Input, options: &Options, out: &mut dyn Outlet) -> Result<Option<Vec<String>>> {
        let (_, _, _) = (input, options, out);
        Err(Error::unsupported(format!("{} can't be repaired; make the file again", self.info().id)))
    }
}

/// One field of a sample inside an input, as [`Source::list`] finds it.
#[derive(Debug)]
pub struct Entry<'a> {
    /// The member's name as the input holds it; key and field follow by [`split_name`](crate::split_name).
    pub name: &'a [u8],
    /// Where its bytes lie; a `Content` error where it has none of its own (a link, a device).
    pub extent: Result<Extent>,
}

/// Where a field's bytes lie in an input, verbatim: whoever packs reads them without the format.
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
    /// Its name, with the folders around it and slashes between: by it the source's options choose it.
    pub name: String,
    /// How many items it has.
    pub items: u64,
    /// Why none of its columns can be read, if so: a lowercase fragment.
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
    fn list(&self, input: &dyn Input, each: &mut dyn FnMut(Entry<'_>) -> Result<()>) -> Result<()> {
        let (_, _) = (input, each);
        Err(Error::unsupported("its fields are no ranges of bytes"))
    }

    /// Opens `input`. What its rows need of its metadata is parsed here, or when it is first needed, and kept as long
    /// as the table is.
    fn open<'a>(&self, input: Arc<dyn Input + 'a>) -> Result<Box<dyn Table + 'a>>;

    /// The tables of `input`, in the order of their names, reading headers only; `Unsupported` where an input of the
    /// format is one table.
    fn tables(&self, input: &dyn Input) -> Result<Vec<InputTable>> {
        let _ = input;
        Err(Error::unsupported("is of a format whose files hold no trees to choose from"))
    }

    /// The columns of `input` as they are there, nested ones too, in Arrow's own types and not as fields of samples:
    /// what a table of metadata is read from. `choose` is shown all columns and says the positions of those that are
    /// wanted; the blocks have these in the order of the file. Its error is returned. `None` where inputs are no
    /// tables.
    fn columns<'a>(
        &'a self,
        input: &'a dyn Input,
        choose: &mut dyn FnMut(&Schema) -> Result<Vec<usize>>,
    ) -> Result<Option<Blocks<'a>>> {
        let (_, _) = (input, choose);
        Ok(None)
    }
}

/// What is known of a dataset when it is sealed.
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

/// Writes one format with settled options.
pub trait Sink: Send + Sync {
    /// What follows the shard's name in the name of its data file (`".tar"`).
    fn suffix(&self) -> &'static str;

    /// Whether rows of this schema can be written; the error names field and type.
    fn accept(&self, schema: &SchemaRef) -> Result<()>;

    /// What looks at rows before they are written, for what their schema does not say: a `Content` error names the
    /// first sample that can't be written. `None` where every sample of an accepted schema can.
    fn row_check(&self) -> Option<fn(&Rows) -> Result<()>> {
        None
    }

    /// The longest key, in bytes, that readers carry beside this field.
    fn longest_key(&self, field: &str) -> usize {
        let _ = field;
        usize::MAX
    }

    /// Whether a field of this name and size can be written so that readers carry it. A `Content`
    /// error says what to do.
    fn admit(&self, key: &str, field: &str, bytes: u64) -> Result<()>;

    /// The bytes that a field of `bytes` input bytes takes up in a shard, for cutting shards by size.
    fn size_of(&self, bytes: u64) -> u64;

    /// Whether values are stored by type, so that what is inside encoded fields is worth decoding first.
    fn typed(&self) -> bool {
        false
    }

    /// What readers of its files need beyond the format's usual library, as a sentence for the user; `None` where that
    /// is nothing.
    fn readers_need(&self) -> Option<&'static str> {
        None
    }

    /// About the most bytes of rows that the writer of a shard gathers before it writes them.
    fn gathers(&self) -> u64 {
        0
    }

    /// Whether fields of bytes stand in a shard as they are, so that large ones are copied there in pieces
    /// ([`ShardWriter::push_parts`]).
    fn copies(&self) -> bool {
        false
    }

    /// Starts a shard.
    fn create(&self, schema: &SchemaRef, out: &mut dyn Outlet) -> Result<Box<dyn ShardWriter>>;

    /// Writes the dataset's companions, those files that belong to no single shard.
    fn seal(&self, dataset: &Sealed<'_>, out: &mut dyn Outlet) -> Result<()> {
        let _ = (dataset, out);
        Ok(())
    }
}

/// Writes one shard.
pub trait ShardWriter: Send {
    /// Appends `rows`, in order. Their schema is the one given to [`Sink::create`].
    fn push(&mut self, rows: &Rows) -> Result<()>;

    /// Appends the one sample of `rows`, whose fields of bytes that are too large for memory are null there, in columns that
    /// may be: `parts` are their bytes, by the names of their columns. After an error the shard is not to be used. The
    /// bytes written are those that [`ShardWriter::push`] would write. Only where the sink [copies](Sink::copies).
    fn push_parts(&mut self, rows: &Rows, parts: &[(&str, Part<'_>)]) -> Result<()> {
        let (_, _) = (rows, parts);
        Err(Error::unsupported("fields are not copied in pieces"))
    }

    /// Ends the shard. Until this returned `Ok` the shard is not complete.
    fn finish(self: Box<Self>) -> Result<ShardSummary>;
}
