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
mod metadata_rows;
mod setting;
mod size;
mod symlinks;
mod value;

pub use decode::Decode;
pub use derive::pairs;
pub use labels::Labels;
pub use metadata_rows::MetadataRows;
pub use setting::{Setting, Takes};
pub use size::{ByteSize, parse_bytes};
pub use symlinks::Symlinks;

use crate::{KeyEnds, LongKeys, OnError, Shuffle, SplitBy, Splits};
use serde::Serialize;
use setting::kebab;
use std::collections::BTreeSet;
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
        #[must_use]
        #[serde(rename_all = "kebab-case")]
        pub struct Recipe {
            $($($(#[doc = $doc])+ pub $field: $type,)+)+
            /// The settings that were given by name.
            #[serde(skip)]
            pub named: NamedSettings,
        }

        impl Default for Recipe {
            fn default() -> Self {
                Self { $($($field: settings!(@default $($default)?),)+)+ named: NamedSettings::default() }
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

/// The names of settings that [`Recipe::take`] was given. [`Session::append`](crate::Session::append) does not replace
/// these settings by those of the dataset. Recipes that differ in this only are equal.
#[derive(Clone, Debug, Default)]
pub struct NamedSettings(pub(crate) BTreeSet<&'static str>);

impl PartialEq for NamedSettings {
    fn eq(&self, _: &Self) -> bool {
        true
    }
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
        /// Folders and files to pack; keys are paths relative to them. A tar (also compressed: .gz, .zst, .bz2, .xz)
        /// stands for its members
        input: Vec<PathBuf>, takes("INPUT", Takes::Path).repeats();
        /// The format of the shards: webdataset (wds, tar), hdf5 (h5), parquet, arrow (feather), tfrecord or tokens
        /// [default: the extension of `out`, as in photos.parquet]
        to: Option<String>, text("FORMAT");
        /// The folder of the dataset
        out: Option<PathBuf>, takes("DIR", Takes::Folder).short('o');
        /// Pack the files in this list (newline or NUL after each; - is standard input) instead of walking `input`. Its
        /// paths are relative to the first `input`, or to the working directory if there is none
        files_from: Option<PathBuf>, takes("LIST", Takes::File);
        /// Pack the objects or files in this inventory instead of listing `input`: the manifest.json of S3 Inventory,
        /// or CSV or Parquet tables (a file or a folder) with keys, sizes and times
        inventory: Option<PathBuf>, takes("FILE", Takes::Path).excludes("files-from");
        /// Include only paths that match this glob (repeatable; * also matches /). To choose samples inside a dataset,
        /// use a view
        include: Vec<String>, text("GLOB").repeats();
        /// Exclude paths that match this glob (repeatable). To leave out samples inside a dataset, use a view
        exclude: Vec<String>, text("GLOB").repeats();
        /// Symbolic links: follow them or skip them
        symlinks: Symlinks, one_of("HOW", Symlinks::WORDS).default("follow");
        /// Where the key ends in a file name: first-dot (the rule of WebDataset readers), last-dot, whole:FIELD (the
        /// name is the key, for files without extensions: whole:dcm), or regex:EXPRESSION, with the key as its first group and the field as its second. Or what folders are:
        /// sample-folders (s1/left.png is the field left.png of s1), field-folders (masks/a.png is the field masks.png
        /// of a), or path:EXPRESSION for the path below INPUT, with the groups key, field and, if you like, ext
        key_ends: KeyEnds, text("RULE").default("first-dot");
        /// Treat each archive as a folder: its name begins the keys of its samples. Archives may then use the same
        /// keys, or each hold one class
        archive_folders: bool, switch();
        /// Drop samples of files whose content equals that of an earlier sample (reads all inputs); does not apply to
        /// rows of tables
        dedup: bool, switch();
        /// On a bad input: fail, or skip it and record it
        on_error: OnError, one_of("HOW", OnError::WORDS).default("fail");
    }
    "Labels and metadata" {
        /// Labels from folder names: folders (the first folder below `input`) or parent (the folder that holds the
        /// file); or from a table: column:NAME, a column of `metadata`
        labels: Option<Labels>, text("WHICH");
        /// A file with one class per line, in the order of their numbers, so that train and val get the same numbers
        /// when packed separately. A class missing from it is a bad input
        classes: Option<PathBuf>, takes("FILE", Takes::File).needs("labels");
        /// Use the class list of another packhorse dataset
        classes_from: Option<PathBuf>, takes("DIR", Takes::Folder).needs("labels").excludes("classes");
        /// A table (.csv, .tsv, .jsonl, .json, .parquet, also .csv.gz and so on), annotations of COCO, a list in a text file,
        /// or a pattern for several ('laion/*.parquet'). Each row becomes the json field of one sample
        metadata: Option<PathBuf>, takes("FILE", Takes::File).needs("key");
        /// The column of `metadata` that identifies the sample, by its key or its file
        key: Option<String>, text("COLUMN").needs("metadata");
        /// The columns of `metadata` to use (default: all)
        columns: Vec<String>, texts("A,B").needs("metadata");
        /// How `metadata` is written (repeatable): delimiter=; (or tab, or spaces for runs of them), header=none (columns
        /// are column1, column2, …), quote=none, columns=N (the last one takes the rest of the line), skip=N lines,
        /// null=NA,…; for .json records=NAME, the member that is the list of rows
        metadata_read: Vec<String>, text("NAME=VALUE").repeats().needs("metadata");
        /// How many rows of `metadata` a sample has: one, or list, any number of them, which become a list
        metadata_rows: MetadataRows, one_of("HOW", MetadataRows::WORDS).needs("metadata").default("one");
    }
    "Order, splits and sizes" {
        /// Shuffle with SEED, block:N or SEED,block:N (keeps blocks of N samples together). Without it, samples are
        /// sorted by folder, then by name
        shuffle: Shuffle, text("SEED");
        /// The maximum size of a shard's data file, with a unit such as MB or MiB [default: 1GiB]. If transforms or
        /// compression change sizes, packhorse first packs some of the inputs to estimate by how much
        shard_size: Option<ByteSize>, text("SIZE");
        /// The number of shards (per split)
        shard_count: Option<u32>, takes("N", Takes::Number(1, u32::MAX as u64));
        /// The maximum number of samples per shard
        samples_per_shard: Option<u64>, takes("N", FROM_ONE);
        /// Splits: shares, such as train=0.9,val=0.1; folders (train/ val/ test/); names, words such as train in names of
        /// folders and files; lists:train=train.txt,val=val.txt; keep: the splits of sealed datasets among the inputs;
        /// none: no splits. Lines of lists begin with names of samples or files. Also path:EXPRESSION, whose first
        /// group is the split in the path of the file from the name of INPUT on; column:NAME of `metadata`
        split: Splits, text("SHARES").default("keep");
        /// How shares assign samples to splits: hash (of the key, or of the table's name and the row's position in it;
        /// stable when files are added) or order. Or what stays in one split, such as a patient: group:EXPRESSION, whose
        /// first group in the path of the file from the name of INPUT on names it, or column:NAME of `metadata`
        split_by: SplitBy, text("HOW").default("hash");
        /// Pack only the first N samples of the order
        limit: Option<u64>, takes("N", FROM_ONE);
        /// The name of the dataset, and of shards outside splits
        name: String = "shard".to_owned(), text("NAME").default("shard");
        /// Keys that are too long for readers: refuse or hash
        long_keys: LongKeys, one_of("HOW", LongKeys::WORDS).default("refuse");
        /// Indexes to write for other readers: wids, wids:md5, dali, energon, none [default: wids for WebDataset]
        index: Option<String>, text("A,B");
    }
    "Pictures" {
        /// check (every picture must be whole; check=lenient: it must decode), resize=256[,short|long|exact],
        /// resize=WxH, nearest=FIELD,... (resize masks, such as seg.png, to the nearest pixel), jpeg=FIELD,... (write
        /// these pictures, such as png, as JPEGs), leave=FIELD,... (leave these pictures unchanged),
        /// keep=icc|exif,icc|none (metadata to keep in rewritten pictures) (repeatable)
        image: Vec<String>, text("WHAT").repeats();
        /// JPEG quality for rewritten pictures
        quality: u8 = 90, takes("Q", Takes::Number(1, 100)).default("90");
        /// Rotate pictures upright by their EXIF orientation
        orient: bool, switch();
    }
    "Arrays and tables as inputs" {
        /// The format of all inputs, if their names do not show it: webdataset, hdf5, parquet, arrow, tfrecord, root,
        /// npz, csv, jsonl (JSON lines as tables), text (plain text or JSON lines as documents), tokens or record.
        /// With files, archives and tables are files like any other: their bytes are one field
        from: Option<String>, text("FORMAT");
        /// Values in files and members: auto (arrays of .npz and .npy become fields, .cls and its like numbers, .txt
        /// and .json text; from tar to tar members stay as they are), always (.npz members become fields there, too)
        /// or never (they stay bytes; `from=files` does that for tables such as .h5)
        decode: Decode, one_of("HOW", Decode::WORDS).default("auto");
        /// Accept arrays of one name with differing shapes: each sample keeps its own shape
        ragged: bool, switch();
        /// Accept tables that lack columns of other tables: their samples get nulls there
        fill_missing: bool, switch();
        /// Make columns of text of the folders around tables that are called NAME=VALUE, such as year=2024/month=05
        partitions: bool, switch();
        /// NPZ, NPY: make each index of the first axis a sample (default: one sample per file)
        rows: bool, switch();
        /// NPZ with `rows`: the arrays to read
        arrays: Option<String>, text("A,B").needs("rows");
        /// ROOT: the tree to read (default: the only one); * packs each tree into its own dataset, OUT/TREE
        tree: Option<String>, text("NAME");
        /// ROOT: the branches to read, as globs; one after a ! leaves branches out ("*,!jets.*")
        branches: Option<String>, text("A,B");
        /// HDF5: the datasets to read, as globs of their paths; one after a ! leaves datasets out ("*,!/raw/*")
        datasets: Option<String>, text("A,B");
        /// HDF5: make each group that these globs match a sample ("/data/*"; / for the whole file), and each dataset in it
        /// a field. A dataset that they match is a sample with the field value
        groups: Option<String>, text("A,B");
        /// HDF5 with `groups`: the attributes of samples that become fields, as globs ("*")
        attributes: Option<String>, text("A,B").needs("groups");
        /// Parquet, Arrow: the columns to read, as globs
        select: Option<String>, text("A,B");
        /// ROOT, Parquet, Arrow: on data that can't be read, such as objects of classes, skip it and read the rest, or
        /// fail [default: skip for ROOT, fail for the others]
        unsupported: Option<String>, one_of("HOW", &["skip", "fail"]);
        /// CSV, TSV, JSON lines: types of columns, instead of the inferred ones: bool, int64, float64, text; for JSON
        /// lines also uint64, `list<int64>` and the like, json. With a ? (text?) values may be missing
        schema: Option<String>, text("NAME:TYPE,...");
        /// Binary records of fixed size: their fields as NumPy types, such as "<i4 id, <f4 x"
        record: Option<String>, text("TYPES");
        /// Binary records: the number of header bytes before the first record
        skip_header: Option<u64>, takes("BYTES", Takes::Number(0, u64::MAX)).needs("record");
        /// Another setting of the format in `from`, such as layout=bare of tokens (repeatable)
        read: Vec<String>, text("NAME=VALUE").repeats().needs("from");
    }
    "Fields" {
        /// OLD=NEW renames a field; NAME alone keeps only the fields named so (repeatable)
        field: Vec<String>, text("NAME[=NEW]").repeats();
        /// Leave a field out (repeatable)
        drop: Vec<String>, text("NAME").repeats();
        /// Cast a field to another type: f16, f32, f64, i8 to i64, u8 to u64, bool, text, bytes; for times and
        /// text `date`, `timestamp[us]`, `timestamp[us,UTC]`, for durations `duration[us]` (repeatable)
        cast: Vec<String>, text("NAME=TYPE").repeats();
        /// Make a jagged field a dense array of this shape, such as p=3 or x=3x4 (repeatable)
        stack: Vec<String>, text("NAME=SHAPE").repeats();
        /// Make N fields of a list: images=4 makes images.0 to images.3, and a sample with fewer values lacks the others. Formats of files
        /// hold several pictures of a sample so (repeatable)
        spread: Vec<String>, text("NAME=N").repeats();
    }
    "Text and tokens" {
        /// The field with the text: of JSON lines (a.b is b inside a), of a table, or inside a JSON field (json.a is a
        /// in the field json) [default: text; of tables and .txt files the only text field, if none is called text]
        text_field: Option<String>, text("NAME");
        /// Tables: the column of text or integers whose values become the keys; it is not packed as a field. Documents: the field that becomes the key, as FILE/ID [default: the number of the row, or the position in the file]
        id_field: Option<String>, text("NAME");
        /// Plain text files (with `from=text`): a document is the whole file, a paragraph or a line
        document: Option<String>, one_of("WHAT", &["file", "paragraph", "line"]);
        /// Tokenize text with this tokenizer.json, .tiktoken vocabulary or SentencePiece .model
        tokenizer: Option<PathBuf>, takes("FILE", Takes::File);
        /// Special tokens around a document: template (those that the tokenizer adds), none, bos or eod
        special: String = "template".to_owned(),
            one_of("WHICH", &["template", "none", "bos", "eod"]).needs("tokenizer").default("template");
        /// Append the end-of-document token to every document that has tokens
        append_eod: bool, switch().needs("tokenizer");
        /// The end-of-document token, as a number or as text [default: the tokenizer's own]
        eod: Option<String>, text("TOKEN").needs("tokenizer");
        /// The beginning token of `special=bos`, as a number or as text [default: the tokenizer's own]
        bos: Option<String>, text("TOKEN").needs("tokenizer");
        /// Documents without tokens: skip (store an empty document) or eod (store only the end-of-document token)
        empty: String = "skip".to_owned(), one_of("WHAT", &["skip", "eod"]).needs("tokenizer").default("skip");
        /// Encode the text of a special token as that token [default: yes for a tokenizer.json, otherwise no]
        parse_special: Option<String>, one_of("YES|NO", &["yes", "no"]).needs("tokenizer");
        /// .tiktoken: the pattern that splits text: gpt2, r50k_base, p50k_base, cl100k_base, o200k_base or llama3 [default:
        /// inferred from the size of the vocabulary]
        pattern: Option<String>, text("NAME").needs("tokenizer");
    }
    "Arrays and tables as shards" {
        /// HDF5: samples per chunk
        chunk: Option<u64>, takes("N", FROM_ONE);
        /// HDF5: the compression of chunks: gzip, zstd, lzf, lz4, none, or blosc2 (with its plugin) [default: gzip]
        filter: Option<String>, text("NAME");
        /// HDF5: shuffle bytes before compression: auto, on or off [default: auto]
        byte_shuffle: Option<String>, text("HOW");
        /// The compression of the file: zstd, snappy or none for Parquet; zstd, lz4 or none for Arrow; gzip or none for
        /// TFRecord [default: zstd for Parquet, otherwise none]
        compression: Option<String>, text("NAME");
        /// HDF5, Parquet: the compression level [default: gzip 4, zstd 3, blosc2 5]
        level: Option<u32>, takes("N", Takes::Number(0, u32::MAX as u64));
        /// Parquet: samples per row group
        row_group: Option<u64>, takes("N", FROM_ONE);
        /// Parquet, Arrow: mark tensors as arrow.fixed_shape_tensor
        tensor_ext: bool, switch();
        /// Another setting of the output format, such as tensors=raw of tfrecord or vlen=on of hdf5 (repeatable)
        set: Vec<String>, text("NAME=VALUE").repeats();
    }
}
