//! The manifest of a sealed dataset, `dataset.json`.
//!
//! Its last member, `blake3`, is the digest of all bytes before the line that holds it.

use crate::own_digest::{Hashed, own_digest_holds, with_own_digest, write_with_own_digest};
use crate::{Digest, FieldRecord, OmissionRecord, RootDigest, SinkRecord};
use packhorse_core::{Code, Context, Error, Input, Kind, Limits, Result, Store};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, BufReader, Write};
use std::path::Path;

/// The manifest's file name.
pub const MANIFEST: &str = "dataset.json";

/// The file that replaces the manifest in a folder with only some shards of a sealed dataset: a [`Manifest`] of those
/// shards, with [`Manifest::part_of`].
pub const PART: &str = ".packhorse-part.json";

/// The name of the file that says of which dataset a folder holds copies.
pub const CACHE_MARK: &str = ".packhorse-cache";

/// The complete dataset of a partial copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartOf {
    /// Its root digest.
    pub root: Digest,
    /// Number of shards.
    pub shards: u64,
    /// Number of samples.
    pub samples: u64,
    /// For a staged view: the position of each shard of the copy among those of the dataset.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub positions: Vec<u64>,
}

/// Shards that were added to a sealed dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppendRecord {
    /// The root digest of all shards before them.
    pub after: Digest,
    /// The number of shards before them.
    pub first: u64,
    /// The logical digest of their plan.
    pub plan: Digest,
}

/// A file of the dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// Path relative to the dataset's folder.
    pub name: String,
    /// Length in bytes.
    pub bytes: u64,
    /// Digest of its bytes.
    pub blake3: Digest,
}

/// A shard of the dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardRecord {
    /// Its name, without an extension.
    pub name: String,
    /// Its split.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// Name of its data file.
    pub file: String,
    /// Number of samples.
    pub samples: u64,
    /// Other counts by unit (`tokens`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, u64>,
    /// Length of its data file in bytes.
    pub bytes: u64,
    /// Digest of its data file.
    pub blake3: Digest,
    /// Digest of its receipt.
    pub receipt: Digest,
}

/// A split of the dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitRecord {
    /// Its name.
    pub name: String,
    /// Number of shards.
    pub shards: u64,
    /// Number of samples.
    pub samples: u64,
}

/// The manifest of a sealed dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of this layout.
    pub packhorse_dataset: u32,
    /// The dataset's name.
    pub name: String,
    /// The sink that wrote the shards.
    pub format: SinkRecord,
    /// The transforms in order, each with revision and settings; for tokens also the engine, its release and Unicode
    /// version, and the tokenizer's digest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transforms: Vec<String>,
    /// The root digest of all shards.
    pub root: Digest,
    /// Total samples.
    pub samples: u64,
    /// Other totals by unit (`tokens`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, u64>,
    /// Total bytes of the data files.
    pub bytes: u64,
    /// Number of skipped samples and inputs.
    pub skipped: u64,
    /// The columns of a sample.
    pub schema: Vec<FieldRecord>,
    /// Fields of the inputs that can't be read, and are missing in the samples.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub omitted: Vec<OmissionRecord>,
    /// Class names; a label is an index into them.
    pub classes: Vec<String>,
    /// The splits.
    pub splits: Vec<SplitRecord>,
    /// The logical digest of the plan; of the first one, if shards were added later.
    pub plan: Digest,
    /// Shards added later, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub appended: Vec<AppendRecord>,
    /// Other files of the dataset: the stored plan, the list of skipped inputs, companions.
    pub files: Vec<FileRecord>,
    /// For a partial copy: the complete dataset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_of: Option<PartOf>,
    /// The shards, in plan order.
    pub shards: Vec<ShardRecord>,
}

impl Manifest {
    /// The layout version that this build writes and reads.
    pub const VERSION: u32 = 1;

    /// Refuses shards whose samples can't be told apart: tokens in the layouts of other programs, which have no index of documents.
    ///
    /// Errors: `Unsupported`.
    pub fn refuse_write_only(&self) -> Result<()> {
        let layout = self.format.options.get("layout").map(String::as_str);
        match (&*self.format.format, layout) {
            ("tokens", Some(layout @ ("llmc" | "bare"))) => {
                let message =
                    format!("its shards are tokens in the layout {layout}, which does not say where documents begin");
                Err(Error::unsupported(message).hint("pack the texts again, into the layout megatron"))
            }
            _ => Ok(()),
        }
    }

    /// Reads the manifest in the folder `dir`. `None` if there is none: the dataset is not sealed, or `dir` is not a
    /// folder. Errors name the file.
    ///
    /// Tries twice on damage, which may have happened on the way from a server.
    pub fn read(store: &dyn Store, dir: &Path) -> Result<Option<Self>> {
        Self::read_named(store, &dir.join(MANIFEST), &Self::decode_from)
    }

