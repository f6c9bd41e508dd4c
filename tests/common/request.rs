//! Requests within this process, on whatever store there is.

use super::bytes;
use packhorse::Recipe;
use packhorse::core::{Result, Store};
use packhorse::dataset::Manifest;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// A request: the inputs and the wanted dataset.
pub(crate) struct Request {
    /// Names and bytes.
    pub(crate) inputs: Vec<(&'static str, Vec<u8>)>,
    recipe: Recipe,
    /// Where its tokenizer lies.
    _dir: Option<tempfile::TempDir>,
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
        let recipe = Recipe { to: Some("webdataset".into()), index: Some(index.into()), ..Recipe::default() };
        let recipe = recipe.samples_per_shard(2);
        Self { inputs: inputs.map(|(name, bytes)| (name, bytes.to_owned())).into(), recipe, _dir: None }
    }

    /// Documents, one of them empty and one that is longer than a shard, plain and compressed, for shards of tokens.
    pub(crate) fn documents() -> Self {
        let line = |text: &str| format!("{}\n", serde_json::json!({ "text": text }));
        let plain = [line("one"), line(""), line(&"long \"words\" ".repeat(40)), line("vier\nfünf")].concat();
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all((line("six") + &line("seven 😀")).as_bytes()).unwrap();
        let inputs = vec![("a.jsonl", plain.into_bytes()), ("b.jsonl.gz", packed.finish().unwrap())];
        let dir = tempfile::tempdir().unwrap();
        let tokenizer = dir.path().join("tokenizer.json");
        std::fs::write(&tokenizer, bytes::tokenizer()).unwrap();
        let recipe = Recipe { to: Some("tokens".into()), append_eod: true, ..Recipe::default() };
        Self { inputs, recipe: recipe.tokenizer(tokenizer).shard_size(400), _dir: Some(dir) }
    }

    /// Packs with one thread of each kind, so that calls come in nearly one order.
    pub(crate) fn run(&self, store: &Arc<dyn Store>, input: &Path, out: &Path) -> Result<Manifest> {
        let recipe = Recipe { input: vec![input.into()], out: Some(out.into()), ..self.recipe.clone() };
        let session = packhorse::session().store(store.clone()).jobs(1).io_threads(1);
        session.pack(&recipe).map(|packed| packed.manifest)
    }
}
