//! Shards for tests, written by the crate `tar`.

use packhorse_core::{Registry, Store};
use packhorse_read::*;
use packhorse_storage::Local;
use std::path::Path;
use std::sync::Arc;

pub(crate) fn registry() -> Registry {
    Registry::new().with(packhorse_webdataset::WebDataset).with(packhorse_npz::Npz).with(packhorse_text::Text)
}

/// Writes a tar of samples: key, and field and bytes of each member.
pub(crate) fn tar<'a>(path: &Path, samples: impl Iterator<Item = (String, Vec<(&'a str, Vec<u8>)>)>) {
    let mut tar = tar::Builder::new(std::fs::File::create(path).unwrap());
    for (key, fields) in samples {
        for (field, bytes) in fields {
            let mut header = tar::Header::new_ustar();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, format!("{key}.{field}"), &bytes[..]).unwrap();
        }
    }
    tar.into_inner().unwrap();
}

/// Some hundred bytes that identify a sample.
pub(crate) fn payload(shard: usize, sample: usize) -> Vec<u8> {
    format!("{shard}/{sample};").into_bytes().repeat(1 + (shard * 31 + sample * 7) % 90)
}

/// Writes shards with `counts` samples to a folder, each sample with a text field `txt` and a label `cls`.
pub(crate) fn shards(dir: &Path, counts: &[usize]) {
    for (shard, count) in counts.iter().enumerate() {
        let sample = |i: usize| {
            (
                format!("s{shard:02}-{i:04}"),
                vec![("txt", payload(shard, i)), ("cls", format!("{}", i % 10).into_bytes())],
            )
        };
        tar(&dir.join(format!("part-{shard:03}.tar")), (0..*count).map(sample));
    }
}

pub(crate) fn dataset(path: &Path) -> Dataset {
    let store: Arc<dyn Store> = Arc::new(Local);
    Dataset::open(&registry(), store, path, &OpenOptions::default()).unwrap()
}

/// The whole content of a batch, for comparisons.
pub(crate) type Seen = (u64, std::ops::Range<u64>, Vec<u64>, Vec<String>, Vec<(String, Vec<u8>)>);

pub(crate) fn seen<H: AsRef<[u8]>>(batch: &Batch<H>) -> Seen {
    let keys = (0..batch.rows()).map(|row| batch.key(row).unwrap().to_owned()).collect();
    let fields = batch.layout().fields().iter();
    let fields = fields.map(|field| (field.name.clone(), batch.field(&field.name).unwrap().to_vec())).collect();
    (batch.epoch(), batch.positions(), batch.numbers().to_vec(), keys, fields)
}

pub(crate) fn all(dataset: &Dataset, fields: &[FieldOptions], options: &LoaderOptions) -> Vec<Seen> {
    let loader = Loader::new(dataset.clone(), fields, options, Host::default()).unwrap();
    loader.map(|batch| seen(&batch.unwrap())).collect()
}