    /// Like [`read`](Self::read), also for a partial copy ([`PART`]).
    pub fn read_part(store: &dyn Store, dir: &Path) -> Result<Option<Self>> {
        if let Some(whole) = Self::read(store, dir)? {
            return Ok(Some(whole));
        }
        Self::read_named(store, &dir.join(PART), &Self::decode_from)
    }

    /// The manifest of a partial copy with the `wanted` shards.
    pub fn part(&self, wanted: impl Fn(&ShardRecord) -> bool) -> Self {
        let shards: Vec<ShardRecord> = self.shards.iter().filter(|shard| wanted(shard)).cloned().collect();
        let of_split = |split: &SplitRecord| {
            let mine = || shards.iter().filter(|shard| shard.split.as_ref() == Some(&split.name));
            SplitRecord {
                name: split.name.clone(),
                shards: mine().count() as u64,
                samples: mine().map(|shard| shard.samples).sum(),
            }
        };
        let mut counts = BTreeMap::new();
        for (name, count) in shards.iter().flat_map(|shard| &shard.counts) {
            *counts.entry(name.clone()).or_default() += count;
        }
        let (root, samples) = (self.root, self.samples);
        let whole = PartOf { root, shards: self.shards.len() as u64, samples, positions: Vec::new() };
        let mut part = Self {
            samples: shards.iter().map(|shard| shard.samples).sum(),
            counts,
            bytes: shards.iter().map(|shard| shard.bytes).sum(),
            splits: self.splits.iter().map(of_split).collect(),
            files: Vec::new(),
            part_of: Some(self.part_of.clone().unwrap_or(whole)),
            shards,
            ..self.clone()
        };
        part.root = part.root_of_shards();
        part
    }

    /// Like [`Manifest::read`]; also returns the document's bytes.
    pub fn read_bytes(store: &dyn Store, dir: &Path) -> Result<Option<(Self, Vec<u8>)>> {
        Self::read_named(store, &dir.join(MANIFEST), &|input| {
            let bytes = input.read_all(Limits::default().blob)?;
            Ok((Self::decode(&bytes)?, bytes))
        })
    }

    fn read_named<T>(store: &dyn Store, path: &Path, read: &dyn Fn(&dyn Input) -> Result<T>) -> Result<Option<T>> {
        let input = match store.open(path) {
            Ok(input) => input,
            Err(e) if e.is_absent() => return Ok(None),
            Err(e) => return Err(e),
        };
        let read = || read(&*input).map_err(|e| e.in_input(path.display()));
        match read() {
            Err(e) if e.kind() == Kind::Incomplete => read().map(Some),
            other => other.map(Some),
        }
    }

    /// Parses a document piece by piece: of a million shards it would be 300 MB as text in memory.
    fn decode_from(input: &dyn Input) -> Result<Self> {
        let replacing = Self::REPLACING.len() as u64;
        if input.len().is_none_or(|len| len <= replacing || len > Limits::default().blob) {
            return Self::decode(&input.read_all(Limits::default().blob)?);
        }
        let mut text = Hashed::new(input.stream()?);
        let parsed = serde_json::from_reader(BufReader::with_capacity(PIECE, &mut text));
        let manifest = parsed.or_else(|e| match e.is_io() {
            true => Err(io::Error::from(e)).context("read"),
            false => Err(no_manifest(&e)),
        })?;
        Self::checked(manifest, text.holds())
    }

    /// The document's bytes.
    pub fn encode(&self) -> Result<Vec<u8>> {
        with_own_digest(self, "the manifest")
    }

    /// Writes the document's bytes to `out` and flushes it; holds none of them in memory.
    pub fn write(&self, out: &mut dyn Write) -> Result<()> {
        write_with_own_digest(self, "the manifest", out)
    }

    /// The content of the manifest file while another dataset's files replace its own.
    pub const REPLACING: &'static str = "{\"packhorse_replacing\":1}\n";

    /// Parses a document and checks its own digest and the root digest. `Incomplete` for
    /// [`REPLACING`](Self::REPLACING).
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        if bytes == Self::REPLACING.as_bytes() {
            let error = Error::new(Kind::Incomplete, "is being replaced by another dataset").with_code(Code::NotSealed);
            return Err(error.hint("`packhorse seal` finishes that if it was stopped"));
        }
        Self::checked(serde_json::from_slice(bytes).map_err(|e| no_manifest(&e))?, own_digest_holds(bytes))
    }

    /// Checks version, digests and the root digest of a parsed document. `holds`: whether its own digest is right.
    fn checked(manifest: Self, holds: bool) -> Result<Self> {
        if manifest.packhorse_dataset != Self::VERSION {
            let found = manifest.packhorse_dataset;
            return Err(Error::unsupported(format!(
                "is a manifest of version {found}; this build reads version {}",
                Self::VERSION
            )));
        }
        if !holds {
            return Err(damaged("the manifest's own digest does not hold"));
        }
        if manifest.root_of_shards() != manifest.root {
            return Err(damaged("the root digest is not that of the shards listed"));
        }
        Ok(manifest)
    }

    /// Computes the root digest from the listed shards.
    pub fn root_of_shards(&self) -> Digest {
        self.root_of_first(self.shards.len())
    }

    /// The root digest of the first `shards` shards: that of the dataset before others were added.
    pub fn root_of_first(&self, shards: usize) -> Digest {
        let mut root = RootDigest::default();
        for shard in self.shards.iter().take(shards) {
            root.add(&shard.name, shard.samples, shard.bytes, &shard.blake3);
        }
        root.finish()
    }

    /// The digests of all plans, in order.
    pub fn plans(&self) -> impl Iterator<Item = Digest> {
        std::iter::once(self.plan).chain(self.appended.iter().map(|added| added.plan))
    }
}

