//! A view, `view.json`: some samples, and perhaps some fields, of a sealed dataset, which keeps its shards.
//!
//! The last member of the document, `blake3`, is the digest of all bytes before the line that holds it.

use crate::own_digest::{own_digest_holds, with_own_digest};
use crate::{
    Digest, FieldRecord, FileRecord, MANIFEST, Manifest, PartOf, SKIPPED, SampleRun, decode_selection, encode_selection,
};
use packhorse_core::{Code, Error, FileKind, Kind, Result, Store};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// The view's file name.
pub const VIEW: &str = "view.json";

/// The file beside it that lists the samples ([`decode_selection`]).
pub const SELECTION: &str = "selection.bin";

/// The file beside it with columns that the view adds.
pub const JOINED: &str = "joined.parquet";

/// The format of that file.
pub const JOINED_FORMAT: &str = "parquet";

/// The folder with the shards of a staged view, in that of the view.
pub const STAGED_BASE: &str = "base";

/// The most bytes of `view.json`.
const LONGEST: u64 = 16 << 20;

/// Columns that a view adds to the samples of its base.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinedRecord {
    /// The file with the columns: one row for each sample of the view, in the order of shards and samples
    /// ([`SampleRows`](crate::SampleRows)).
    pub file: FileRecord,
    /// Its format.
    pub format: String,
    /// Number of rows.
    pub rows: u64,
    /// The columns.
    pub columns: Vec<FieldRecord>,
}

/// A view of a sealed dataset, its base. The base may grow: shards after the first [`base_shards`](Self::base_shards) do
/// not matter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatasetView {
    /// Version of this layout.
    pub packhorse_view: u32,
    /// The base's folder: relative to the view's folder, absolute, or a URL.
    pub base: String,
    /// Number of shards of the base when the view was made.
    pub base_shards: u64,
    /// The root digest of these shards.
    pub base_root: Digest,
    /// Number of samples of the view; one that it has twice counts twice.
    pub samples: u64,
    /// The fields of the view; all of the base's if there is no list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields: Option<Vec<String>>,
    /// The file with the samples.
    pub selection: FileRecord,
    /// The columns that the view adds, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined: Option<JoinedRecord>,
    /// The view's root digest: of the base's root, the selection, the fields and the file of added columns.
    pub root: Digest,
}

impl DatasetView {
    /// The layout version that this build writes and reads.
    pub const VERSION: u32 = 1;

    /// The view of these samples and fields of the dataset in the folder `base`, whose first `base_shards` shards have
    /// the root digest `base_root`, with the added columns `joined`; and the bytes of its selection.
    pub fn new(
        base: String,
        (base_shards, base_root): (u64, Digest),
        fields: Option<Vec<String>>,
        runs: &[SampleRun],
        joined: Option<JoinedRecord>,
    ) -> (Self, Vec<u8>) {
        let bytes = encode_selection(runs);
        let selection =
            FileRecord { name: SELECTION.to_owned(), bytes: bytes.len() as u64, blake3: Digest::of(&bytes) };
        let samples = runs.iter().fold(0u64, |sum, run| sum.saturating_add(run.len));
        let packhorse_view = Self::VERSION;
        let root = base_root;
        let mut view = Self { packhorse_view, base, base_shards, base_root, samples, fields, selection, joined, root };
        view.root = view.computed_root();
        (view, bytes)
    }

    /// Reads the view in the folder `dir`. `None` if there is none: no `view.json`, or one of another program. Errors name
    /// the file.
    pub fn read(store: &dyn Store, dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(VIEW);
        let input = match store.open(&path) {
            Ok(input) => input,
            Err(e) if e.is_absent() => return Ok(None),
            // Buckets say so of missing names too if the caller may not list.
            Err(e) if e.is_denied() && is_something_else(store, dir) => return Ok(None),
            Err(e) => return Err(e),
        };
        let bytes = match input.read_all(LONGEST) {
            Err(e) if e.kind() == Kind::Limit => return Ok(None),
            read => read?,
        };
        match Self::decode(&bytes) {
            Err(e) if e.kind() == Kind::Content && !is_ours(store, dir, &bytes) => Ok(None),
            decoded => decoded.map(Some).map_err(|e| e.in_input(path.display())),
        }
    }

