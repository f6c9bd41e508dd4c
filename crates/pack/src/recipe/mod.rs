//! A recipe: one value with every setting that decides the bytes of a dataset.
//!
//! Every setting is declared once, here. The command line's flags, the keys of a `--config` file and the table in
//! docs/settings.md come from [`Recipe::SETTINGS`]. `derive.rs` turns settings into the options of scan, plan and
//! transforms. Threads and file systems belong to the [`Session`](crate::Session).

mod build;
mod check;
mod decode;
mod derive;
mod document;
mod labels;
mod setting;
mod size;
mod symlinks;
mod value;

pub use decode::Decode;
pub use labels::Labels;
pub use setting::{Setting, Takes};
pub use size::{ByteSize, parse_bytes};
pub use symlinks::Symlinks;

use crate::{KeyEnds, LongKeys, OnError, Shuffle, SplitBy, Splits};
use serde::Serialize;
use setting::kebab;
use std::ffi::OsString;
use std::path::PathBuf;

/// Defines the struct, its defaults and [`Recipe::SETTINGS`] from one declaration.
macro_rules! settings {
    ($($group:literal { $($(#[doc = $doc:literal])+ $field:ident: $type:ty $(= $default:expr)?, $setting:expr;)+ })+) => {
        /// Every setting that decides the bytes of a dataset: its inputs, and how they are read, changed, ordered and
        /// written.
        ///
        /// Two packs of equal recipes over equal inputs are equal byte for byte; under [`OnError::Skip`] only if both
        /// have the same [`Session::memory`](crate::Session::memory), since larger values are left out. As a document
        /// (TOML, JSON) it holds each setting under its name with `-` for `_`; settings that are left out have their
        /// defaults. Values with a text of their own, such as [`Shuffle`], are that text.
        ///
        /// ```
        /// use packhorse_pack::Recipe;
        ///
        /// let document = r#"{"input": ["photos"], "to": "hdf5", "out": "shards", "shuffle": "7", "orient": true}"#;
        /// let recipe = Recipe::new("photos", "hdf5", "shards").shuffle(7);
        /// assert_eq!(serde_json::from_str::<Recipe>(document)?, Recipe { orient: true, ..recipe });
        /// # Ok::<(), serde_json::Error>(())
        /// ```
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(rename_all = "kebab-case")]
        pub struct Recipe {
            $($($(#[doc = $doc])+ pub $field: $type,)+)+
        }

        impl Default for Recipe {
            fn default() -> Self {
                Self { $($($field: settings!(@default $($default)?),)+)+ }
            }
        }

        impl Recipe {
            /// Every setting, in the order in which help shows them.
            pub const SETTINGS: &'static [Setting] = &[$($({
                const FIELD: &str = stringify!($field);
                const NAME: [u8; FIELD.len()] = kebab(FIELD);
                Setting {
                    field: FIELD,
                    name: match str::from_utf8(&NAME) { Ok(name) => name, Err(_) => FIELD },
                    group: $group,
                    about: concat!($($doc),+),
                    ..$setting
                }
            },)+)+];

            fn value(&mut self, setting: &Setting) -> Option<&mut dyn value::Value> {
                $($(if setting.field == stringify!($field) { return Some(&mut self.$field); })+)+
                None
            }

            /// Every setting with its values as text.
            fn texts(&self) -> impl Iterator<Item = (&'static Setting, Vec<OsString>)> {
                Self::SETTINGS.iter().zip([$($(value::Value::texts(&self.$field)),+),+])
            }
        }
    };
    (@default) => { Default::default() };
    (@default $default:expr) => { $default };
}

const FROM_ONE: Takes = Takes::Number(1, u64::MAX);

const fn switch() -> Setting {
    Setting::new(Takes::Switch, "")
}

const fn text(value: &'static str) -> Setting {
    Setting::new(Takes::Text, value)
}

const fn texts(value: &'static str) -> Setting {
    Setting::new(Takes::Texts, value).repeats()
}

const fn one_of(value: &'static str, words: &'static [&'static str]) -> Setting {
    Setting::new(Takes::OneOf(words), value)
}

const fn takes(value: &'static str, takes: Takes) -> Setting {
    Setting::new(takes, value)
}

settings! {
    "Inputs and dataset" {
        /// Folders and files to pack; keys are relative to them. A tar (also .gz, .zst) counts as its members
        input: Vec<PathBuf>, takes("INPUT", Takes::Path).repeats();
        /// The format of the shards: webdataset (wds, tar), hdf5 (h5), parquet, arrow (feather), tfrecord or tokens
        /// [default: the extension of `out`, as in photos.parquet]
        to: Option<String>, text("FORMAT");
        /// The folder of the dataset
        out: Option<PathBuf>, takes("DIR", Takes::Folder).short('o');
        /// Take the files of this list (newline or NUL after each; - is standard input) instead of walking `input`. Its
        /// paths are relative to the first `input`, or to the working folder without one
        files_from: Option<PathBuf>, takes("LIST", Takes::File);
        /// Take the objects or files of this inventory instead of listing `input`: a manifest.json of S3 Inventory, or tables of
        /// keys, sizes and times in CSV or Parquet (a file, or a folder of them)
        inventory: Option<PathBuf>, takes("FILE", Takes::Path).excludes("files-from");
        /// Take only paths that match this glob (repeatable; * matches / too); samples inside a dataset are chosen by a view
        include: Vec<String>, text("GLOB").repeats();
        /// Leave out paths that match this glob (repeatable); samples inside a dataset are left out by a view
        exclude: Vec<String>, text("GLOB").repeats();
        /// Symbolic links: follow them or leave them out
        symlinks: Symlinks, one_of("HOW", Symlinks::WORDS).default("follow");
        /// Where a key ends in the name of a file: first-dot (as WebDataset's readers see it), last-dot, or
        /// regex:EXPRESSION, whose first group is the key and whose second the field
        key_ends: KeyEnds, text("RULE").default("first-dot");
        /// Take an archive as a folder of its name: keys begin with it, so that archives may use the same keys, or each hold
        /// the samples of a class
        archive_folders: bool, switch();
        /// Keep only the first of samples of files with equal content (reads all inputs); not for the rows of tables
        dedup: bool, switch();
        /// Bad inputs: fail, or skip and record them
        on_error: OnError, one_of("HOW", OnError::WORDS).default("fail");
    }
    "Labels and metadata" {
        /// Labels from folder names: folders (the first below `input`) or parent (the one that holds the file); or
        /// column:NAME, from a column of `metadata`
        labels: Option<Labels>, text("WHICH");
        /// The classes in the order of their numbers, one a line: packed apart, train and val then have the same
        /// numbers. A class that is not in it is a bad input
        classes: Option<PathBuf>, takes("FILE", Takes::File).needs("labels");
        /// The class list of another dataset of packhorse
        classes_from: Option<PathBuf>, takes("DIR", Takes::Folder).needs("labels").excludes("classes");
        /// A table (.csv, .tsv, .jsonl, .parquet), or a pattern of several ('laion/*.parquet'), whose rows become the
        /// json field of the samples, one for each
        metadata: Option<PathBuf>, takes("FILE", Takes::File).needs("key");
        /// The column of `metadata` that names the sample: its key, or its file
        key: Option<String>, text("COLUMN").needs("metadata");
        /// The columns of `metadata` to take (default: all)
        columns: Vec<String>, texts("A,B").needs("metadata");
    }
    "Order, splits and sizes" {
        /// Shuffle: SEED, block:N or SEED,block:N (blocks of N samples stay together). Off: sorted by key
        shuffle: Shuffle, text("SEED");
        /// The most bytes of a shard's data file, with a unit such as MB or MiB [default: 1GiB]. Where transforms or
        /// compression change sizes, a sample of the inputs is packed first to estimate by how much
        shard_size: Option<ByteSize>, text("SIZE");
        /// How many shards (in each split)
        shard_count: Option<u32>, takes("N", Takes::Number(1, u32::MAX as u64));
        /// The most samples in a shard
        samples_per_shard: Option<u64>, takes("N", FROM_ONE);
        /// Splits by shares, such as train=0.9,val=0.1; folders (train/ val/ test/); column:NAME (of `metadata`); none; keep,
        /// those that sealed datasets among the inputs have
        split: Splits, text("SHARES").default("keep");
        /// What decides a sample's split: hash (of its key, or of the name of its table and its place there: stable when files are added) or order
        split_by: SplitBy, one_of("HOW", SplitBy::WORDS).default("hash");
        /// The most samples, from the start of the order
        limit: Option<u64>, takes("N", FROM_ONE);
        /// The name of shards without splits, and of the dataset
        name: String = "shard".to_owned(), text("NAME").default("shard");
        /// Keys longer than readers carry: refuse or hash
        long_keys: LongKeys, one_of("HOW", LongKeys::WORDS).default("refuse");
        /// Indexes for other readers: wids, wids:md5, dali, energon, none
        index: Option<String>, text("A,B");
    }
    "Pictures" {
        /// check (every picture is whole; check=lenient: it decodes), resize=256[,short|long|exact], resize=WxH,
        /// nearest=FIELD,... (masks, such as seg.png: resized to the nearest pixel), leave=FIELD,... (pictures that stay as they
        /// are), keep=icc|exif,icc|none (metadata that rewritten pictures keep) (repeatable)
        image: Vec<String>, text("WHAT").repeats();
        /// JPEG quality of pictures that are rewritten
        quality: u8 = 90, takes("Q", Takes::Number(1, 100)).default("90");
        /// Turn pictures as their EXIF orientation says
        orient: bool, switch();
    }
    "Arrays and tables as inputs" {
        /// The format of all inputs, where their names do not say it: webdataset, hdf5, parquet, arrow, tfrecord, root, npz,
        /// csv, jsonl (tables of JSON lines), text (their documents), tokens or record
        from: Option<String>, text("FORMAT");
        /// Encoded fields (.npz, .npy): auto (each array is a field of its own) or never (files stay as they are)
        decode: Decode, one_of("HOW", Decode::WORDS).default("auto");
        /// Take arrays of one name whose shapes differ: each sample keeps a shape of its own
        ragged: bool, switch();
        /// Inputs of rows may lack columns that others have: their samples have nulls there
        fill_missing: bool, switch();
        /// NPZ, NPY: each index of the first axis is a sample (default: a file is one)
        rows: bool, switch();
        /// NPZ with `rows`: the arrays to take
        arrays: Option<String>, text("A,B").needs("rows");
        /// ROOT: the tree (default: the only one); * packs each tree into a dataset of its own, OUT/TREE
        tree: Option<String>, text("NAME");
        /// ROOT: the branches to take, as globs; after a !, those to leave out
        branches: Option<String>, text("A,B");
        /// HDF5: the datasets to take, as globs of their paths
        datasets: Option<String>, text("A,B");
        /// Parquet, Arrow: the columns to take, as globs
        select: Option<String>, text("A,B");
        /// ROOT, Parquet, Arrow: what can't be read, such as objects of classes: skip (the others are read) or
        /// fail [default: skip for ROOT, fail for the others]
        unsupported: Option<String>, one_of("HOW", &["skip", "fail"]);
        /// CSV, TSV, JSON lines: types of columns in the place of those found: bool, int64, float64, text; of JSON lines also uint64,
        /// `list<int64>` and the like, json
        schema: Option<String>, text("NAME:TYPE,...");
        /// Binary records of fixed size: their fields as NumPy types, such as "<i4 id, <f4 x"
        record: Option<String>, text("TYPES");
        /// Binary records: bytes of header before the first
        skip_header: Option<u64>, takes("BYTES", Takes::Number(0, u64::MAX)).needs("record");
        /// Any other setting of the format that `from` names, such as layout=bare of tokens (repeatable)
        read: Vec<String>, text("NAME=VALUE").repeats().needs("from");
    }
    "Fields" {
        /// OLD=NEW gives a field another name; NAME alone takes only the fields so named (repeatable)
        field: Vec<String>, text("NAME[=NEW]").repeats();
        /// Leave a field out (repeatable)
        drop: Vec<String>, text("NAME").repeats();
        /// Other elements: f16, f32, f64, i8 to i64, u8 to u64, bool, text; of times `date`, `timestamp[us]`, `duration[us]` (repeatable)
        cast: Vec<String>, text("NAME=TYPE").repeats();
        /// A dense array of this shape from a jagged field, such as p=3 or x=3x4 (repeatable)
        stack: Vec<String>, text("NAME=SHAPE").repeats();
    }
    "Text and tokens" {
        /// The field that holds the text: of JSON lines (a.b is b inside of a), of a table, or inside of a field of
        /// JSON (json.a is a in the field json) [default: text, or the only field of text]
        text_field: Option<String>, text("NAME");
        /// JSON lines: the field that names a document; its key is FILE/NAME [default: its place in the file]
        id_field: Option<String>, text("NAME");
        /// Files of plain text (with `from=text`): a document is the file, a paragraph or a line
        document: Option<String>, one_of("WHAT", &["file", "paragraph", "line"]);
        /// Turn text into tokens with this tokenizer.json, .tiktoken vocabulary or SentencePiece .model
        tokenizer: Option<PathBuf>, takes("FILE", Takes::File);
        /// Tokens around a document: template (what the tokenizer itself adds), none, bos or eod
        special: String = "template".to_owned(),
            one_of("WHICH", &["template", "none", "bos", "eod"]).needs("tokenizer").default("template");
        /// End every document that has tokens with the end-of-document token
        append_eod: bool, switch().needs("tokenizer");
        /// The end-of-document token, as a number or as its text [default: the one that the tokenizer has]
        eod: Option<String>, text("TOKEN").needs("tokenizer");
        /// Documents without tokens: skip (an empty document) or eod (its end alone)
        empty: String = "skip".to_owned(), one_of("WHAT", &["skip", "eod"]).needs("tokenizer").default("skip");
        /// Whether the text of a special token becomes that token [default: yes for a tokenizer.json, else no]
        parse_special: Option<String>, one_of("YES|NO", &["yes", "no"]).needs("tokenizer");
        /// .tiktoken: whose pattern splits the text: gpt2, r50k_base, p50k_base, cl100k_base or o200k_base
        /// [default: told by its size]
        pattern: Option<String>, text("NAME").needs("tokenizer");
    }
    "Arrays and tables as shards" {
        /// HDF5: samples in a chunk
        chunk: Option<u64>, takes("N", Takes::Number(0, u64::MAX));
        /// HDF5: how chunks are compressed: gzip, zstd, lzf, lz4, none, or, by its plugin, blosc2
        filter: Option<String>, text("NAME");
        /// HDF5: whether bytes are shuffled before compression: auto, on or off
        byte_shuffle: Option<String>, text("HOW");
        /// How the file is compressed: Parquet by zstd, snappy or none; Arrow by zstd, lz4 or none; TFRecord by gzip or none
        compression: Option<String>, text("NAME");
        /// HDF5, Parquet: the level of compression
        level: Option<u32>, takes("N", Takes::Number(0, u32::MAX as u64));
        /// Parquet: samples in a row group
        row_group: Option<u64>, takes("N", Takes::Number(0, u64::MAX));
        /// Parquet, Arrow: mark tensors as arrow.fixed_shape_tensor
        tensor_ext: bool, switch();
        /// Any other setting of the format, such as tensors=raw of tfrecord or vlen=on of hdf5 (repeatable)
        set: Vec<String>, text("NAME=VALUE").repeats();
    }
}
