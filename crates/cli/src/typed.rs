//! The flags that concern typed values: how inputs of columns are read, and how columns are written.

use clap::Args as ClapArgs;
use packhorse_core::Options;
use packhorse_pack::{Decode, Shapes};
use std::collections::BTreeMap;

/// How inputs are read.
#[derive(ClapArgs)]
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

    /// ROOT: the tree (default: the only one)
    #[arg(long, value_name = "NAME")]
    pub(crate) tree: Option<String>,

    /// ROOT: the branches to take, as globs
    #[arg(long, value_name = "A,B")]
    pub(crate) branches: Option<String>,

    /// HDF5: the datasets to take, as globs of their paths
    #[arg(long, value_name = "A,B")]
    pub(crate) datasets: Option<String>,

    /// Parquet, Arrow: the columns to take, as globs
    #[arg(long, value_name = "A,B")]
    pub(crate) select: Option<String>,

    /// Binary records of fixed size: their fields as NumPy types, such as "<i4 id, <f4[3] p"
    #[arg(long, value_name = "TYPES")]
    pub(crate) record: Option<String>,

    /// Binary records: bytes of header before the first
    #[arg(long, value_name = "BYTES", requires = "record")]
    pub(crate) skip_header: Option<u64>,
}

impl Reading {
    pub(crate) fn shapes(&self) -> Shapes {
        if self.ragged { Shapes::Ragged } else { Shapes::Equal }
    }

    /// The settings by format.
    pub(crate) fn sources(&self) -> BTreeMap<String, Options> {
        let skip = self.skip_header.map(|n| n.to_string());
        let settings = [
            ("root", "tree", &self.tree),
            ("root", "branches", &self.branches),
            ("hdf5", "datasets", &self.datasets),
            ("parquet", "columns", &self.select),
            ("arrow", "columns", &self.select),
            ("record", "record", &self.record),
            ("record", "skip", &skip),
        ];
        let mut sources: BTreeMap<String, Options> = BTreeMap::new();
        for (format, name, value) in settings {
            if let Some(value) = value {
                sources.entry(format.to_owned()).or_default().set(name, value);
            }
        }
        sources
    }
}

/// How shards are written.
#[derive(ClapArgs)]
#[command(next_help_heading = "Arrays and tables as shards")]
pub(crate) struct Writing {
    /// HDF5: samples in a chunk
    #[arg(long, value_name = "N")]
    pub(crate) chunk: Option<u64>,

    /// HDF5: how chunks are compressed: gzip, zstd or none
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
}

impl Writing {
    /// The settings of the format that writes; it refuses what it does not know.
    pub(crate) fn options(&self, index: Option<&str>) -> Options {
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
        settings.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}
