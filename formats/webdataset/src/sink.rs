//! The sink: samples as canonical tar shards.

use crate::member_column::MemberColumn;
use crate::options::Indexes;
use crate::tar_header::{BLOCK, BLOCK_U64, NAME_LIMIT, admit, encode, padded};
use crate::{dali, energon, wids};
use md5::{Digest, Md5};
use packhorse_core::{
    Code, Context, Crc32c, DataType, Error, InputRange, KEY, Members, Outlet, Result, RowCheck, Rows, SchemaRef,
    Sealed, ShardSummary, ShardWriter, Sink, aligned, crc32c, escape, folder_key, json, key_column,
    write_huggingface_config,
};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;

/// The size of the write buffer: large enough for BLAKE3's widest code path, small enough to stay in the cache between
/// the copy, the hash and the write.
const BUFFER: usize = 64 << 10;

pub(crate) struct TarSink {
    pub(crate) indexes: Indexes,
}

impl Sink for TarSink {
    fn renames(&self, field: &str) -> Option<String> {
        Some(member_field(field)).filter(|name| name != field)
    }

    fn suffix(&self) -> &'static str {
        ".tar"
    }

    fn accept(&self, schema: &SchemaRef) -> Result<()> {
        let mut names = BTreeMap::new();
        for (_, field) in fields_of(schema) {
            MemberColumn::check(field)?;
            if let Some(other) = names.insert(member_field(field.name()), field.name()) {
                return Err(Error::config(format!(
                    "the fields {other} and {} differ only in case, which readers ignore; rename one with `field`",
                    field.name()
                ))
                .with_code(Code::BadName));
            }
        }
        Ok(())
    }

    fn row_check(&self, _: &SchemaRef) -> Option<RowCheck> {
        Some(Box::new(check_rows))
    }

    fn longest_key(&self, field: &str) -> usize {
        NAME_LIMIT.saturating_sub(1 + member_field(field).len())
    }

    fn written_key(&self) -> fn(&str) -> Result<Cow<'_, str>> {
        member_key
    }

    fn admit(&self, key: &str, field: &str, bytes: u64) -> Result<()> {
        admit(key, field, bytes)
    }

    fn size_of(&self, bytes: u64) -> u64 {
        BLOCK_U64 + padded(bytes)
    }

    fn frame(&self) -> u64 {
        2 * BLOCK_U64
    }

    fn copies(&self) -> bool {
        true
    }

    fn create(&self, schema: &SchemaRef, out: &mut dyn Outlet) -> Result<Box<dyn ShardWriter>> {
        self.accept(schema)?;
        let mut names: Vec<(usize, String)> = fields_of(schema).map(|(i, f)| (i, member_field(f.name()))).collect();
        names.sort_by(|a, b| a.1.cmp(&b.1));
        let members = Members::new(names.iter().map(|(_, name)| name.clone()).collect());
        Ok(Box::new(TarWriter {
            names,
            tar: Tar {
                out: out.stream(".tar")?,
                buf: Vec::with_capacity(BUFFER),
                at: 0,
                md5: self.indexes.md5.then(Md5::new),
            },
            dali: if self.indexes.dali { Some(out.stream(".idx")?) } else { None },
            energon: if self.indexes.energon { Some(out.stream(".tar.idx")?) } else { None },
            members,
        }))
    }

    fn seal(&self, dataset: &Sealed<'_>, out: &mut dyn Outlet) -> Result<()> {
        write_huggingface_config(dataset.shards, self.suffix(), out)?;
        self.indexes.seal(dataset, out)
    }
}

fn fields_of(schema: &SchemaRef) -> impl Iterator<Item = (usize, &packhorse_core::Field)> {
    schema.fields().iter().map(|f| &**f).enumerate().filter(|(_, f)| f.name() != KEY)
}

/// A field name that every reader keeps: lower case, without characters that split a member's name.
fn member_field(name: &str) -> String {
    let mut carried = String::with_capacity(name.len());
    escape(name.to_lowercase().as_bytes(), true, &mut carried);
    // Readers make the digits lower case too.
    carried.make_ascii_lowercase();
    carried.replace('/', "%2f")
}