/// Bytes of a document that are parsed at once.
const PIECE: usize = 64 << 10;

fn no_manifest(error: &serde_json::Error) -> Error {
    damaged(&format!("is not a manifest: {error}"))
}

fn damaged(what: &str) -> Error {
    Error::content(format!("{what}; make it again with `packhorse seal`")).with_kind(Kind::Incomplete)
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::MemoryInput;
    use packhorse_storage::Local;

    fn manifest() -> Manifest {
        let shard = |i: u64| ShardRecord {
            name: format!("shard-{i:06}"),
            split: None,
            file: format!("shard-{i:06}.tar"),
            samples: i + 1,
            counts: BTreeMap::new(),
            bytes: 10240,
            blake3: Digest::of(&i.to_le_bytes()),
            receipt: Digest::of(b"receipt"),
        };
        let sink = SinkRecord { format: "webdataset".into(), revision: 1, options: Default::default() };
        let mut manifest = Manifest {
            packhorse_dataset: Manifest::VERSION,
            name: "demo".into(),
            format: sink,
            transforms: Vec::new(),
            root: Digest::of(b""),
            samples: 3,
            counts: BTreeMap::new(),
            bytes: 20480,
            skipped: 0,
            schema: Vec::new(),
            omitted: Vec::new(),
            classes: vec!["cat".into()],
            splits: Vec::new(),
            plan: Digest::of(b"plan"),
            appended: Vec::new(),
            files: Vec::new(),
            part_of: None,
            shards: vec![shard(0), shard(1)],
        };
        manifest.root = manifest.root_of_shards();
        manifest
    }

    #[test]
    fn round_trip() {
        let manifest = manifest();
        assert_eq!(Manifest::decode(&manifest.encode().unwrap()).unwrap(), manifest);
    }

    #[test]
    fn a_folder_has_one_or_none_or_a_damaged_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(MANIFEST);
        let read = |dir: &Path| Manifest::read(&Local, dir);
        assert_eq!(read(dir.path()).unwrap(), None);
        assert_eq!(read(&dir.path().join("nowhere")).unwrap(), None);
        let mut bytes = manifest().encode().unwrap();
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(read(dir.path()).unwrap(), Some(manifest()));
        assert_eq!(read(&path).unwrap(), None);
        bytes.pop();
        std::fs::write(&path, &bytes).unwrap();
        let error = read(dir.path()).unwrap_err();
        assert_eq!((error.kind(), error.input()), (Kind::Incomplete, path.to_str()));
    }

    #[test]
    fn a_part_lists_its_shards_and_what_it_is_a_part_of() {
        let whole = manifest();
        let part = whole.part(|shard| shard.name == "shard-000001");
        assert_eq!(Manifest::decode(&part.encode().unwrap()).unwrap(), part);
        assert_eq!((part.samples, part.bytes, part.shards.len()), (2, 10240, 1));
        let of = PartOf { root: whole.root, shards: 2, samples: 3, positions: Vec::new() };
        assert_eq!(part.part_of, Some(of.clone()));
        assert_eq!(part.part(|_| true).part_of, Some(of));
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(PART), part.encode().unwrap()).unwrap();
        assert_eq!(Manifest::read(&Local, dir.path()).unwrap(), None);
        assert_eq!(Manifest::read_part(&Local, dir.path()).unwrap(), Some(part));
    }

    #[test]
    fn counts_are_written_only_where_there_are_some() {
        let mut manifest = manifest();
        let plain = manifest.encode().unwrap();
        assert!(!String::from_utf8(plain).unwrap().contains("counts"));
        manifest.counts.insert("tokens".into(), 7);
        assert_eq!(Manifest::decode(&manifest.encode().unwrap()).unwrap(), manifest);
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let good = manifest().encode().unwrap();
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                assert!(Manifest::decode(&bad).is_err(), "byte {at} bit {bit}");
                let read = Manifest::decode_from(&MemoryInput::new("dataset.json", bad));
                assert!(read.is_err(), "byte {at} bit {bit}, piece by piece");
            }
        }
    }
}
