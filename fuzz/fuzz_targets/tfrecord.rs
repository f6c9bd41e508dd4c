//! TFRecord files of arbitrary bytes, with a schema document and an index of arbitrary bytes beside them. Nothing may
//! panic, hang, or take more memory than the bytes account for, and a file must give as many blocks by position as by
//! stream.
//!
//! The first byte says whether there are a document and an index; each begins with a byte for its length. If the first
//! byte's lowest bit is set, the rest becomes records with right checksums, so that the code behind the checks runs too.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packhorse_core::{Format, Input, Limits, MemoryInput, Options, Result, Rows, crc32c};
use packhorse_tfrecord::TfRecord;
use std::sync::Arc;

struct Beside {
    data: MemoryInput,
    document: Option<Vec<u8>>,
    index: Option<Vec<u8>>,
    stream: bool,
}

impl Input for Beside {
    packhorse_core::forward_input!(data: name read_at stream);

    fn len(&self) -> Option<u64> {
        if self.stream { None } else { self.data.len() }
    }

    fn sibling(&self, name: &str) -> Result<Option<Box<dyn Input>>> {
        let found = if name.ends_with(".schema.json") { &self.document } else { &self.index };
        Ok(found.as_ref().map(|bytes| Box::new(MemoryInput::new(name, bytes.clone())) as Box<dyn Input>))
    }
}

fn masked(bytes: &[u8]) -> [u8; 4] {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

/// `bytes` as records with right framing: a length byte, then as many bytes, for each.
fn framed(mut bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some((len, rest)) = bytes.split_first() {
        let (record, rest) = rest.split_at(rest.len().min(usize::from(*len)));
        let len = (record.len() as u64).to_le_bytes();
        out.extend([&len[..], &masked(&len), record, &masked(record)].concat());
        bytes = rest;
    }
    out
}

fn read(input: &Beside, crc: &str, from: u64) -> Result<Vec<Rows>> {
    let limits = Limits { blob: 1 << 20, header: 1 << 16, ..Limits::default() };
    let options: Options = [("crc", crc)].into_iter().collect();
    let source = TfRecord.source(&options, limits).expect("known options");
    let table = source.open(Arc::new(input))?;
    let info = table.info()?;
    let rows: Vec<Rows> = table.rows(from..u64::MAX)?.collect::<Result<_>>()?;
    let found: u64 = rows.iter().map(|rows| rows.num_rows() as u64).sum();
    assert_eq!(found, info.items.saturating_sub(from));
    assert!(rows.iter().all(|rows| rows.schema() == info.schema));
    Ok(rows)
}

fuzz_target!(|bytes: &[u8]| {
    let Some((how, rest)) = bytes.split_first() else { return };
    let take = |on: u8, rest: &mut &[u8]| {
        let len = usize::from(rest.first().copied().unwrap_or_default()) * 4;
        (how & on != 0).then(|| {
            let (head, tail) = rest.split_at(rest.len().min(1)).1.split_at((rest.len().saturating_sub(1)).min(len));
            *rest = tail;
            head.to_vec()
        })
    };
    let mut rest = rest;
    let document = take(2, &mut rest);
    let index = take(4, &mut rest);
    let data = if how & 1 != 0 { framed(rest) } else { rest.to_vec() };
    let crc = if how & 8 != 0 { "off" } else { "on" };
    let mut input = Beside { data: MemoryInput::new("a.tfrecord", data), document, index, stream: false };
    let found = read(&input, crc, 0);
    if index_free(&input) {
        let _ = read(&input, crc, 1);
        input.stream = true;
        // A stream is never taken for compressed: its bytes are decompressed already.
        if let (Ok(found), Ok(streamed)) = (found, read(&input, crc, 0)) {
            assert_eq!(found.len(), streamed.len());
        }
    } else {
        let source =
            TfRecord.source(&Options::new(), Limits { blob: 1 << 20, ..Limits::default() }).expect("no options");
        if let Ok(table) = source.open(Arc::new(&input)) {
            let _ = table.rows(1..9).map(|blocks| blocks.take(100).all(|block| block.is_ok()));
        }
    }
});

fn index_free(input: &Beside) -> bool {
    input.index.is_none()
}