    /// The document's bytes.
    pub fn encode(&self) -> Result<Vec<u8>> {
        with_own_digest(self, "a view")
    }

    /// Parses a document and checks its own digest and its root digest.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let damaged = |what: String| Error::content(what).hint("make it again with `packhorse view`");
        let view: Self = serde_json::from_slice(bytes).map_err(|e| damaged(format!("is not a view: {e}")))?;
        if view.packhorse_view != Self::VERSION {
            let found = view.packhorse_view;
            let reads = Self::VERSION;
            return Err(Error::unsupported(format!("is a view of version {found}; this build reads version {reads}")));
        }
        if !own_digest_holds(bytes) {
            return Err(damaged("the view's own digest does not hold".to_owned()));
        }
        if view.computed_root() != view.root || view.selection.name != SELECTION {
            return Err(damaged("the view's root digest is not that of its base, samples and fields".to_owned()));
        }
        if view.joined.as_ref().is_some_and(|joined| joined.file.name != JOINED) {
            return Err(damaged("its file of added columns has another name".to_owned()));
        }
        Ok(view)
    }

    /// Computes the root digest.
    fn computed_root(&self) -> Digest {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.base_root.as_bytes()).update(self.selection.blake3.as_bytes());
        let count = self.fields.as_ref().map_or(u64::MAX, |fields| fields.len() as u64);
        hasher.update(&count.to_le_bytes());
        for field in self.fields.iter().flatten() {
            hasher.update(&(field.len() as u64).to_le_bytes()).update(field.as_bytes());
        }
        if let Some(joined) = &self.joined {
            hasher.update(joined.file.blake3.as_bytes());
        }
        hasher.finalize().into()
    }

    /// Reads the runs of the view in the folder `dir`.
    ///
    /// Errors (kind `Content`): a missing or damaged selection, whose file they name.
    pub fn runs(&self, store: &dyn Store, dir: &Path) -> Result<Vec<SampleRun>> {
        let path = dir.join(SELECTION);
        let named = |e: Error| e.hint("make the view again with `packhorse view`").in_input(path.display());
        let input = match store.open(&path) {
            Err(e) if e.is_absent() => return Err(named(Error::content("is missing"))),
            opened => opened?,
        };
        let bytes = input.read_all(self.selection.bytes)?;
        if bytes.len() as u64 != self.selection.bytes || Digest::of(&bytes) != self.selection.blake3 {
            return Err(named(Error::content("its bytes do not have the digest that view.json records")));
        }
        let runs = decode_selection(&bytes).map_err(named)?;
        let samples = runs.iter().try_fold(0u64, |sum, run| sum.checked_add(run.len));
        match samples == Some(self.samples) {
            true => Ok(runs),
            false => Err(named(Error::content("does not list as many samples as view.json says"))),
        }
    }

    /// The names of the files beside the view's document, in its folder.
    pub fn files(&self) -> impl Iterator<Item = &FileRecord> {
        std::iter::once(&self.selection).chain(self.joined.iter().map(|joined| &joined.file))
    }

    /// Checks that `manifest` is that of the base, which may have grown, or of the copy of a staged view
    /// ([`part`](Self::part)), and has the samples of `runs`. Returns the runs with shards as positions in `manifest`.
    ///
    /// Errors: `Changed` for another dataset, which the message names; `Content` for samples that it does not have.
    pub fn place(&self, manifest: &Manifest, runs: Vec<SampleRun>) -> Result<Vec<SampleRun>> {
        let placed = match &manifest.part_of {
            Some(of) if (of.root, of.shards) == (self.base_root, self.base_shards) => in_part(&of.positions, runs),
            None if self.is_base(manifest) => Some(runs),
            _ => {
                let message = format!(
                    "is a view of the dataset {} in {}, which now holds another one ({})",
                    self.base_root, self.base, manifest.root
                );
                return Err(base_changed(message));
            }
        };
        let shards = usize::try_from(self.base_shards).ok().and_then(|shards| manifest.shards.get(..shards));
        let shards = shards.unwrap_or(&manifest.shards);
        let has = |run: &SampleRun| {
            let shard = shards.get(run.shard as usize);
            shard.is_some_and(|shard| run.first.checked_add(run.len).is_some_and(|end| end <= shard.samples))
        };
        placed.filter(|runs| runs.iter().all(has)).ok_or_else(|| {
            Error::content("lists samples that its base does not have")
                .hint("make the view again with `packhorse view`")
        })
    }

    fn is_base(&self, manifest: &Manifest) -> bool {
        let shards = usize::try_from(self.base_shards).ok().filter(|shards| *shards <= manifest.shards.len());
        shards.is_some_and(|shards| manifest.root_of_first(shards) == self.base_root)
    }

    /// The part of the base that has the samples of `runs`, which are [placed](Self::place) in `manifest`: what a copy of
    /// the view needs.
    pub fn part(&self, manifest: &Manifest, runs: &[SampleRun]) -> Manifest {
        let used: BTreeSet<usize> = runs.iter().map(|run| run.shard as usize).collect();
        let names: BTreeSet<&str> =
            used.iter().filter_map(|at| manifest.shards.get(*at)).map(|shard| shard.name.as_str()).collect();
        let mut part = manifest.part(|shard| names.contains(shard.name.as_str()));
        let whole = manifest.part_of.as_ref();
        let position = |at: &usize| whole.map_or(Some(*at as u64), |of| of.positions.get(*at).copied());
        let base = manifest.shards.iter().take(usize::try_from(self.base_shards).unwrap_or(usize::MAX));
        part.part_of = Some(PartOf {
            root: self.base_root,
            shards: self.base_shards,
            samples: whole.map_or_else(|| base.map(|shard| shard.samples).sum(), |of| of.samples),
            positions: used.iter().filter_map(position).collect(),
        });
        part.files = manifest.files.iter().filter(|file| file.name == SKIPPED).cloned().collect();
        part
    }

    /// The same view with its base in the folder `base`.
    pub fn moved(self, base: &str) -> Self {
        Self { base: base.to_owned(), ..self }
    }

    /// The error of a view without its base.
    pub fn base_missing(&self) -> Error {
        base_changed(format!("is a view of the dataset in {}, where no sealed dataset is", self.base))
    }

    /// The error of a request that needs a dataset with shards of its own.
    pub fn refusal(&self) -> Error {
        Error::config(format!("is a view of {} and has no shards of its own", self.base))
            .with_code(Code::IsView)
            .hint("give the command that dataset")
    }

    /// Where the base is, for a view in the folder `dir`. With `by_name`, `..` is resolved by the names alone, as stores
    /// without folders need it.
    pub fn base_folder(&self, dir: &Path, by_name: bool) -> PathBuf {
        let base = Path::new(&self.base);
        if base.is_absolute() || self.base.contains("://") || !by_name {
            // A URL replaces the folder, as an absolute path does.
            return if self.base.contains("://") { base.to_owned() } else { dir.join(base) };
        }
        let mut folder = dir.to_owned();
        for part in base.components() {
            match part {
                Component::ParentDir => drop(folder.pop()),
                Component::Normal(name) => folder.push(name),
                _ => {}
            }
        }
        folder
    }
}

