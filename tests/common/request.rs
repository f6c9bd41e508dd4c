//! Requests within this process, on whatever store there is.

use super::bytes;
use packhorse::core::{Cancel, Limits, Result, Store};
use packhorse::dataset::Manifest;
use packhorse::pack::{Cut, PackOptions, Packing, PlanOptions, Scan, ScanOptions, pack, plan, scan, seal, store_plan};
use packhorse::transform::Transform;
use packhorse::transform::tokenize::{Tokenize, TokenizeOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// What is to become of which inputs.
pub(crate) struct Request {
    /// Names and bytes.
    pub(crate) inputs: Vec<(&'static str, Vec<u8>)>,
    transforms: Vec<Box<dyn Transform>>,
    options: PlanOptions,
}

impl Request {
    /// Samples of some fields, for shards of WebDataset with these indexes.
    pub(crate) fn samples(index: &str) -> Self {
        let inputs: [(&str, &[u8]); 6] = [
            ("a.jpg", b"one"),
            ("a.cls", b"0"),
            ("b.jpg", &[7; 3000]),
            ("c.jpg", b""),
            ("d.txt", b"four"),
            ("e.jpg", b"five"),
        ];
        let sink = [("index", index)].into_iter().collect();
        let cut = Cut { samples: Some(2), ..Cut::default() };
        let options = PlanOptions { cut, sink, ..PlanOptions::default() };
        Self { inputs: inputs.map(|(name, bytes)| (name, bytes.to_owned())).into(), transforms: Vec::new(), options }
    }

    /// Documents, one of them empty and one that is longer than a shard, plain and compressed, for shards of tokens.
    pub(crate) fn documents() -> Self {
        let line = |text: &str| format!("{}\n", serde_json::json!({ "text": text }));
        let plain = [line("one"), line(""), line(&"long \"words\" ".repeat(40)), line("vier\nfünf")].concat();
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all((line("six") + &line("seven 😀")).as_bytes()).unwrap();
        let inputs = vec![("a.jsonl", plain.into_bytes()), ("b.jsonl.gz", packed.finish().unwrap())];
        let tokenize = TokenizeOptions { append_eod: true, ..TokenizeOptions::default() };
        let tokenize = Tokenize::new(bytes::tokenizer().as_bytes(), "tokenizer.json", tokenize).unwrap();
        let cut = Cut { bytes: Some(400), ..Cut::default() };
        let options = PlanOptions { format: "tokens".to_owned(), cut, ..PlanOptions::default() };
        Self { inputs, transforms: vec![Box::new(tokenize)], options }
    }

    /// scan, plan, pack and seal with one thread of each kind, so that calls come in nearly one order.
    pub(crate) fn run(&self, store: &Arc<dyn Store>, input: &Path, out: &Path) -> Result<Manifest> {
        let (registry, limits, cancel) = (packhorse::registry(), Limits::default(), Cancel::default());
        let scanning = Scan { registry: &registry, store: &**store, limits, observer: &(), cancel: &cancel };
        let listing = scan(scanning, &ScanOptions { roots: vec![input.to_owned()], ..ScanOptions::default() })?;
        let plan = plan(&registry, listing, &self.transforms, &self.options, &())?;
        store_plan(store, out, &plan)?;
        let transforms = &self.transforms;
        let packing =
            Packing { registry: &registry, transforms, store: store.clone(), limits, observer: &(), cancel: &cancel };
        pack(&packing, out, &PackOptions { jobs: 1, io_threads: 1, ..PackOptions::default() })?;
        seal(&registry, transforms, store, out, &cancel)
    }
}
