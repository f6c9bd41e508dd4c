"""The settings of packing, for editors and type checkers. docs/settings.md has them in a table."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypedDict, Union

Path = Union[str, "os.PathLike[str]"]
Paths = Union[Path, Iterable[Path]]
# A value as on the command line, a list of them, or a mapping for `NAME=VALUE`.
Text = Union[str, int, float, Iterable[Any], Mapping[str, Any]]


class Settings(TypedDict, total=False):
    """The settings of `tokenize`: all but the tokenizer, which is an argument there."""

    jobs: int | None
    """Threads that compute [default: the CPUs that this process may use]."""
    memory: str | int | None
    """The memory to use, such as "4GiB" or a number of bytes [default: 192MiB, and values of 2 GiB]."""
    replace: bool | None
    """Where `out` holds another dataset, start over: the new one takes its place once it is sealed."""
    verify: bool | Literal["on", "off"] | None
    """Check files of sealed datasets against their recorded digests."""

    # From here on this class is printed from the declaration.

    # Inputs and dataset.
    files_from: Path | None
    """Pack the files in this list (newline or NUL after each; - is standard input) instead of walking `input`. Its paths are relative to the first `input`, or to the working directory if there is none."""
    inventory: Path | None
    """Pack the objects or files in this inventory instead of listing `input`: the manifest.json of S3 Inventory, or CSV or Parquet tables (a file or a folder) with keys, sizes and times."""
    include: Text | None
    """Include only paths that match this glob (repeatable; * also matches /). To choose samples inside a dataset, use a view."""
    exclude: Text | None
    """Exclude paths that match this glob (repeatable). To leave out samples inside a dataset, use a view."""
    symlinks: Literal["follow", "skip"] | None
    """Symbolic links: follow them or skip them."""
    key_ends: Text | None
    """Where the key ends in a file name: first-dot (the rule of WebDataset readers), last-dot, whole:FIELD (the name is the key, for files without extensions: whole:dcm), or regex:EXPRESSION, with the key as its first group and the field as its second. Or what folders are: sample-folders (s1/left.png is the field left.png of s1), field-folders (masks/a.png is the field masks.png of a), or path:EXPRESSION for the path below INPUT, with the groups key, field and, if you like, ext."""
    archive_folders: bool | None
    """Treat each archive as a folder: its name begins the keys of its samples. Archives may then use the same keys, or each hold one class."""
    dedup: bool | None
    """Drop samples of files whose content equals that of an earlier sample (reads all inputs); does not apply to rows of tables."""
    on_error: Literal["fail", "skip"] | None
    """On a bad input: fail, or skip it and record it."""

    # Labels and metadata.
    labels: Text | None
    """Labels from folder names: folders (the first folder below `input`) or parent (the folder that holds the file); or from a table: column:NAME, a column of `metadata`."""
    classes: Path | None
    """A file with one class per line, in the order of their numbers, so that train and val get the same numbers when packed separately. A class missing from it is a bad input."""
    classes_from: Path | None
    """Use the class list of another packhorse dataset."""
    metadata: Path | None
    """A table (.csv, .tsv, .jsonl, .json, .parquet, also .csv.gz and so on), annotations of COCO, a list in a text file, or a pattern for several ('laion/*.parquet'). Each row becomes the json field of one sample."""
    key: Text | None
    """The column of `metadata` that identifies the sample, by its key or its file."""
    columns: Text | None
    """The columns of `metadata` to use (default: all)."""
    metadata_read: Text | None
    """How `metadata` is written (repeatable): delimiter=; (or tab, or spaces for runs of them), header=none (columns are column1, column2, …), quote=none, columns=N (the last one takes the rest of the line), skip=N lines, null=NA,…; for .json records=NAME, the member that is the list of rows."""
    metadata_rows: Literal["one", "list"] | None
    """How many rows of `metadata` a sample has: one, or list, any number of them, which become a list."""

    # Order, splits and sizes.
    shuffle: Text | None
    """Shuffle with SEED, block:N or SEED,block:N (keeps blocks of N samples together). Without it, samples are sorted by folder, then by name."""
    shard_size: Text | None
    """The maximum size of a shard's data file, with a unit such as MB or MiB [default: 1GiB]. If transforms or compression change sizes, packhorse first packs some of the inputs to estimate by how much."""
    shard_count: int | None
    """The number of shards (per split)."""
    samples_per_shard: int | None
    """The maximum number of samples per shard."""
    split: Text | None
    """Splits: shares, such as train=0.9,val=0.1; folders (train/ val/ test/); names, words such as train in names of folders and files; lists:train=train.txt,val=val.txt; keep: the splits of sealed datasets among the inputs; none: no splits. Lines of lists begin with names of samples or files. Also path:EXPRESSION, whose first group is the split in the path of the file from the name of INPUT on; column:NAME of `metadata`."""
    split_by: Text | None
    """How shares assign samples to splits: hash (of the key, or of the table's name and the row's position in it; stable when files are added) or order. Or what stays in one split, such as a patient: group:EXPRESSION, whose first group in the path of the file from the name of INPUT on names it, or column:NAME of `metadata`."""
    limit: int | None
    """Pack only the first N samples of the order."""
    name: Text | None
    """The name of the dataset, and of shards outside splits."""
    long_keys: Literal["refuse", "hash"] | None
    """Keys that are too long for readers: refuse or hash."""
    index: Text | None
    """Indexes to write for other readers: wids, wids:md5, dali, energon, none [default: wids for WebDataset]."""

    # Pictures.
    image: Text | None
    """check (every picture must be whole; check=lenient: it must decode), resize=256[,short|long|exact], resize=WxH, nearest=FIELD,... (resize masks, such as seg.png, to the nearest pixel), jpeg=FIELD,... (write these pictures, such as png, as JPEGs), leave=FIELD,... (leave these pictures unchanged), keep=icc|exif,icc|none (metadata to keep in rewritten pictures) (repeatable)."""
    quality: int | None
    """JPEG quality for rewritten pictures."""
    orient: bool | None
    """Rotate pictures upright by their EXIF orientation."""

    # Arrays and tables as inputs.
    from_: Text | None
    """The format of all inputs, if their names do not show it: webdataset, hdf5, parquet, arrow, tfrecord, root, npz, csv, jsonl (JSON lines as tables), text (plain text or JSON lines as documents), tokens or record. With files, archives and tables are files like any other: their bytes are one field."""
    decode: Literal["auto", "always", "never"] | None
    """Values in files and members: auto (arrays of .npz and .npy become fields, .cls and its like numbers, .txt and .json text; from tar to tar members stay as they are), always (.npz members become fields there, too) or never (they stay bytes; `from=files` does that for tables such as .h5)."""
    ragged: bool | None
    """Accept arrays of one name with differing shapes: each sample keeps its own shape."""
    fill_missing: bool | None
    """Accept tables that lack columns of other tables: their samples get nulls there."""
    partitions: bool | None
    """Make columns of text of the folders around tables that are called NAME=VALUE, such as year=2024/month=05."""
    rows: bool | None
    """NPZ, NPY: make each index of the first axis a sample (default: one sample per file)."""
    arrays: Text | None
    """NPZ with `rows`: the arrays to read."""
    tree: Text | None
    """ROOT: the tree to read (default: the only one); * packs each tree into its own dataset, OUT/TREE."""
    branches: Text | None
    """ROOT: the branches to read, as globs; one after a ! leaves branches out ("*,!jets.*")."""
    datasets: Text | None
    """HDF5: the datasets to read, as globs of their paths; one after a ! leaves datasets out ("*,!/raw/*")."""
    groups: Text | None
    """HDF5: make each group that these globs match a sample ("/data/*"; / for the whole file), and each dataset in it a field. A dataset that they match is a sample with the field value."""
    attributes: Text | None
    """HDF5 with `groups`: the attributes of samples that become fields, as globs ("*")."""
    select: Text | None
    """Parquet, Arrow: the columns to read, as globs."""
    unsupported: Literal["skip", "fail"] | None
    """ROOT, Parquet, Arrow: on data that can't be read, such as objects of classes, skip it and read the rest, or fail [default: skip for ROOT, fail for the others]."""
    schema: Text | None
    """CSV, TSV, JSON lines: types of columns, instead of the inferred ones: bool, int64, float64, text; for JSON lines also uint64, `list<int64>` and the like, json. With a ? (text?) values may be missing."""
    record: Text | None
    """Binary records of fixed size: their fields as NumPy types, such as "<i4 id, <f4 x"."""
    skip_header: int | None
    """Binary records: the number of header bytes before the first record."""
    read: Text | None
    """Another setting of the format in `from`, such as layout=bare of tokens (repeatable)."""

    # Fields.
    field: Text | None
    """OLD=NEW renames a field; NAME alone keeps only the fields named so (repeatable)."""
    drop: Text | None
    """Leave a field out (repeatable)."""
    cast: Text | None
    """Cast a field to another type: f16, f32, f64, i8 to i64, u8 to u64, bool, text, bytes; for times and text `date`, `timestamp[us]`, `timestamp[us,UTC]`, for durations `duration[us]` (repeatable)."""
    stack: Text | None
    """Make a jagged field a dense array of this shape, such as p=3 or x=3x4 (repeatable)."""
    spread: Text | None
    """Make N fields of a list: images=4 makes images.0 to images.3, and a sample with fewer values lacks the others. Formats of files hold several pictures of a sample so (repeatable)."""

    # Text and tokens.
    text_field: Text | None
    """The field with the text: of JSON lines (a.b is b inside a), of a table, or inside a JSON field (json.a is a in the field json) [default: text; of tables and .txt files the only text field, if none is called text]."""
    id_field: Text | None
    """Tables: the column of text or integers whose values become the keys; it is not packed as a field. Documents: the field that becomes the key, as FILE/ID [default: the number of the row, or the position in the file]."""
    document: Literal["file", "paragraph", "line"] | None
    """Plain text files (with `from=text`): a document is the whole file, a paragraph or a line."""
    special: Literal["template", "none", "bos", "eod"] | None
    """Special tokens around a document: template (those that the tokenizer adds), none, bos or eod."""
    append_eod: bool | None
    """Append the end-of-document token to every document that has tokens."""
    eod: Text | None
    """The end-of-document token, as a number or as text [default: the tokenizer's own]."""
    bos: Text | None
    """The beginning token of `special=bos`, as a number or as text [default: the tokenizer's own]."""
    empty: Literal["skip", "eod"] | None
    """Documents without tokens: skip (store an empty document) or eod (store only the end-of-document token)."""
    parse_special: bool | Literal["yes", "no"] | None
    """Encode the text of a special token as that token [default: yes for a tokenizer.json, otherwise no]."""
    pattern: Text | None
    """.tiktoken: the pattern that splits text: gpt2, r50k_base, p50k_base, cl100k_base, o200k_base or llama3 [default: inferred from the size of the vocabulary]."""

    # Arrays and tables as shards.
    chunk: int | None
    """HDF5: samples per chunk."""
    filter: Text | None
    """HDF5: the compression of chunks: gzip, zstd, lzf, lz4, none, or blosc2 (with its plugin) [default: gzip]."""
    byte_shuffle: Text | None
    """HDF5: shuffle bytes before compression: auto, on or off [default: auto]."""
    compression: Text | None
    """The compression of the file: zstd, snappy or none for Parquet; zstd, lz4 or none for Arrow; gzip or none for TFRecord [default: zstd for Parquet, otherwise none]."""
    level: int | None
    """HDF5, Parquet: the compression level [default: gzip 4, zstd 3, blosc2 5]."""
    row_group: int | None
    """Parquet: samples per row group."""
    tensor_ext: bool | None
    """Parquet, Arrow: mark tensors as arrow.fixed_shape_tensor."""
    set: Text | None
    """Another setting of the output format, such as tensors=raw of tfrecord or vlen=on of hdf5 (repeatable)."""
