//! Locates the messages of an Arrow IPC file or stream, from headers only.
//!
//! ```text
//! file    "ARROW1" 0 0 | messages | end of stream | footer: schema, blocks of the messages | i32 length | "ARROW1"
//! stream  messages, the schema first, then dictionaries and record batches | end of stream
//! message FFFFFFFF | i32 length of the header | header, a flatbuffer | body
//! end     FFFFFFFF 00000000, or the end of the file
//! ```

use super::guard;
use crate::contain::arrow_error;
use crate::fetch::{length, read};
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::{Block, Endianness, MessageHeader, MetadataVersion, root_as_footer, root_as_message};
use packhorse_core::{Error, Input, Limits, Result, SchemaRef};
use std::sync::Arc;

const MAGIC: &[u8; 6] = b"ARROW1";

/// The continuation marker of a message since version 0.15; older messages only have the length.
const MARK: [u8; 4] = [0xff; 4];

/// A message with a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IpcMessage {
    pub(crate) offset: u64,
    /// Bytes before the body, including the marker and the length.
    pub(crate) head: u32,
    pub(crate) body: u64,
    /// The approximate size of the body in memory.
    pub(crate) decoded: u64,
    /// The rows of a record batch.
    pub(crate) rows: u64,
    /// The number of dictionaries it may use: those before it in a stream, all of them in a file.
    pub(crate) dictionaries: usize,
}

impl IpcMessage {
    pub(crate) fn block(&self) -> Block {
        let (head, body) = (i32::try_from(self.head).unwrap_or(i32::MAX), i64::try_from(self.body).unwrap_or(i64::MAX));
        Block::new(i64::try_from(self.offset).unwrap_or(i64::MAX), head, body)
    }
}

/// The messages of a file or stream.
pub(crate) struct IpcLayout {
    pub(crate) schema: SchemaRef,
    pub(crate) version: MetadataVersion,
    pub(crate) dictionaries: Vec<IpcMessage>,
    pub(crate) batches: Vec<IpcMessage>,
}

/// The input with its length and limits.
struct IpcInput<'a> {
    input: &'a dyn Input,
    len: u64,
    limits: Limits,
}

impl IpcLayout {
    pub(crate) fn load(input: &dyn Input, limits: Limits) -> Result<Self> {
        let place = IpcInput { input, len: length(input)?, limits };
        let mut start = [0; 6];
        if place.len >= 6 {
            input.read_at(0, &mut start)?;
        }
        if start == *MAGIC { file(&place) } else { stream(&place) }
    }
}

fn file(place: &IpcInput<'_>) -> Result<IpcLayout> {
    let cut = || Error::cut_short("an Arrow file ends in ARROW1; write it again");
    let end = place.len.checked_sub(10).ok_or_else(cut)?;
    let mut last = [0; 10];
    place.input.read_at(end, &mut last)?;
    let [a, b, c, d, magic @ ..] = last;
    let size = u64::try_from(i32::from_le_bytes([a, b, c, d])).ok().filter(|_| magic == *MAGIC).ok_or_else(cut)?;
    let start = end.checked_sub(size).ok_or_else(cut)?;
    let bytes = read(place.input, place.len, start..end, place.limits)?;
    let footer = root_as_footer(&bytes).map_err(|e| Error::content(format!("has a damaged footer: {e}")))?;
    let found = footer.schema().ok_or_else(|| Error::content("has a footer without a schema; write it again"))?;
    let schema = schema_of(found)?;
    let (columns, widths) = (schema.fields().len(), widths(&schema));
    let part = |block, kind, dictionaries| part(place, block, (kind, columns, dictionaries), &widths);
    let dictionary = |block| part(block, MessageHeader::DictionaryBatch, 0);
    let dictionaries = footer.dictionaries().into_iter().flatten().map(dictionary).collect::<Result<Vec<_>>>()?;
    let batch = |block| part(block, MessageHeader::RecordBatch, dictionaries.len());
    let batches = footer.recordBatches().into_iter().flatten().map(batch);
    let batches = batches.collect::<Result<Vec<_>>>()?;
    refuse_unlisted(place, dictionaries.iter().chain(&batches))?;
    // Some writers give the footer a newer version than the messages, which decoders compare with it.
    let first = dictionaries.first().or(batches.first());
    let first = first.map(|first| message(place, first.offset, false)).transpose()?.flatten();
    let version = first.and_then(|(_, bytes)| Some(root_as_message(&bytes).ok()?.version()));
    Ok(IpcLayout { schema, version: version.unwrap_or(footer.version()), dictionaries, batches })
}

