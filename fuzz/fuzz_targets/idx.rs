//! Pairs of `.idx` and `.bin` of arbitrary bytes, and the other layouts of tokens. Nothing may panic, hang, or take more
//! memory than the bytes account for. Rows that can be read, written as a pair, must give the same rows again.
//!
//! The lowest bit of the first byte makes the counts of the index fit its length, so that the code behind this check
//! runs too; the other bits are the first row to read of the other layouts. The second byte is the length of the `.bin`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packhorse_core::{Format, Input, Limits, MemoryInput, Options, Outlet, PatchableWriter, Result, Rows, ScratchFile};
use packhorse_tokens::{MergePlan, Tokens, VerifyOptions, repair, verify};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex};

/// Files in memory by suffix.
#[derive(Clone, Default)]
struct Folder(BTreeMap<String, Arc<Mutex<Vec<u8>>>>);

impl Folder {
    fn with(mut self, suffix: &str, bytes: &[u8]) -> Self {
        self.0.insert(suffix.to_owned(), Arc::new(Mutex::new(bytes.to_vec())));
        self
    }

    fn input(&self, suffix: &str) -> Beside {
        let bytes = self.0.get(suffix).map(|bytes| bytes.lock().unwrap().clone()).unwrap_or_default();
        Beside(MemoryInput::new(format!("part{suffix}"), bytes), self.clone())
    }
}

struct Appended(Arc<Mutex<Vec<u8>>>);

impl Write for Appended {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(buf);
        Ok(buf.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Outlet for Folder {
    fn stream(&mut self, suffix: &str) -> Result<Box<dyn Write + Send>> {
        let bytes = Arc::<Mutex<Vec<u8>>>::default();
        self.0.insert(suffix.to_owned(), bytes.clone());
        Ok(Box::new(Appended(bytes)))
    }
    fn patchable(&mut self, _: &str) -> Result<Box<dyn PatchableWriter>> {
        Err(packhorse_core::Error::bug("nothing to patch here"))
    }
    fn scratch(&mut self) -> Result<Box<dyn ScratchFile>> {
        Ok(Box::new(Vec::new()))
    }
}

/// A file and its folder, which has its siblings.
struct Beside(MemoryInput, Folder);

impl Input for Beside {
    packhorse_core::forward_input!(0: name len read_at stream);

    fn sibling(&self, name: &str) -> Result<Option<Box<dyn Input>>> {
        let suffix = name.strip_prefix("part").unwrap_or_default();
        Ok(self.1.0.contains_key(suffix).then(|| Box::new(self.1.input(suffix)) as Box<dyn Input>))
    }
}

const LIMITS: Limits = Limits { blob: 16 << 20, pixels: 1 << 20, header: 64 << 10, ahead: 16 << 20, scratch: 16 << 20 };

fn read(input: &dyn Input, options: &Options, from: u64) -> Result<Vec<Rows>> {
    let source = Tokens::default().source(options, LIMITS)?;
    let table = source.open(Arc::new(input))?;
    table.info()?;
    table.rows(from..u64::MAX)?.collect()
}

/// Changes the counts of sequences and documents in the header so that they match the length of the index.
fn fitted(idx: &mut [u8]) {
    let Some(rest) = idx.len().checked_sub(34 + 8) else { return };
    let sequences = (u64::from(idx[18]) % 8).min(rest as u64 / 12);
    let left = rest as u64 - 12 * sequences;
    let (sequences, entries) = (sequences, 1 + left / 8);
    idx[..9].copy_from_slice(b"MMIDIDX\0\0");
    idx[9..17].copy_from_slice(&1u64.to_le_bytes());
    idx[17] = 1 + idx[17] % 8;
    idx[18..26].copy_from_slice(&sequences.to_le_bytes());
    idx[26..34].copy_from_slice(&entries.to_le_bytes());
}

fn pair(folder: &Folder) {
    let input = folder.input(".idx");
    verify(&input, &VerifyOptions { vocabulary: Some(50_000), eod: Some(1) }).unwrap();
    let mut idx = Vec::new();
    if let Ok(Some(_)) = repair(&input, &VerifyOptions::default(), &mut idx) {
        let now = folder.clone().with(".idx", &idx);
        assert!(verify(&now.input(".idx"), &VerifyOptions::default()).unwrap().problems.is_empty());
        read(&now.input(".idx"), &Options::new(), 0).unwrap();
    }
    if let Ok(plan) = MergePlan::new(&[&input, &input]) {
        let mut out = Vec::new();
        plan.write_idx(&[&input, &input], &mut out).unwrap();
        assert_eq!(out.len() as u64, plan.idx_len());
    }
    let _ = read(&input, &Options::new(), 1);
    let Ok(found) = read(&input, &Options::new(), 0) else { return };
    let Some(first) = found.first() else { return };
    let sink = Tokens::default().sink(&Options::new()).unwrap();
    let mut out = Folder::default();
    let mut writer = sink.create(&first.schema(), &mut out).unwrap();
    found.iter().for_each(|rows| writer.push(rows).unwrap());
    writer.finish().unwrap();
    assert_eq!(read(&out.input(".idx"), &Options::new(), 0).unwrap(), found);
}

fuzz_target!(|data: &[u8]| {
    let [what, cut, rest @ ..] = data else { return };
    let (bin, idx) = rest.split_at(usize::from(*cut).min(rest.len()));
    let mut idx = idx.to_vec();
    if what & 1 == 1 {
        fitted(&mut idx);
    }
    pair(&Folder::default().with(".bin", bin).with(".idx", &idx));
    let ds = Folder::default().with(".ds", bin).with(".ds.index", &idx).with(".ds.metadata", b"gpt2|4");
    let _ = read(&ds.input(".ds"), &Options::new(), u64::from(what >> 1));
    let plain = Folder::default().with(".bin", rest);
    for layout in ["llmc", "bare"] {
        let options: Options = [("layout", layout), ("length", "3")].into_iter().collect();
        let _ = read(&plain.input(".bin"), &options, u64::from(what >> 1));
    }
});