/// A key that every reader keeps. Keys of files are already; keys of tables may hold any text.
fn member_key(key: &str) -> Result<Cow<'_, str>> {
    let plain = |b: u8| b.is_ascii_graphic() && b != b'.';
    if key.is_empty() {
        return Err(Error::content("has an empty key, and members of a tar are named by keys; give the row a key"));
    }
    if key.starts_with('/') || key.ends_with('/') || key.contains("//") {
        return Err(Error::content(
            "has a key with a slash at its start, at its end or after another slash, which readers change; \
             rename it",
        )
        .in_sample(key));
    }
    if key.bytes().all(plain) && !key.starts_with("__") {
        return Ok(Cow::Borrowed(key));
    }
    match folder_key(key.as_bytes()) {
        Ok(carried) if !carried.is_empty() => Ok(Cow::Owned(carried.trim_end_matches('/').to_owned())),
        Ok(_) => Err(Error::content("has a key without a name; rename it").in_sample(key)),
        Err(fault) => Err(Error::content(format!("its key {fault}")).in_sample(key)),
    }
}

/// Refuses samples that a tar can't hold: invalid keys, and samples without a field.
fn check_rows(rows: &Rows) -> Result<()> {
    let keys = key_column(rows)?;
    let schema = rows.schema();
    let names: Vec<(usize, String)> = fields_of(&schema).map(|(i, f)| (i, member_field(f.name()))).collect();
    let columns = names.iter().map(|(i, _)| MemberColumn::new(rows.column(*i))).collect::<Result<Vec<_>>>()?;
    let is_json = |(i, name): &(usize, String)| {
        *rows.column(*i).data_type() == DataType::Utf8View
            && JSON.contains(&name.rsplit('.').next().unwrap_or_default())
    };
    let json: Vec<bool> = names.iter().map(is_json).collect();
    for row in 0..rows.num_rows() {
        let key = &*member_key(keys.value(row))?;
        let mut empty = true;
        for (((i, name), column), json) in names.iter().zip(&columns).zip(&json) {
            let mut digits = [0; 24];
            let Some(bytes) = column.bytes(row, &mut digits) else { continue };
            admit(key, name, bytes.len() as u64)?;
            if *json && json::parse(bytes).is_err() {
                return Err(no_json(key, schema.field(*i).name()));
            }
            empty = false;
        }
        if empty {
            return Err(no_member(key));
        }
    }
    Ok(())
}

/// The last extensions of members that readers parse as JSON.
const JSON: [&str; 2] = ["json", "jsn"];

fn no_json(key: &str, field: &str) -> Error {
    let error = Error::content(format!("has text that is not JSON in the field {field}, which readers parse"));
    error.in_field(field).in_sample(key).hint(format!("give it another name, such as `field={field}=text`"))
}

fn no_member(key: &str) -> Error {
    let message = "has no field that is not null, and a tar can't hold a sample without a member";
    Error::content(message).in_sample(key).hint("a format of columns, such as `to=parquet`, can")
}

struct TarWriter {
    /// Columns sorted by name: the order of a sample's members.
    names: Vec<(usize, String)>,
    tar: Tar,
    dali: Option<Box<dyn Write + Send>>,
    energon: Option<Box<dyn Write + Send>>,
    members: Members,
}

