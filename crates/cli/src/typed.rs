//! The flags that concern typed values: how inputs of columns are read, and how columns are written.

use clap::Args as ClapArgs;
use packhorse_core::{Error, Options, Result};
use packhorse_pack::{Decode, Shapes};
use packhorse_transform::fields::FieldsOptions;
use std::collections::BTreeMap;

/// How inputs are read.
#[derive(ClapArgs, Clone)]
#[command(next_help_heading = "Arrays and tables as inputs")]
pub(crate) struct Reading {
    /// The format of all inputs, where their names do not say it (such as record)
    #[arg(long, value_name = "FORMAT")]
    pub(crate) from: Option<String>,

    /// Encoded fields (.npz, .npy): auto (columns, where the format of the shards has columns) or never
    #[arg(long, value_name = "HOW", default_value = "auto")]
    pub(crate) decode: Decode,

    /// Take arrays of one name whose shapes differ: each sample keeps a shape of its own
    #[arg(long)]
    pub(crate) ragged: bool,

    /// NPZ, NPY: each index of the first axis is a sample (default: a file is one)
    #[arg(long)]
    pub(crate) rows: bool,

    /// NPZ with --rows: the arrays to take
    #[arg(long, value_name = "A,B", requires = "rows")]
    pub(crate) arrays: Option<String>,

    /// ROOT: the tree (default: the only one); * packs each tree into a dataset of its own, OUT/TREE
    #[arg(long, value_name = "NAME")]
    pub(crate) tree: Option<String>,

    /// ROOT: the branches to take, as globs; after a !, those to leave out
    #[arg(long, value_name = "A,B")]
    pub(crate) branches: Option<String>,

    /// HDF5: the datasets to take, as globs of their paths
    #[arg(long, value_name = "A,B")]
    pub(crate) datasets: Option<String>,

    /// Parquet, Arrow: the columns to take, as globs
    #[arg(long, value_name = "A,B")]
    pub(crate) select: Option<String>,

    /// ROOT, Parquet, Arrow: what can't be read, such as objects of classes: skip (the others are read) or
    /// fail [default: skip for ROOT, fail for the others]
    #[arg(long, value_name = "HOW", value_parser = ["skip", "fail"])]
    pub(crate) unsupported: Option<String>,

    /// CSV, TSV: types of columns in the place of those found: bool, int64, float64, text
    #[arg(long, value_name = "NAME:TYPE,...")]
    pub(crate) schema: Option<String>,

    /// Binary records of fixed size: their fields as NumPy types, such as "<i4 id, <f4[3] p"
    #[arg(long, value_name = "TYPES")]
    pub(crate) record: Option<String>,

    /// Any other setting of the format that --from names, such as layout=bare of tokens (again for more)
    #[arg(long, value_name = "NAME=VALUE", requires = "from")]
    pub(crate) read: Vec<String>,

    /// Binary records: bytes of header before the first
    #[arg(long, value_name = "BYTES", requires = "record")]
    pub(crate) skip_header: Option<u64>,
}

impl Reading {
    /// A format that does not store values by type keeps each array for itself, whatever its shape.
    pub(crate) fn shapes(&self, typed: bool) -> Shapes {
        if self.ragged || !typed { Shapes::Ragged } else { Shapes::Equal }
    }

    /// The settings by format.
    ///
    /// `dropped` are the fields that are left out of what they deliver.
    pub(crate) fn sources(&self, dropped: &[String]) -> Result<BTreeMap<String, Options>> {
        let skip = self.skip_header.map(|n| n.to_string());
        let rows = self.rows.then(|| "true".to_owned());
        let unread = (!dropped.is_empty()).then(|| dropped.join("\n"));
        let settings = [
            ("npz", "rows", &rows),
            ("npz", "arrays", &self.arrays),
            ("root", "tree", &self.tree),
            ("root", "branches", &self.branches),
            ("hdf5", "datasets", &self.datasets),
            ("parquet", "columns", &self.select),
            ("arrow", "columns", &self.select),
            ("parquet", "unread", &unread),
            ("arrow", "unread", &unread),
            ("root", "unsupported", &self.unsupported),
            ("parquet", "unsupported", &self.unsupported),
            ("arrow", "unsupported", &self.unsupported),
            ("csv", "schema", &self.schema),
            ("record", "record", &self.record),
            ("record", "skip", &skip),
        ];
        let mut sources: BTreeMap<String, Options> = BTreeMap::new();
        for (format, name, value) in settings {
            if let Some(value) = value {
                sources.entry(format.to_owned()).or_default().set(name, value);
            }
        }
        if let Some(from) = &self.from {
            for (name, value) in pairs("--read", &self.read)? {
                sources.entry(from.clone()).or_default().set(&name, value);
            }
        }
        Ok(sources)
    }
}