/// The runs with shards as positions in a part that has the shards at `positions`, which ascend; `None` if it lacks one.
fn in_part(positions: &[u64], runs: Vec<SampleRun>) -> Option<Vec<SampleRun>> {
    let place = |run: SampleRun| {
        let at = positions.binary_search(&u64::from(run.shard)).ok()?;
        Some(SampleRun { shard: u32::try_from(at).ok()?, ..run })
    };
    runs.into_iter().map(place).collect()
}

fn base_changed(message: String) -> Error {
    Error::new(Kind::Changed, message)
        .with_code(Code::BaseChanged)
        .hint("put the dataset back, or make the view again with `packhorse view`")
}

/// Whether the `view.json` in `dir`, which is not a valid view, is a damaged one of ours.
fn is_ours(store: &dyn Store, dir: &Path, bytes: &[u8]) -> bool {
    const OURS: &[u8] = b"packhorse_view";
    bytes.windows(OURS.len()).any(|window| window == OURS) || store.stat(&dir.join(SELECTION), true).is_ok()
}

/// Whether `dir` is a dataset, or a file.
fn is_something_else(store: &dyn Store, dir: &Path) -> bool {
    let is_file = |path: &Path| store.stat(path, true).is_ok_and(|stat| stat.kind == FileKind::File);
    is_file(&dir.join(MANIFEST)) || is_file(dir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ShardRecord, SinkRecord};
    use packhorse_storage::Local;
    use std::collections::BTreeMap;

    fn manifest(samples: &[u64]) -> Manifest {
        let shard = |(i, samples): (usize, &u64)| ShardRecord {
            name: format!("shard-{i:06}"),
            split: None,
            file: format!("shard-{i:06}.tar"),
            samples: *samples,
            counts: BTreeMap::new(),
            bytes: 10240,
            blake3: Digest::of(&i.to_le_bytes()),
            receipt: Digest::of(b"receipt"),
        };
        let text = r#"{"packhorse_dataset":1,"name":"x","format":null,"root":null,"samples":0,"bytes":0,"skipped":0,"schema":[],"classes":[],"splits":[],"plan":null,"files":[],"shards":[]}"#;
        let sink = SinkRecord { format: "webdataset".into(), revision: 1, options: BTreeMap::new() };
        let mut value: serde_json::Value = serde_json::from_str(text).unwrap();
        value["format"] = serde_json::to_value(sink).unwrap();
        value["root"] = serde_json::to_value(Digest::of(b"")).unwrap();
        value["plan"] = value["root"].clone();
        let mut manifest: Manifest = serde_json::from_value(value).unwrap();
        manifest.shards = samples.iter().enumerate().map(shard).collect();
        manifest.root = manifest.root_of_shards();
        manifest
    }

    fn runs() -> Vec<SampleRun> {
        vec![SampleRun { shard: 1, first: 2, len: 3 }, SampleRun { shard: 0, first: 0, len: 1 }]
    }

    fn view(of: &Manifest, fields: Option<&[&str]>) -> (DatasetView, Vec<u8>) {
        let fields = fields.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        DatasetView::new("../out".into(), (of.shards.len() as u64, of.root), fields, &runs(), None)
    }

    #[test]
    fn round_trip() {
        for fields in [None, Some(&["cls", "jpg"][..]), Some(&[])] {
            let (view, _) = view(&manifest(&[4, 5]), fields);
            assert_eq!((view.samples, view.selection.bytes), (4, 56));
            assert_eq!(DatasetView::decode(&view.encode().unwrap()).unwrap(), view);
        }
        let roots =
            [None, Some(&["cls", "jpg"][..]), Some(&["clsj", "pg"])].map(|f| view(&manifest(&[4, 5]), f).0.root);
        assert!(roots[0] != roots[1] && roots[1] != roots[2] && roots[0] != roots[2]);
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let (view, selection) = view(&manifest(&[4, 5]), Some(&["cls"]));
        let good = view.encode().unwrap();
        let write = |name: &str, bytes: &[u8]| std::fs::write(dir.path().join(name), bytes).unwrap();
        write(SELECTION, &selection);
        let flipped = |good: &[u8], at: usize| {
            let mut bad = good.to_vec();
            bad[at / 8] ^= 1 << (at % 8);
            bad
        };
        for at in 0..good.len() * 8 {
            write(VIEW, &flipped(&good, at));
            let error = DatasetView::read(&Local, dir.path()).unwrap_err();
            assert_eq!(error.input(), dir.path().join(VIEW).to_str(), "bit {at}");
        }
        write(VIEW, &good);
        assert_eq!(DatasetView::read(&Local, dir.path()).unwrap().as_ref(), Some(&view));
        assert_eq!(view.runs(&Local, dir.path()).unwrap(), runs());
        for at in 0..selection.len() * 8 {
            write(SELECTION, &flipped(&selection, at));
            let error = view.runs(&Local, dir.path()).unwrap_err();
            assert_eq!((error.kind(), error.input()), (Kind::Content, dir.path().join(SELECTION).to_str()), "bit {at}");
        }
        write(SELECTION, &selection[1..]);
        assert!(view.runs(&Local, dir.path()).is_err());
        std::fs::remove_file(dir.path().join(SELECTION)).unwrap();
        assert_eq!(view.runs(&Local, dir.path()).unwrap_err().kind(), Kind::Content);
    }

    #[test]
    fn a_folder_may_hold_a_view_of_another_program() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(DatasetView::read(&Local, dir.path()).unwrap(), None);
        std::fs::write(dir.path().join(VIEW), "{\"zoom\": 3}").unwrap();
        assert_eq!(DatasetView::read(&Local, dir.path()).unwrap(), None);
        std::fs::write(dir.path().join(VIEW), "{\"packhorse_view\": 1}").unwrap();
        assert_eq!(DatasetView::read(&Local, dir.path()).unwrap_err().kind(), Kind::Content);
    }

    #[test]
    fn a_base_may_grow_and_not_change() {
        let (view, _) = view(&manifest(&[4, 5]), None);
        assert_eq!(view.place(&manifest(&[4, 5]), runs()).unwrap(), runs());
        assert_eq!(view.place(&manifest(&[4, 5, 6, 7]), runs()).unwrap(), runs());
        for other in [&[4][..], &[5, 4], &[4, 6], &[6, 4, 5], &[]] {
            let error = view.place(&manifest(other), runs()).unwrap_err();
            assert_eq!((error.kind(), error.code()), (Kind::Changed, Code::BaseChanged), "{other:?}");
        }
        let beyond = |run| view.place(&manifest(&[4, 5, 6]), vec![run]).unwrap_err().kind();
        assert_eq!(beyond(SampleRun { shard: 0, first: 3, len: 2 }), Kind::Content);
        assert_eq!(beyond(SampleRun { shard: 2, first: 0, len: 1 }), Kind::Content);
        assert_eq!(beyond(SampleRun { shard: 1, first: u64::MAX, len: 2 }), Kind::Content);
    }

    #[test]
    fn a_part_has_the_shards_of_the_view() {
        let runs = vec![SampleRun { shard: 3, first: 1, len: 2 }, SampleRun { shard: 1, first: 0, len: 5 }];
        let base = manifest(&[4, 5, 6, 7]);
        let (view, _) = DatasetView::new("../out".into(), (4, base.root), None, &runs, None);
        // The base grew before the view was staged.
        let grown = manifest(&[4, 5, 6, 7, 8]);
        let part = view.part(&grown, &view.place(&grown, runs.clone()).unwrap());
        let of = PartOf { root: base.root, shards: 4, samples: 22, positions: vec![1, 3] };
        assert_eq!((part.part_of.as_ref(), part.samples, part.shards.len()), (Some(&of), 12, 2));
        let placed = view.place(&part, runs.clone()).unwrap();
        assert_eq!(placed.iter().map(|run| run.shard).collect::<Vec<_>>(), [1, 0]);
        assert_eq!(view.part(&part, &placed), part);
        let beyond = vec![SampleRun { shard: 2, first: 0, len: 1 }];
        assert_eq!(view.place(&part, beyond).unwrap_err().kind(), Kind::Content);
        let other = manifest(&[4, 5, 6]);
        let (view, _) = DatasetView::new("../out".into(), (3, other.root), None, &runs, None);
        assert_eq!(view.place(&part, runs).unwrap_err().code(), Code::BaseChanged);
    }

    #[test]
    fn bases_are_relative_absolute_or_urls() {
        let (mut view, _) = view(&manifest(&[4, 5]), None);
        let at =
            |view: &DatasetView, dir: &str, by_name| view.base_folder(Path::new(dir), by_name).display().to_string();
        assert_eq!(at(&view, "/data/v", false), "/data/v/../out");
        assert_eq!(at(&view, "s3://b/views/v", true), "s3://b/views/out");
        view.base = "/data/out".into();
        assert_eq!((at(&view, "v", false), at(&view, "v", true)), ("/data/out".into(), "/data/out".into()));
        view.base = "s3://b/out".into();
        assert_eq!((at(&view, "v", false), at(&view, "v", true)), ("s3://b/out".into(), "s3://b/out".into()));
    }
}