impl TarWriter {
    /// Appends rows; fields in `parts` are copied from their inputs.
    fn append(&mut self, rows: &Rows, parts: &[(&str, InputRange<'_>)]) -> Result<()> {
        let schema = rows.schema();
        let keys = key_column(rows)?;
        let columns = self.names.iter().map(|(i, _)| MemberColumn::new(rows.column(*i))).collect::<Result<Vec<_>>>()?;
        for row in 0..rows.num_rows() {
            let key = &*member_key(keys.value(row))?;
            self.members.push_sample(key);
            let before = self.members.len();
            for (i, ((at, name), column)) in self.names.iter().zip(&columns).enumerate() {
                let mut digits = [0; 24];
                let part = parts.iter().find(|(field, _)| schema.field(*at).name() == field);
                let (offset, len, crc) = match (part, column.bytes(row, &mut digits)) {
                    (Some((_, part)), _) => {
                        admit(key, name, part.len)?;
                        let (offset, crc) = self.tar.copy(key, name, part)?;
                        (offset, part.len, crc)
                    }
                    (None, Some(bytes)) => {
                        admit(key, name, bytes.len() as u64)?;
                        let crc = crc32c(bytes);
                        (self.tar.member(key, name, bytes)?, bytes.len() as u64, crc)
                    }
                    (None, None) => continue,
                };
                let field = u16::try_from(i).map_err(|_| Error::unsupported("more than 65,536 fields"))?;
                self.members.push_member(field, offset, len, crc);
            }
            if self.members.len() == before {
                return Err(no_member(key));
            }
        }
        Ok(())
    }
}

impl ShardWriter for TarWriter {
    fn push(&mut self, rows: &Rows) -> Result<()> {
        self.append(rows, &[])
    }

    fn push_parts(&mut self, rows: &Rows, parts: &[(&str, InputRange<'_>)]) -> Result<()> {
        self.append(rows, parts)
    }

    fn finish(mut self: Box<Self>) -> Result<ShardSummary> {
        let (bytes, md5) = self.tar.finish()?;
        if let Some(out) = &mut self.dali {
            dali::write(&self.members, out)?;
        }
        if let Some(out) = &mut self.energon {
            energon::write(&self.members, bytes, out)?;
        }
        Ok(ShardSummary {
            samples: self.members.samples() as u64,
            bytes,
            notes: md5.map(|md5| (wids::MD5.to_owned(), md5)).into_iter().collect(),
            members: Some(self.members),
            ..ShardSummary::default()
        })
    }
}

/// Bytes of a large member that are hashed and written in one piece without a copy: few enough to stay in the cache.
const PIECE: usize = 256 << 10;

/// Bytes of one read where a member is copied from an input.
const COPIED: usize = 1 << 20;

/// Writes the archive through one buffer.
struct Tar {
    out: Box<dyn Write + Send>,
    buf: Vec<u8>,
    /// The length so far, including buffered bytes.
    at: u64,
    md5: Option<Md5>,
}

impl Tar {
    /// Appends a member; returns the offset of its data.
    fn member(&mut self, key: &str, field: &str, bytes: &[u8]) -> Result<u64> {
        let len = bytes.len() as u64;
        self.append(&encode(key, field, len))?;
        let offset = self.at;
        self.append(bytes)?;
        self.pad(len)?;
        Ok(offset)
    }

    /// Appends a member in pieces; returns the offset of its data and their CRC-32C.
    fn copy(&mut self, key: &str, field: &str, part: &InputRange<'_>) -> Result<(u64, u32)> {
        self.append(&encode(key, field, part.len))?;
        let (offset, mut crc, mut buf, mut at) = (self.at, Crc32c::default(), aligned(COPIED), 0);
        while at < part.len {
            // The first piece fills the buffer, so that later pieces are written without a copy.
            let most = if self.buf.is_empty() { COPIED } else { BUFFER - self.buf.len() };
            let n = usize::try_from(part.len - at).map_or(most, |left| left.min(most));
            let piece = buf.get_mut(..n).unwrap_or_default();
            part.input.read_at(part.offset + at, piece)?;
            crc.update(piece);
            self.append(piece)?;
            at += n as u64;
        }
        self.pad(part.len)?;
        Ok((offset, crc.finish()))
    }

    /// Pads a member of `len` bytes.
    fn pad(&mut self, len: u64) -> Result<()> {
        let padding = (padded(len) - len) as usize;
        self.append([0; BLOCK].get(..padding).unwrap_or_default())
    }

    fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.at += bytes.len() as u64;
        while !bytes.is_empty() {
            if self.buf.is_empty() && bytes.len() >= BUFFER {
                // Whole buffers keep BLAKE3's chunks aligned.
                let (piece, rest) = bytes.split_at(PIECE.min(bytes.len() / BUFFER * BUFFER));
                self.write(piece)?;
                bytes = rest;
                continue;
            }
            let room = BUFFER - self.buf.len();
            let (head, tail) = bytes.split_at(room.min(bytes.len()));
            self.buf.extend_from_slice(head);
            bytes = tail;
            if self.buf.len() == BUFFER {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let buf = std::mem::take(&mut self.buf);
        self.write(&buf)?;
        self.buf = buf;
        self.buf.clear();
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some(md5) = &mut self.md5 {
            md5.update(bytes);
        }
        self.out.write_all(bytes).context("write")
    }

    /// Writes the end-of-archive marker; returns the length and the MD5 of the archive.
    fn finish(&mut self) -> Result<(u64, Option<String>)> {
        self.append(&[0; 2 * BLOCK])?;
        self.flush()?;
        let md5 = self.md5.take().map(wids::hexadecimal);
        Ok((self.at, md5))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, RecordBatch, StringViewArray};
    use std::sync::Arc;

    #[test]
    fn text_that_readers_parse_as_json_is_json() {
        let rows = |field: &str, text: &str| {
            let column = |text: &str| Arc::new(StringViewArray::from_iter_values([text])) as ArrayRef;
            RecordBatch::try_from_iter([(KEY, column("k")), (field, column(text))]).unwrap()
        };
        for field in ["json", "meta.json", "x.JSN"] {
            assert!(check_rows(&rows(field, "[1]")).is_ok());
            let error = check_rows(&rows(field, "a caption")).unwrap_err();
            assert_eq!((error.sample(), error.field()), (Some("k"), Some(field)));
            assert!(error.hints().is_some_and(|hint| hint.contains(&format!("`field={field}=text`"))), "{error}");
        }
        assert!(check_rows(&rows("json.txt", "a caption")).is_ok());
    }
}
