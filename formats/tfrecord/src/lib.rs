//! TFRecord: files of framed records, each a `tf.train.Example`, as TensorFlow writes them.
//!
//! * **Specification**: [TFRecord](https://www.tensorflow.org/tutorials/load_data/tfrecord) for the
//!   framing,
//!   [`example.proto`](https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/example/example.proto) and
//!   [`feature.proto`](https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/example/feature.proto) for
//!   a record, [the encoding of protocol buffers](https://protobuf.dev/programming-guides/encoding/).
//! * **Who else reads it**: `tf.data.TFRecordDataset`, NVIDIA DALI (`fn.readers.tfrecord`, with our
//!   `.index`), the Python package `tfrecord`, Apache Beam, JAX's grain.
//! * **The bytes**:
//!
//!   ```text
//!   length        u64 LE
//!   masked CRC    u32 LE   of the length: rotate the CRC-32C right by 15, add 0xa282ead8
//!   data          length B the Example
//!   masked CRC    u32 LE   of the data
//!   …             the next record; no header, no end mark
//!
//!   Example  0A len { entry of the map: 0A len { 0A len NAME  12 len Feature } … }
//!   Feature  0A len BytesList | 12 len FloatList | 1A len Int64List
//!   lists    BytesList { 0A len bytes … }  FloatList { 0A len f32 LE… }  Int64List { 0A len varint… }
//!   ```
//!
//!   Features are sorted by name and numbers are packed: the bytes equal those of C++ protobuf's deterministic
//!   serialisation. How a field becomes features: `docs/tfrecord.md` and the module `layout`. Keys are the feature
//!   `__key__`.
//! * **Companions of a shard**: `.schema.json` (types and shapes, which records do not hold) and, if the shard is not
//!   compressed, `.index` (a line `OFFSET LENGTH` for each record, as `tfrecord2idx` writes it). **Of a dataset**:
//!   `features.json`. Without a schema document the source infers the schema from the first records: bytes are blobs,
//!   numbers are `Int64` and `Float32`; one value is a scalar, the same number of values in every record a tensor of
//!   one dimension, else a list.
//! * **Options** of the sink: `compression` (`none`, default; `gzip`), `tensors` (`list`, default: elements as list
//!   values; `raw`: the tensor's bytes as one value for `tf.io.decode_raw`). Options of the source: `unread`, features of
//!   files without a schema that are delivered as null, one per line; `crc` (`on`,
//!   default; `off`), `infer` (the number of records that the schema is inferred from, default 1000, but at most 16 MiB
//!   of them).
//! * **Revisions**: 1, the first.

mod byte_stream;
mod document;
mod element;
mod example;
mod feature;
mod feature_builder;
mod frame;
mod gzip;
mod index;
mod infer;
mod ints;
mod layout;
mod options;
mod record_reader;
mod row_builder;
mod scan;
mod sink;
mod source;
mod wire;

use packhorse_core::{Format, FormatInfo, Limits, Options, Result, Sink, Source};

/// The format `tfrecord`.
#[derive(Clone, Copy, Debug, Default)]
pub struct TfRecord;

static INFO: FormatInfo =
    FormatInfo { id: "tfrecord", revision: 1, extensions: &["tfrecord", "tfrecords", "tfrec"], fields: &[] };

impl Format for TfRecord {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn companions(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("tfrecord", "schema.json"),
            ("tfrecords", "schema.json"),
            ("tfrec", "schema.json"),
            ("tfrecord", "index"),
            ("tfrecords", "index"),
            ("tfrec", "index"),
        ]
    }

    /// The features of a dataset of TensorFlow Datasets.
    fn folder_files(&self) -> &'static [&'static str] {
        &["features.json", "dataset_info.json"]
    }

    fn source(&self, options: &Options, limits: Limits) -> Result<Box<dyn Source>> {
        Ok(Box::new(source::RecordSource { options: options::RecordSourceOptions::parse(options)?, limits }))
    }

    fn sink(&self, options: &Options) -> Result<Box<dyn Sink>> {
        Ok(Box::new(sink::RecordSink { options: options::RecordSinkOptions::parse(options)? }))
    }
}
