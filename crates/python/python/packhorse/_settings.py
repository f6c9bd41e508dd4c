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
    verify: Literal["on", "off"] | None
    """Check files of sealed datasets against their recorded digests."""

    # From here on this class is printed from the declaration.

    # Inputs and dataset.
    files_from: Path | None
    """Take the files of this list (newline or NUL after each; - is standard input) instead of walking `input`. Its paths are relative to the first `input`, or to the working folder without one."""
    inventory: Path | None
    """Take the objects or files of this inventory instead of listing `input`: a manifest.json of S3 Inventory, or tables of keys, sizes and times in CSV or Parquet (a file, or a folder of them)."""
    include: Text | None
    """Take only paths that match this glob (repeatable; * matches / too); samples inside a dataset are chosen by a view."""
    exclude: Text | None
    """Leave out paths that match this glob (repeatable); samples inside a dataset are left out by a view."""
    symlinks: Literal["follow", "skip"] | None
    """Symbolic links: follow them or leave them out."""
    key_ends: Text | None
    """Where a key ends in the name of a file: first-dot (as WebDataset's readers see it), last-dot, or regex:EXPRESSION, whose first group is the key and whose second the field."""
    archive_folders: bool | None
    """Take an archive as a folder of its name: keys begin with it, so that archives may use the same keys, or each hold the samples of a class."""
    dedup: bool | None
    """Keep only the first of samples of files with equal content (reads all inputs); not for the rows of tables."""
    on_error: Literal["fail", "skip"] | None
    """Bad inputs: fail, or skip and record them."""

    # Labels and metadata.
    labels: Text | None
    """Labels from folder names: folders (the first below `input`) or parent (the one that holds the file); or column:NAME, from a column of `metadata`."""
    classes: Path | None
    """The classes in the order of their numbers, one a line: packed apart, train and val then have the same numbers. A class that is not in it is a bad input."""
    classes_from: Path | None
    """The class list of another dataset of packhorse."""
    metadata: Path | None
    """A table (.csv, .tsv, .jsonl, .parquet), or a pattern of several ('laion/*.parquet'), whose rows become the json field of the samples, one for each."""
    key: Text | None
    """The column of `metadata` that names the sample: its key, or its file."""
    columns: Text | None
    """The columns of `metadata` to take (default: all)."""

    # Order, splits and sizes.
    shuffle: Text | None
    """Shuffle: SEED, block:N or SEED,block:N (blocks of N samples stay together). Off: sorted by key."""
    shard_size: Text | None
    """The most bytes of a shard's data file, with a unit such as MB or MiB [default: 1GiB]. Where transforms or compression change sizes, a sample of the inputs is packed first to estimate by how much."""
    shard_count: int | None
    """How many shards (in each split)."""
    samples_per_shard: int | None
    """The most samples in a shard."""
    split: Text | None
    """Splits by shares, such as train=0.9,val=0.1; folders (train/ val/ test/); column:NAME (of `metadata`); none; keep, those that sealed datasets among the inputs have."""
    split_by: Literal["hash", "order"] | None
    """What decides a sample's split: hash (of its key, or of the name of its table and its place there: stable when files are added) or order."""
    limit: int | None
    """The most samples, from the start of the order."""
    name: Text | None
    """The name of shards without splits, and of the dataset."""
    long_keys: Literal["refuse", "hash"] | None
    """Keys longer than readers carry: refuse or hash."""
    index: Text | None
    """Indexes for other readers: wids, wids:md5, dali, energon, none."""

    # Pictures.
    image: Text | None
    """check (every picture is whole; check=lenient: it decodes), resize=256[,short|long|exact], resize=WxH, nearest=FIELD,... (masks, such as seg.png: resized to the nearest pixel), leave=FIELD,... (pictures that stay as they are), keep=icc|exif,icc|none (metadata that rewritten pictures keep) (repeatable)."""
    quality: int | None
    """JPEG quality of pictures that are rewritten."""
    orient: bool | None
    """Turn pictures as their EXIF orientation says."""

    # Arrays and tables as inputs.
    from_: Text | None
    """The format of all inputs, where their names do not say it: webdataset, hdf5, parquet, arrow, tfrecord, root, npz, csv, jsonl (tables of JSON lines), text (their documents), tokens or record."""
    decode: Literal["auto", "never"] | None
    """Encoded fields (.npz, .npy): auto (each array is a field of its own) or never (files stay as they are)."""
    ragged: bool | None
    """Take arrays of one name whose shapes differ: each sample keeps a shape of its own."""
    fill_missing: bool | None
    """Inputs of rows may lack columns that others have: their samples have nulls there."""
    rows: bool | None
    """NPZ, NPY: each index of the first axis is a sample (default: a file is one)."""
    arrays: Text | None
    """NPZ with `rows`: the arrays to take."""
    tree: Text | None
    """ROOT: the tree (default: the only one); * packs each tree into a dataset of its own, OUT/TREE."""
    branches: Text | None
    """ROOT: the branches to take, as globs; after a !, those to leave out."""
    datasets: Text | None
    """HDF5: the datasets to take, as globs of their paths."""
    select: Text | None
    """Parquet, Arrow: the columns to take, as globs."""
    unsupported: Literal["skip", "fail"] | None
    """ROOT, Parquet, Arrow: what can't be read, such as objects of classes: skip (the others are read) or fail [default: skip for ROOT, fail for the others]."""
    schema: Text | None
    """CSV, TSV, JSON lines: types of columns in the place of those found: bool, int64, float64, text; of JSON lines also uint64, `list<int64>` and the like, json."""
    record: Text | None
    """Binary records of fixed size: their fields as NumPy types, such as "<i4 id, <f4 x"."""
    skip_header: int | None
    """Binary records: bytes of header before the first."""
    read: Text | None
    """Any other setting of the format that `from` names, such as layout=bare of tokens (repeatable)."""

    # Fields.
    field: Text | None
    """OLD=NEW gives a field another name; NAME alone takes only the fields so named (repeatable)."""
    drop: Text | None
    """Leave a field out (repeatable)."""
    cast: Text | None
    """Other elements: f16, f32, f64, i8 to i64, u8 to u64, bool, text; of times `date`, `timestamp[us]`, `duration[us]` (repeatable)."""
    stack: Text | None
    """A dense array of this shape from a jagged field, such as p=3 or x=3x4 (repeatable)."""

    # Text and tokens.
    text_field: Text | None
    """The field that holds the text: of JSON lines (a.b is b inside of a), of a table, or inside of a field of JSON (json.a is a in the field json) [default: text, or the only field of text]."""
    id_field: Text | None
    """JSON lines: the field that names a document; its key is FILE/NAME [default: its place in the file]."""
    document: Literal["file", "paragraph", "line"] | None
    """Files of plain text (with `from=text`): a document is the file, a paragraph or a line."""
    special: Literal["template", "none", "bos", "eod"] | None
    """Tokens around a document: template (what the tokenizer itself adds), none, bos or eod."""
    append_eod: bool | None
    """End every document that has tokens with the end-of-document token."""
    eod: Text | None
    """The end-of-document token, as a number or as its text [default: the one that the tokenizer has]."""
    empty: Literal["skip", "eod"] | None
    """Documents without tokens: skip (an empty document) or eod (its end alone)."""
    parse_special: bool | Literal["yes", "no"] | None
    """Whether the text of a special token becomes that token [default: yes for a tokenizer.json, else no]."""
    pattern: Text | None
    """.tiktoken: whose pattern splits the text: gpt2, r50k_base, p50k_base, cl100k_base or o200k_base [default: told by its size]."""

    # Arrays and tables as shards.
    chunk: int | None
    """HDF5: samples in a chunk."""
    filter: Text | None
    """HDF5: how chunks are compressed: gzip, zstd, lzf, lz4, none, or, by its plugin, blosc2."""
    byte_shuffle: Text | None
    """HDF5: whether bytes are shuffled before compression: auto, on or off."""
    compression: Text | None
    """How the file is compressed: Parquet by zstd, snappy or none; Arrow by zstd, lz4 or none; TFRecord by gzip or none."""
    level: int | None
    """HDF5, Parquet: the level of compression."""
    row_group: int | None
    """Parquet: samples in a row group."""
    tensor_ext: bool | None
    """Parquet, Arrow: mark tensors as arrow.fixed_shape_tensor."""
    set: Text | None
    """Any other setting of the format, such as tensors=raw of tfrecord or vlen=on of hdf5 (repeatable)."""
