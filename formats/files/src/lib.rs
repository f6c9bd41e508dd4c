//! Plain files: each file is one field of one sample, with its bytes unchanged.
//!
//! * **Specification**: none. Names are split as in WebDataset: the key is the path up to the first dot of
//!   the base name, the field is the rest.
//! * **Who else reads it**: every program.
//! * **The bytes**: unchanged.
//! * **Options**: none. **Revisions**: 1, the first.
//!
//! Fields that WebDataset's decoders parse as numbers (`.cls`, `.id`, …) or text (`.txt`, `.json`) are
//! decoded for containers that store typed values.
//!
//! This format accepts all files that no other format claims. Planning groups files that share a key into
//! one sample.

mod codec;

use arrow_array::{ArrayRef, BinaryViewArray, RecordBatch, StringViewArray};
use packhorse_core::{
    ArchiveMember, Blocks, Codec, DataType, Error, Extent, Field, Format, FormatInfo, Input, KEY, Limits, Options,
    Result, Rows, Schema, Source, Table, TableInfo, split_name,
};
use std::ops::Range;
use std::sync::Arc;

/// The format `files`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Files;

static INFO: FormatInfo = FormatInfo { id: "files", revision: 1, extensions: &[""], fields: codec::FIELDS };

impl Format for Files {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn source(&self, options: &Options, limits: Limits) -> Result<Box<dyn Source>> {
        options.only(&[])?;
        Ok(Box::new(FileSource { limits }))
    }

    fn codec(&self, options: &Options, limits: Limits) -> Result<Box<dyn Codec>> {
        options.only(&[])?;
        Ok(Box::new(codec::Plain { limits }))
    }
}

struct FileSource {
    limits: Limits,
}

impl Source for FileSource {
    fn lists(&self) -> bool {
        true
    }

    fn list(&self, input: &dyn Input, each: &mut dyn FnMut(ArchiveMember<'_>) -> Result<()>) -> Result<()> {
        let len = input.len().ok_or_else(|| Error::unsupported("a file of unknown length").in_input(input.name()))?;
        each(ArchiveMember { name: input.name().as_bytes(), extent: Ok(Extent { offset: 0, len }) })
    }

    fn open<'a>(&self, input: Arc<dyn Input + 'a>) -> Result<Box<dyn Table + 'a>> {
        Ok(Box::new(File { input, limits: self.limits }))
    }
}

/// An open file.
struct File<'a> {
    input: Arc<dyn Input + 'a>,
    limits: Limits,
}

impl Table for File<'_> {
    fn info(&self) -> Result<TableInfo> {
        Err(Error::unsupported("is a plain file, which has no schema").in_input(self.input.name()))
    }

    fn rows(&self, items: Range<u64>) -> Result<Blocks<'_>> {
        let one = items.contains(&0).then(|| self.row().map_err(|e| e.in_input(self.input.name())));
        Ok(Box::new(one.into_iter()))
    }
}

impl File<'_> {
    fn row(&self) -> Result<Rows> {
        let name = split_name(self.input.name().as_bytes()).map_err(|fault| Error::content(fault.to_string()))?;
        let bytes = self.input.read_all(self.limits.blob)?;
        let fields =
            vec![Field::new(KEY, DataType::Utf8View, false), Field::new(&name.field, DataType::BinaryView, false)];
        let key: ArrayRef = Arc::new(StringViewArray::from_iter_values([&name.key]));
        let blob: ArrayRef = Arc::new(BinaryViewArray::from_iter_values([&bytes]));
        RecordBatch::try_new(Arc::new(Schema::new(fields)), vec![key, blob]).map_err(|e| Error::bug(e.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::{Kind, MemoryInput, Sample};

    fn source() -> Box<dyn Source> {
        Files.source(&Options::new(), Limits::default()).unwrap()
    }

    #[test]
    fn a_file_is_one_field_of_one_sample() {
        let input = MemoryInput::new("dress/0001.seg.PNG", b"pixels".to_vec());
        let table = source().open(Arc::new(&input)).unwrap();
        let rows = table.rows(0..10).unwrap().next().unwrap().unwrap();
        let sample = Sample::new(&rows, 0).unwrap();
        assert_eq!((sample.key().unwrap(), sample.bytes("seg.png")), ("dress/0001", Some(&b"pixels"[..])));
        assert_eq!(table.rows(1..10).unwrap().count(), 0);
    }

    #[test]
    fn a_file_without_an_extension_says_so() {
        let input = MemoryInput::new("README", b"".to_vec());
        let table = source().open(Arc::new(&input)).unwrap();
        let error = table.rows(0..1).unwrap().next().unwrap().unwrap_err();
        assert_eq!((error.kind(), error.input()), (Kind::Content, Some("README")));
    }
}
