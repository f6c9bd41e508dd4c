//! A session: everything that does not decide bytes (formats, file system, limits, observer, cancellation, threads).
//! The verbs are its methods. It knows no terminal and no scheduler.

mod append;
mod output;
mod scan;
mod third_party;

use crate::append::Base;
use crate::kept_tables::KeptTables;
use crate::keyed_source;
use crate::moved_inputs::MovedInput;
use crate::pack::{PackReport, Packed, pack, pack_again, plan_to_fill, replaced, tell_left_out};
use crate::pack_context::{PackContext, PackOptions};
use crate::part_errors;
use crate::plan::{Plan, limits, plan, plan_spilled};
use crate::plans::{open_plan, plan_file};
use crate::repair::{DatasetRepair, repair_dataset};
use crate::replace::{clean, finish_replacing, plan_folder, publish};
use crate::sample_order::MANY;
use crate::scan::{Found, Listing, Scan, columns_of, scan, tables};
use crate::seal::Sealing;
use crate::shard_packer::Redo;
use crate::stored_plan::{Stored, StoredPlan, exists};
use crate::trial::fit;
use crate::verify::{Depth, Verification, VerifyContext, verify};
use crate::writer::{Writer, WriterContext};
use crate::{OnError, Origin, Part, Recipe, SampleAt, Stat, Status, Watch};
use packhorse_core::{Cancel, Error, InputTable, Kind, Limits, Observer, Registry, Result, SchemaRef, Store};
use packhorse_dataset::{DatasetView, Manifest, PLAN, PlanReader};
use packhorse_storage::{Location, Quarantine, Quarantined, Stores};
use packhorse_transform::{RebuildContext, Transform, from_description_with};
use std::any::Any;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The environment of packing: what it needs beside a [`Recipe`]. Its methods are the verbs. No setting of a session
/// changes a byte of a sample. [`Session::memory`] and [`Session::limits`] may refuse one; under `on-error=skip` it is
/// left out, so the plan then records the memory, and every part skips the same samples.
///
/// `packhorse::session()` has all formats of a build. A plan can be filled by several processes, each with its part:
///
/// ```no_run
/// use packhorse_core::{Cancel, Registry, Result};
/// use packhorse_pack::{Part, Recipe, Session};
///
/// fn fill_and_seal(registry: Registry, cancel: Cancel) -> Result<()> {
///     let recipe = Recipe::new("photos", "webdataset", "shards").shuffle(7);
///     let session = Session::new(registry).jobs(8).memory(4 << 30).cancel(cancel);
///     session.store_plan(&recipe, &session.plan(&recipe)?)?;
///     for part in 1..=2 {
///         session.fill("shards", Part::new(part, 2)?)?;
///     }
///     println!("root {}", session.seal("shards")?.root);
///     Ok(())
/// }
/// ```
#[derive(Clone)]
#[must_use]
pub struct Session {
    registry: Arc<Registry>,
    store: Arc<dyn Store>,
    observer: Arc<dyn Observer>,
    cancel: Cancel,
    limits: Option<Limits>,
    memory: Option<u64>,
    jobs: usize,
    io_threads: usize,
    verifies: bool,
    on_error: OnError,
    check_exact: f64,
    replaces: bool,
    from_listings: bool,
    moved: Vec<MovedInput>,
    /// The most inputs of a plan that is made in memory.
    many: usize,
    /// Whether more inputs go to disk.
    spills: bool,
}

/// The most bytes of metadata in files whose tables a scan keeps open. Parsed they take several times as much.
const METADATA: u64 = 8 << 20;

/// Transforms, in order.
type Transforms = Vec<Box<dyn Transform>>;

impl Session {
    /// A session with these formats, all places of the build (local files; with the feature `remote` also buckets and,
    /// for reading, `http(s)://`), all available CPUs and no observer.
    pub fn new(registry: impl Into<Arc<Registry>>) -> Self {
        let PackOptions { jobs, io_threads, on_error, verify, .. } = PackOptions::default();
        Self {
            registry: registry.into(),
            store: Arc::new(Stores::default()),
            observer: Arc::new(()),
            cancel: Cancel::default(),
            limits: None,
            memory: None,
            jobs,
            io_threads,
            verifies: verify,
            on_error,
            check_exact: 0.0,
            replaces: false,
            from_listings: false,
            moved: Vec::new(),
            many: MANY,
            spills: true,
        }
    }

    /// Reads and writes through this store. Its paths are those of recipes and verbs: see
    /// [`Stores`](packhorse_storage::Stores).
    pub fn store(self, store: Arc<dyn Store>) -> Self {
        Self { store, ..self }
    }

