//! packhorse turns many small files into few large shards, and streams shards to a GPU.
//!
//! ```text
//! roots ─scan→ Listing ─plan→ Plan ─fill(Part)→ Receipts ─seal→ Manifest
//! ```
//!
//! This crate is the front door: [`session`] packs what a [`Recipe`] says, with all formats of this build. It re-exports the
//! rooms under short names. `examples/pack_images.rs` packs a folder with it; `examples/add_a_format.rs` adds a format of
//! its own.

pub use packhorse_core as core;
#[cfg(any(feature = "pack", feature = "read"))]
pub use packhorse_dataset as dataset;
#[cfg(feature = "gpu")]
pub use packhorse_gpu as gpu;
#[cfg(feature = "pack")]
pub use packhorse_pack as pack;
#[cfg(any(feature = "pack", feature = "read"))]
pub use packhorse_storage as storage;
#[cfg(feature = "synth")]
pub use packhorse_synth as synth;
#[cfg(any(feature = "pack", feature = "read"))]
pub use packhorse_transform as transform;

#[cfg(feature = "read")]
pub mod read;
#[cfg(feature = "read")]
pub use read::{open, open_tokens};

use packhorse_core::Registry;
#[cfg(feature = "pack")]
pub use packhorse_pack::{Labels, MetadataRows, OnError, Part, Recipe, Session, Shuffle, Splits, Writer};

/// A session with all formats of this build, local files, all CPUs that the process may use, and silence.
///
/// ```
/// use packhorse::{Labels, Recipe};
///
/// # let dir = tempfile::tempdir()?;
/// # let (photos, shards) = (dir.path().join("photos"), dir.path().join("shards"));
/// # std::fs::create_dir_all(photos.join("cat"))?;
/// # std::fs::write(photos.join("cat/1.jpg"), "meow")?;
/// let recipe = Recipe::new(&photos, "webdataset", &shards).labels(Labels::Folders).shuffle(7);
/// let packed = packhorse::session().pack(&recipe)?;
/// assert_eq!((packed.report.samples, packed.manifest.classes), (1, vec!["cat".into()]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "pack")]
pub fn session() -> Session {
    Session::new(registry())
}

/// The optional features of this build.
pub fn features() -> Vec<&'static str> {
    let all = [
        ("gpu", cfg!(feature = "gpu")),
        ("hdf5", cfg!(feature = "hdf5")),
        ("hdf5-plugins", cfg!(feature = "hdf5-plugins")),
        ("image", cfg!(feature = "image")),
        ("parquet", cfg!(feature = "parquet")),
        ("remote", cfg!(feature = "remote")),
        ("root", cfg!(feature = "root")),
        ("tfrecord", cfg!(feature = "tfrecord")),
        ("tokenize", cfg!(feature = "tokenize")),
        ("tokenizer-oracle", cfg!(feature = "tokenizer-oracle")),
        ("turbojpeg", cfg!(feature = "turbojpeg")),
    ];
    all.into_iter().filter_map(|(name, on)| on.then_some(name)).collect()
}

/// The formats of this build.
///
/// ```
/// assert_eq!(packhorse::registry().named("tar")?.info().id, "webdataset");
/// # Ok::<(), packhorse::core::Error>(())
/// ```
pub fn registry() -> Registry {
    let registry = Registry::new()
        .with(packhorse_files::Files)
        .with(packhorse_csv::Csv::default())
        .with(packhorse_webdataset::WebDataset);
    #[cfg(feature = "hdf5")]
    let registry = registry.with(packhorse_hdf5::Hdf5);
    #[cfg(feature = "tfrecord")]
    let registry = registry.with(packhorse_tfrecord::TfRecord);
    #[cfg(feature = "root")]
    let registry = registry.with(packhorse_root::Root);
    let registry = registry
        .with(packhorse_npz::Npz)
        .with(packhorse_record::Record)
        .with(packhorse_text::JsonLines::default())
        .with(packhorse_text::Text)
        .with(packhorse_tokens::Tokens::default());
    #[cfg(feature = "parquet")]
    let registry = registry.with(packhorse_parquet::Parquet).with(packhorse_parquet::ArrowIpc);
    registry
}