/// Refuses a file with a record batch after the last message in its footer: the footer is damaged.
fn refuse_unlisted<'a>(place: &IpcInput<'_>, listed: impl Iterator<Item = &'a IpcMessage>) -> Result<()> {
    // The schema follows the magic, padded to the alignment of the messages, which is 8 or 64.
    const FIRST: [u64; 2] = [8, 64];
    let end = |at: u64| -> Option<u64> {
        let (head, bytes) = message(place, at, false).ok()??;
        let body = root_as_message(&bytes).ok()?.bodyLength();
        at.checked_add(head.into())?.checked_add(u64::try_from(body).ok()?)
    };
    let last = listed.map(|part| part.offset.saturating_add(u64::from(part.head)).saturating_add(part.body)).max();
    let Some(at) = last.or_else(|| FIRST.into_iter().find_map(end)) else { return Ok(()) };
    let next = message(place, at, false).ok().flatten();
    let is_batch = |bytes: &[u8]| root_as_message(bytes).is_ok_and(|m| m.header_type() == MessageHeader::RecordBatch);
    match next.is_some_and(|(_, bytes)| is_batch(&bytes)) {
        true => Err(Error::content(format!("has a footer that lacks the record batch at byte {at}; write it again"))),
        false => Ok(()),
    }
}

fn schema_of(found: arrow_ipc::Schema<'_>) -> Result<SchemaRef> {
    if found.endianness() != Endianness::Little {
        return Err(Error::unsupported("is written in big-endian byte order; write it on a little-endian machine"));
    }
    try_fb_to_schema(found).map(Arc::new).map_err(|e| arrow_error(e, "Arrow"))
}

/// The bytes per entry of the fields of `schema`, and of those inside.
fn widths(schema: &SchemaRef) -> Vec<u64> {
    let mut widths = Vec::new();
    schema.fields().iter().for_each(|field| guard::widths(field, &mut widths));
    widths
}

/// The message at `block` of a file, which must have the type `kind`, in a file of `columns` columns and `dictionaries`
/// dictionaries.
fn part(
    place: &IpcInput<'_>,
    block: &Block,
    (kind, columns, dictionaries): (MessageHeader, usize, usize),
    widths: &[u64],
) -> Result<IpcMessage> {
    let outside = || Error::content("has a record batch outside of the file; write it again");
    let offset = u64::try_from(block.offset()).map_err(|_| outside())?;
    let head = u32::try_from(block.metaDataLength()).ok().filter(|head| *head >= 8).ok_or_else(outside)?;
    let body = u64::try_from(block.bodyLength()).map_err(|_| outside())?;
    let end = offset.checked_add(head.into()).and_then(|end| end.checked_add(body));
    end.filter(|end| *end <= place.len).ok_or_else(outside)?;
    place.limits.header(head.into())?;
    let bytes = read(place.input, place.len, offset..offset + u64::from(head), place.limits)?;
    let damaged = |e: &dyn std::fmt::Display| Error::content(format!("has a damaged message at byte {offset}: {e}"));
    let skip = if bytes.starts_with(&MARK) { 8 } else { 4 };
    let size = bytes.get(skip - 4..skip).and_then(|size| size.try_into().ok()).map(u32::from_le_bytes);
    if size != head.checked_sub(skip as u32) {
        return Err(damaged(&"its length differs from the footer"));
    }
    let message = root_as_message(bytes.get(skip..).unwrap_or_default()).map_err(|e| damaged(&e))?;
    if message.header_type() != kind || u64::try_from(message.bodyLength()).ok() != Some(body) {
        return Err(damaged(&"its type or size differs from the footer"));
    }
    let rows = guard::rows(&message, columns, body)?;
    let decoded = guard::decoded(&message, widths, body);
    Ok(IpcMessage { offset, head, body, decoded, rows, dictionaries })
}