/// What becomes of fields.
#[derive(ClapArgs, Clone)]
#[command(next_help_heading = "Fields")]
pub(crate) struct Fielding {
    /// OLD=NEW gives a field another name; NAME alone takes only the fields so named (again for more)
    #[arg(long, value_name = "NAME[=NEW]")]
    pub(crate) field: Vec<String>,

    /// Leave a field out (again for more)
    #[arg(long, value_name = "NAME")]
    pub(crate) drop: Vec<String>,

    /// Other elements: f16, f32, f64, i8 to i64, u8 to u64, bool, text (again for more)
    #[arg(long, value_name = "NAME=TYPE")]
    pub(crate) cast: Vec<String>,

    /// A dense array of this shape from a jagged field, such as p=3 or x=3x4 (again for more)
    #[arg(long, value_name = "NAME=SHAPE")]
    pub(crate) stack: Vec<String>,
}

impl Fielding {
    pub(crate) fn options(&self) -> Result<FieldsOptions> {
        let mut options = FieldsOptions { drop: self.drop.clone(), ..FieldsOptions::default() };
        for field in &self.field {
            match field.split_once('=') {
                Some((old, new)) if !old.is_empty() && !new.is_empty() => {
                    options.rename.insert(old.to_owned(), new.to_owned());
                }
                Some(_) => return Err(Error::config(format!("--field takes NAME or OLD=NEW, not \"{field}\""))),
                None => options.only.push(field.clone()),
            }
        }
        if !options.only.is_empty() {
            options.only.extend(options.rename.keys().cloned());
        }
        (options.cast, options.stack) = (pairs("--cast", &self.cast)?, pairs("--stack", &self.stack)?);
        Ok(options)
    }
}

fn pairs(flag: &str, texts: &[String]) -> Result<BTreeMap<String, String>> {
    let pair = |text: &String| {
        let (name, value) =
            text.split_once('=').ok_or_else(|| Error::config(format!("{flag} takes NAME=VALUE, not \"{text}\"")))?;
        Ok((name.to_owned(), value.to_owned()))
    };
    texts.iter().map(pair).collect()
}

/// How shards are written.
#[derive(ClapArgs, Clone)]
#[command(next_help_heading = "Arrays and tables as shards")]
pub(crate) struct Writing {
    /// HDF5: samples in a chunk
    #[arg(long, value_name = "N")]
    pub(crate) chunk: Option<u64>,

    /// HDF5: how chunks are compressed: gzip, zstd, lzf, lz4, none, or, by its plugin, blosc2
    #[arg(long, value_name = "NAME")]
    pub(crate) filter: Option<String>,

    /// HDF5: whether bytes are shuffled before compression: auto, on or off
    #[arg(long, value_name = "HOW")]
    pub(crate) byte_shuffle: Option<String>,

    /// Parquet, TFRecord: how the file is compressed
    #[arg(long, value_name = "NAME")]
    pub(crate) compression: Option<String>,

    /// HDF5, Parquet: the level of compression
    #[arg(long, value_name = "N")]
    pub(crate) level: Option<u32>,

    /// Parquet: samples in a row group
    #[arg(long, value_name = "N")]
    pub(crate) row_group: Option<u64>,

    /// Parquet, Arrow: mark tensors as arrow.fixed_shape_tensor
    #[arg(long)]
    pub(crate) tensor_ext: bool,

    /// Any other setting of the format, such as tensors=raw of tfrecord or vlen=on of hdf5 (again for more)
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,
}

impl Writing {
    /// The settings of the format that writes; it refuses what it does not know.
    pub(crate) fn options(&self, index: Option<&str>) -> Result<Options> {
        let number = |n: Option<u64>| n.map(|n| n.to_string());
        let settings = [
            ("index", index.map(str::to_owned)),
            ("chunk", number(self.chunk)),
            ("filter", self.filter.clone()),
            ("shuffle", self.byte_shuffle.clone()),
            ("compression", self.compression.clone()),
            ("level", number(self.level.map(u64::from))),
            ("row-group", number(self.row_group)),
            ("tensor-ext", self.tensor_ext.then(|| "on".to_owned())),
        ];
        let mut options: Options = settings.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        for (name, value) in pairs("--set", &self.set)? {
            options.set(&name, value);
        }
        Ok(options)
    }
}