    /// Sends progress events to this observer.
    pub fn observe(self, observer: impl Observer + 'static) -> Self {
        Self { observer: Arc::new(observer), ..self }
    }

    /// Verbs stop with a `Cancelled` error soon after this is cancelled. Calling again resumes.
    pub fn cancel(self, cancel: Cancel) -> Self {
        Self { cancel, ..self }
    }

    /// The number of threads that compute.
    pub fn jobs(self, jobs: usize) -> Self {
        Self { jobs: jobs.max(1), ..self }
    }

    /// The number of threads that wait for the file system (default 32).
    pub fn io_threads(self, threads: usize) -> Self {
        Self { io_threads: threads.max(1), ..self }
    }

    /// The memory in bytes: the most input held at once, and four times the largest value that must be held whole
    /// (default 192 MiB, and values of up to 2 GiB).
    pub fn memory(self, bytes: u64) -> Self {
        Self { memory: Some(bytes), ..self }
    }

    /// Bounds on single values, instead of those derived from [`Session::memory`].
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits: Some(limits), ..self }
    }

    /// Whether shards of sealed datasets among the inputs are compared with their digests before they are read (default
    /// true).
    pub fn verifying(self, verifies: bool) -> Self {
        Self { verifies, ..self }
    }

    /// Inputs whose path was `old` when the plan was made, and is `new` for [`Session::fill`] and [`Session::repair`]. A path below
    /// `old` is looked for below `new`.
    pub fn moved(mut self, old: impl Into<PathBuf>, new: impl Into<PathBuf>) -> Self {
        self.moved.push((old.into(), new.into()));
        self
    }

    /// How [`Session::fill`] handles bad inputs. [`Session::pack`] takes this from the recipe.
    pub fn on_error(self, on_error: OnError) -> Self {
        Self { on_error, ..self }
    }

    /// The share of documents, from 0 to 1, that the tokenizer's reference implementation encodes too; a difference is
    /// an error.
    pub fn check_exact(self, share: f64) -> Self {
        Self { check_exact: share, ..self }
    }

    /// Whether a dataset of another recipe is replaced once the new one is sealed (default false).
    pub fn replacing(self, replaces: bool) -> Self {
        Self { replaces, ..self }
    }

    /// Whether plans are made of the listings in the recipe's folder ([`Session::scan_part`]) instead of the inputs
    /// (default false).
    pub fn from_listings(self, from_listings: bool) -> Self {
        Self { from_listings, ..self }
    }

    /// The most inputs that are shuffled in memory, and whether more go to disk. The first decides the order of samples: for tests, which
    /// have fewer inputs.
    #[doc(hidden)]
    pub fn many_inputs(self, many: usize, spills: bool) -> Self {
        Self { many, spills, ..self }
    }

    /// Finds the inputs of a recipe with their labels and metadata; of samples it reads headers only, unless duplicates are left out.
    pub fn scan(&self, recipe: &Recipe) -> Result<Listing> {
        recipe.check()?;
        let typed = recipe.planning(&self.registry, None)?.typed;
        let scanning = recipe.scanning(&*self.store, typed, self.io_threads)?;
        let found = scan(self.scanning(&KeptTables::none()), &scanning)?;
        let Found::Whole(listing) = found else { return Err(Error::bug("a listing was spilled unasked")) };
        Ok(listing)
    }

    /// The trees of each ROOT input, by path; other files are ignored.
    pub fn trees(&self, recipe: &Recipe) -> Result<BTreeMap<PathBuf, Vec<InputTable>>> {
        recipe.check()?;
        tables(self.scanning(&KeptTables::none()), &recipe.scanning(&*self.store, true, self.io_threads)?)
    }

    /// Assigns every sample to a shard. Writes nothing, unless a replacement ([`Session::replacing`]) was interrupted
    /// while the new dataset took the place of the old one: that is finished first.
    ///
    /// Errors: bad inputs, unless the recipe skips them; invalid settings.
    pub fn plan(&self, recipe: &Recipe) -> Result<Plan> {
        self.decide(recipe, None, &self.tables()).map(|(plan, _)| plan)
    }

    /// Publishes a plan in the recipe's folder, so that processes can fill parts of it. A folder with the same plan is
    /// resumed; one with finished shards of another plan is refused, or replaced ([`Session::replacing`]).
    pub fn store_plan(&self, recipe: &Recipe, plan: &Plan) -> Result<Stored> {
        let _alone = self.alone(recipe)?;
        publish(&self.store, recipe.folder()?, plan, self.replaces.then_some(recipe.on_error)).map(|plan| plan.stored)
    }

    /// Keeps other processes from replacing the dataset too.
    fn alone(&self, recipe: &Recipe) -> Result<Option<Box<dyn Any + Send>>> {
        if !self.replaces {
            return Ok(None);
        }
        let out = recipe.folder()?;
        self.store.create_dir(out)?;
        self.store.lock(out)
    }

    /// Scans, plans, packs and seals. After an interruption the same call resumes.
    pub fn pack(&self, recipe: &Recipe) -> Result<Packed> {
        let out = recipe.folder()?;
        let _alone = self.alone(recipe)?;
        let tables = self.tables();
        let (plan, transforms) = self.decide(recipe, None, &tables)?;
        // Until the dataset is sealed no job of another plan gets into its folder.
        let StoredPlan { stored, digest, staging: _held } =
            publish(&self.store, out, &plan, self.replaces.then_some(recipe.on_error))?;
        drop(plan);
        let place = plan_folder(&self.store, out)?;
        let plan = plan_to_fill(&*self.store, &place, digest)?.ok_or_else(|| replaced(out))?;
        let (context, options) = (self.packing(&transforms, &tables), self.options(Part::ALL, recipe.on_error));
        let report = pack_again(&context, &place, &plan, &options, &Redo::new())?;
        if !exists(&*self.store, &plan_folder(&self.store, out)?.join(PLAN))? {
            let message = "was moved or removed while it was packed; run the same command again";
            return Err(Error::new(Kind::Environment, message).in_input(out.display()));
        }
        let manifest = self.sealing(&transforms, out).seal()?;
        tell_left_out(out, &report, recipe.on_error, &*self.observer);
        let ours = manifest.plans().any(|digest| digest == plan.digest());
        match ours {
            true => {
                let report = PackReport { skipped: manifest.skipped, ..report };
                Ok(Packed { report, manifest, stored })
            }
            false => Err(replaced(out)),
        }
    }

    /// A writer of samples that a program gives, into the shards of a new dataset.
    ///
    /// `schema`: the columns of a sample, [`KEY`](packhorse_core::KEY) and one for each field, in the types of
    /// [`FieldType`](packhorse_core::FieldType). A column that some sample lacks is nullable. Class names are those of
    /// `classes`, or in the schema's metadata ([`CLASSES`](packhorse_core::CLASSES)). The recipe says where the dataset
    /// goes and how it is stored; [`Recipe::for_writer`] makes one.
    ///
    /// Errors: `Config` for settings that need inputs or all samples at once, such as `shuffle`, and for a folder that
    /// is not empty, unless it holds a dataset to replace ([`Session::replacing`]); `Unsupported` for a column that the
    /// format can't store.
    ///
    /// ```no_run
    /// use packhorse_core::{FieldType, KEY, Registry, Result, Rows, Schema};
    /// use packhorse_pack::{Recipe, Session};
    /// use std::sync::Arc;
    ///
    /// fn write(registry: Registry, samples: impl Iterator<Item = Rows>) -> Result<()> {
    ///     let schema = Schema::new(vec![FieldType::Text.field(KEY, false), FieldType::Blob.field("jpg", false)]);
    ///     let recipe = Recipe::for_writer("webdataset", "shards").shard_size(256 << 20);
    ///     let mut writer = Session::new(registry).writer(&recipe, &Arc::new(schema))?;
    ///     for rows in samples {
    ///         writer.push(&rows)?;
    ///     }
    ///     println!("root {}", writer.finish()?.root);
    ///     Ok(())
    /// }
    /// ```
    pub fn writer(&self, recipe: &Recipe, schema: &SchemaRef) -> Result<Writer> {
        let context = WriterContext {
            registry: self.registry.clone(),
            store: self.store.clone(),
            observer: self.observer.clone(),
            cancel: self.cancel.clone(),
            limits: self.bounds(),
            memory: self.memory.unwrap_or(PackOptions::default().memory),
            jobs: self.jobs,
            replaces: self.replaces,
        };
        Writer::new(context, recipe, schema)
    }

    /// Fills a part of the plan in the folder `dir`. Complete shards stay. An error is also noted in the folder, for
    /// [`Session::status`] and [`Session::watch`].
    pub fn fill(&self, dir: impl AsRef<Path>, part: Part) -> Result<PackReport> {
        let dir = dir.as_ref();
        let done = self.transforms_of(dir).and_then(|transforms| {
            pack(&self.packing(&transforms, &KeptTables::none()), dir, &self.options(part, self.on_error))
        });
        part_errors::keep(&self.store, dir, part, &done);
        done
    }

    /// Checks that every shard of the plan in `dir` is complete, and writes the manifest.
    pub fn seal(&self, dir: impl AsRef<Path>) -> Result<Manifest> {
        self.sealing(&self.transforms_of(dir.as_ref())?, dir.as_ref()).seal()
    }

    /// As [`Session::seal`] if all shards are complete; `None` if not. Any number of processes may do this when they have
    /// filled their part: the last one seals, and several at once do no harm.
    ///
    /// Errors: `Config` if a replacement of the dataset is under way.
    pub fn seal_if_complete(&self, dir: impl AsRef<Path>) -> Result<Option<Manifest>> {
        self.sealing(&self.transforms_of(dir.as_ref())?, dir.as_ref()).if_complete()
    }

    /// Compares the dataset in `dir` with its recorded lengths and digests.
    pub fn verify(&self, dir: impl AsRef<Path>, depth: Depth) -> Result<Verification> {
        // A server answers many requests at once.
        let threads = if Location::url(dir.as_ref()).is_some() { self.io_threads } else { self.jobs.max(2) };
        let (registry, store, observer, cancel) = (&self.registry, &*self.store, &*self.observer, &self.cancel);
        verify(&VerifyContext { registry, store, observer, cancel }, dir.as_ref(), depth, threads)
    }

    /// The progress of the plan in `dir`.
    pub fn status(&self, dir: impl AsRef<Path>) -> Result<Status> {
        crate::status::status(&self.registry, &*self.store, dir.as_ref())
    }

    /// Follows the plan in `dir` while other processes fill it.
    pub fn watch(&self, dir: impl AsRef<Path>) -> Result<Watch> {
        Watch::open(self.store.clone(), dir.as_ref())
    }

    /// Removes what interrupted processes left in `dir`: staging folders, and unfinished uploads in an object store.
    /// Returns how many. No process may be packing into `dir` meanwhile.
    pub fn clean(&self, dir: impl AsRef<Path>) -> Result<u64> {
        clean(&self.store, dir.as_ref())
    }

    /// Removes the damaged files that [`Session::repair`] kept in `dir`; returns what they were.
    pub fn empty_quarantine(&self, dir: impl AsRef<Path>) -> Result<Quarantined> {
        Quarantine::empty(&self.store, dir.as_ref())
    }

    /// The damaged files that [`Session::repair`] kept in `dir`.
    pub fn quarantined(&self, dir: impl AsRef<Path>) -> Result<Quarantined> {
        Quarantine::look(&*self.store, dir.as_ref())
    }

    /// Counts samples and fields of the shard at `path`.
    pub fn stat(&self, path: impl AsRef<Path>) -> Result<Stat> {
        crate::inspect::stat(&self.registry, &*self.store, path.as_ref())
    }

    /// The inputs that each of these samples of the sealed dataset in `dir` was packed from. A sample whose inputs are not
    /// recorded has none: a program wrote it, its shard was adopted, or the dataset is a copy without its plan.
    ///
    /// Errors: a dataset or a plan that can't be read; a shard that the dataset does not have (kind `Config`).
    pub fn origins(&self, dir: impl AsRef<Path>, samples: &[SampleAt<'_>]) -> Result<Vec<Vec<Origin>>> {
        crate::origins::origins(&*self.store, dir.as_ref(), samples)
    }

    /// Packs the damaged shards of the dataset in `dir` again from its inputs, and seals it. Damaged files are not lost: they
    /// are kept in `DIR/.quarantine`, each with a reason, until [`Session::empty_quarantine`].
    ///
    /// Errors: `Environment` while another process of this machine appends to the dataset or repairs it.
    pub fn repair(&self, dir: impl AsRef<Path>) -> Result<DatasetRepair> {
        let _alone = self.alone_with(dir.as_ref())?;
        // A damaged document of the dataset is damage, not bad input.
        let damaged = |e: Error| if e.kind() == Kind::Content { e.with_kind(Kind::Incomplete) } else { e };
        let view = DatasetView::read(&*self.store, dir.as_ref()).map_err(damaged)?;
        if let Some(view) = view {
            // Only the view itself can be made again; its shards are the dataset's.
            view.runs(&*self.store, dir.as_ref()).map_err(damaged)?;
            return Err(view.refusal().in_input(dir.as_ref().display()));
        }
        let transforms = self.transforms_of(dir.as_ref()).map_err(damaged)?;
        repair_dataset(
            &self.packing(&transforms, &KeptTables::none()),
            dir.as_ref(),
            &self.options(Part::ALL, self.on_error),
        )
    }

    /// A plan and its transforms. `base`: the dataset that the samples are added to.
    fn decide(&self, recipe: &Recipe, base: Option<&Base>, tables: &KeptTables) -> Result<(Plan, Transforms)> {
        recipe.check()?;
        recipe.out.as_deref().map_or(Ok(false), Location::holds_objects)?;
        if self.replaces {
            // The folder may be an input too, so it must be whole before the scan.
            finish_replacing(&self.store, recipe.folder()?)?;
        }
        let mut transforms = recipe.transforms(self.bounds(), self.check_exact)?;
        let mut options = recipe.planning(&self.registry, self.memory)?;
        if let Some(base) = base {
            transforms = base.transforms(transforms, recipe, |plan| self.transforms_of_plan(&base.dir, plan))?;
            base.inherit(&mut options)?;
        }
        let read = |format: &str| options.sources.get(format);
        for (format, options) in self.registry.iter().filter_map(|format| Some((format, read(format.info().id)?))) {
            keyed_source::source(&**format, options, self.bounds())?;
        }
        let mut scanning = recipe.scanning(&*self.store, options.typed, self.io_threads)?;
        (scanning.sources, scanning.joining) = (options.sources.clone(), options.joining.clone());
        scanning.known = base.map(|base| columns_of(&base.manifest)).transpose()?;
        if self.from_listings {
            scanning.listings = Some(recipe.folder()?);
        } else {
            self.tell_of_listings(recipe);
        }
        options.many = self.many;
        if self.spills && base.is_none() && transforms.is_empty() && !options.typed {
            scanning.spill = recipe.spilling(self.many);
        }
        let listing = match scan(self.scanning(tables), &scanning)? {
            Found::Whole(listing) => listing,
            Found::Spilled(spilled) => {
                let told = (&*self.observer, &self.cancel);
                return Ok((plan_spilled(&self.registry, spilled, &scanning, &options, told)?, transforms));
            }
        };
        let mut plan = plan(&self.registry, listing, &transforms, &options, &*self.observer)?;
        plan.estimate = fit(&self.packing(&transforms, tables), &mut plan, recipe.on_error)?;
        Ok((plan, transforms))
    }

    /// The transforms of the plan in `dir`.
    fn transforms_of(&self, dir: &Path) -> Result<Transforms> {
        let dir = &plan_folder(&self.store, dir)?;
        self.transforms_of_plan(dir, &open_plan(&*self.store, dir)?)
    }

    fn transforms_of_plan(&self, dir: &Path, plan: &PlanReader) -> Result<Transforms> {
        let files = |digest: &str| plan_file(&*self.store, dir, plan, digest);
        let limits = limits(plan.header(), self.bounds())?;
        let rebuild = RebuildContext { limits, files: &files, check_exact: self.check_exact };
        plan.header().transforms.iter().map(|text| from_description_with(text, &rebuild)).collect()
    }

    fn bounds(&self) -> Limits {
        self.limits.unwrap_or_else(|| self.memory.map_or_else(Limits::default, Limits::of_memory))
    }

    /// Room for the tables of a scan, if memory is not limited: they read ahead as far as the whole session may.
    fn tables(&self) -> KeptTables {
        match (self.limits, self.memory) {
            (None, None) => KeptTables::new(self.bounds(), METADATA),
            _ => KeptTables::none(),
        }
    }

    fn scanning<'a>(&'a self, kept: &'a KeptTables) -> Scan<'a> {
        Scan {
            registry: &self.registry,
            store: &*self.store,
            limits: self.bounds(),
            observer: &*self.observer,
            cancel: &self.cancel,
            kept,
            verifies: self.verifies,
        }
    }

    fn packing<'a>(&'a self, transforms: &'a [Box<dyn Transform>], kept: &'a KeptTables) -> PackContext<'a> {
        PackContext {
            registry: &self.registry,
            transforms,
            store: self.store.clone(),
            limits: self.bounds(),
            observer: &*self.observer,
            cancel: &self.cancel,
            kept,
            moved: &self.moved,
            quarantine: None,
        }
    }

    fn sealing<'a>(&'a self, transforms: &'a [Box<dyn Transform>], out: &'a Path) -> Sealing<'a> {
        Sealing { registry: &self.registry, transforms, store: &self.store, out, cancel: &self.cancel }
    }

    fn options(&self, part: Part, on_error: OnError) -> PackOptions {
        let memory = self.memory.unwrap_or(PackOptions::default().memory);
        PackOptions { part, jobs: self.jobs, io_threads: self.io_threads, memory, on_error, verify: self.verifies }
    }
}