fn stream(place: &IpcInput<'_>) -> Result<IpcLayout> {
    let mut at = 0u64;
    let (mut layout, mut all): (Option<IpcLayout>, _) = (None, Vec::new());
    while let Some((head, bytes)) = message(place, at, layout.is_none())? {
        let message = root_as_message(&bytes);
        let message = message.map_err(|e| Error::content(format!("has a damaged message at byte {at}: {e}")))?;
        let body = u64::try_from(message.bodyLength()).ok();
        let end = body.and_then(|body| at.checked_add(head.into())?.checked_add(body)).filter(|end| *end <= place.len);
        let (Some(body), Some(end)) = (body, end) else {
            return Err(Error::cut_short(format!("the message at byte {at} has no end")));
        };
        match (&mut layout, message.header_as_schema()) {
            (None, Some(found)) => {
                let (version, schema) = (message.version(), schema_of(found)?);
                all = widths(&schema);
                layout = Some(IpcLayout { schema, version, dictionaries: vec![], batches: vec![] });
            }
            (None, None) => return Err(not_arrow()),
            (Some(_), Some(_)) => return Err(Error::content("has a second schema; write it again")),
            (Some(layout), None) => {
                let rows = guard::rows(&message, layout.schema.fields().len(), body)?;
                let (decoded, dictionaries) = (guard::decoded(&message, &all, body), layout.dictionaries.len());
                let part = IpcMessage { offset: at, head, body, decoded, rows, dictionaries };
                match message.header_type() {
                    MessageHeader::RecordBatch => layout.batches.push(part),
                    MessageHeader::DictionaryBatch => layout.dictionaries.push(part),
                    other => return Err(Error::unsupported(format!("has a message of type {other:?} at byte {at}"))),
                }
            }
        }
        at = end;
    }
    refuse_rest(place, at)?;
    layout.ok_or_else(not_arrow)
}

/// Refuses a stream with more than padding, and end-of-stream markers that a writer repeats, from the first such marker at `at` on.
fn refuse_rest(place: &IpcInput<'_>, at: u64) -> Result<()> {
    const LOOK: usize = 64;
    let mut bytes = [0; LOOK];
    let have = place.len.saturating_sub(at).min(LOOK as u64) as usize;
    place.input.read_at(at, bytes.get_mut(..have).unwrap_or_default())?;
    let mut rest = bytes.as_slice();
    while let Some(behind) = rest.strip_prefix(&MARK).unwrap_or(rest).strip_prefix(&[0; 4]) {
        rest = behind;
    }
    match rest.iter().any(|byte| *byte != 0) {
        true => {
            let message =
                format!("goes on behind the end of its stream at byte {at}, as streams do that were joined with cat");
            Err(Error::content(message).hint("give each stream a file of its own"))
        }
        false => Ok(()),
    }
}

fn not_arrow() -> Error {
    Error::content("is neither an Arrow file nor an Arrow stream, or is cut short")
}

/// The length and the bytes of the header of the message at `at`; `None` at the end of the stream.
fn message(place: &IpcInput<'_>, at: u64, first: bool) -> Result<Option<(u32, bytes::Bytes)>> {
    if at == place.len && !first {
        return Ok(None);
    }
    let cut =
        || if first { not_arrow() } else { Error::content(format!("is cut short within a message at byte {at}")) };
    let mut start = [0; 8];
    let have = place.len.saturating_sub(at).min(8) as usize;
    place.input.read_at(at, start.get_mut(..have).unwrap_or_default())?;
    let [a, b, c, d, e, f, g, h] = start;
    let (prefix, size) = if [a, b, c, d] == MARK { (8u32, [e, f, g, h]) } else { (4, [a, b, c, d]) };
    let size = u32::from_le_bytes(size);
    let head = size.checked_add(prefix).filter(|_| have >= prefix as usize && i32::try_from(size).is_ok());
    let head = head.ok_or_else(cut)?;
    if size == 0 && !first {
        return Ok(None);
    }
    let end = at.checked_add(head.into()).filter(|end| *end <= place.len).ok_or_else(cut)?;
    place.limits.header(head.into())?;
    Ok(Some((head, read(place.input, place.len, at + u64::from(prefix)..end, place.limits)?)))
}
