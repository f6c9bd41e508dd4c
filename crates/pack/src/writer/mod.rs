//! Writes samples from a program into a sealed dataset.
//!
//! ```text
//! push ─columns→ rows ─cutter→ pieces ─queue→ threads: encode · sink · hash · sync ─finish→ names, receipts, seal
//! ```
//!
//! The calling thread only checks rows and decides where a shard ends. Files stay below `OUT/.staging` until
//! [`Writer::finish`], so a program that ends early leaves nothing that looks like a dataset.

mod columns;
mod cutter;
mod destination;
mod filling;
mod publishing;
mod settings;
mod shard_threads;

use crate::Recipe;
use columns::PushedColumns;
use cutter::ShardCutter;
use destination::Destination;
pub(crate) use destination::check_free;
use filling::{FilledShard, OpenShard};
use packhorse_core::{Cancel, Error, Event, Limits, Observer, Registry, Result, Rows, SchemaRef, Store};
use packhorse_dataset::{Manifest, PLAN, PlanEntry, PlanWriter};
use packhorse_storage::{Stage, Staging};
use packhorse_transform::Transform;
use publishing::Publishing;
use settings::WriterSettings;
use shard_threads::{Filling, ShardThreads, WriterState};
use std::collections::VecDeque;
use std::io::BufWriter;
use std::sync::Arc;

/// What a writer takes from its session.
pub(crate) struct WriterContext {
    pub(crate) registry: Arc<Registry>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) cancel: Cancel,
    pub(crate) limits: Limits,
    /// The most bytes of rows that wait for threads.
    pub(crate) memory: u64,
    /// Threads that write shards.
    pub(crate) jobs: usize,
    pub(crate) replaces: bool,
}

/// Writes samples, in the order in which they are pushed, into the shards of a new dataset.
///
/// Made by [`Session::writer`](crate::Session::writer). Equal samples give equal bytes, whatever the number of threads
/// and however the samples are grouped into rows. A writer that is dropped before [`finish`](Self::finish) returned
/// leaves no dataset; writing can't be resumed.
pub struct Writer {
    // Dropped first: the threads end when no shard is open.
    open: Option<OpenShard>,
    threads: ShardThreads,
    filling: VecDeque<Filling>,
    filled: Vec<FilledShard>,
    plan: PlanWriter<'static>,
    plan_stage: Stage,
    staging: Staging,
    destination: Destination,
    context: WriterContext,
    columns: PushedColumns,
    /// Checks of rows before they are queued.
    checks: Vec<Box<dyn Transform>>,
    cutter: ShardCutter,
    name: String,
    shards: u64,
    samples: u64,
}

/// The most bytes of rows that threads take at once.
const PIECE: u64 = 4 << 20;

impl Writer {
    pub(crate) fn new(context: WriterContext, recipe: &Recipe, schema: &SchemaRef) -> Result<Self> {
        let settings = WriterSettings::of(&context, recipe, schema)?;
        if let Some(need) = settings.sink.readers_need() {
            context.observer.event(&Event::Warning(need));
        }
        let destination = Destination::claim(&context.store, recipe.folder()?, context.replaces)?;
        let staging = destination.staging(&context.store)?;
        let mut plan_stage = staging.stage(PLAN)?;
        let file = BufWriter::with_capacity(256 << 10, packhorse_core::Outlet::stream(&mut plan_stage, "")?);
        let plan = PlanWriter::new(file, &settings.header)?;
        let cutter = ShardCutter::new(recipe.shard_bounds().within(&*settings.sink, 1), &settings.header)?;
        let columns = PushedColumns::new(settings.schema, settings.header.classes.len());
        let checks = settings.checks;
        let shared = WriterState::new(settings.sink, settings.written, settings.steps, &context);
        Ok(Self {
            open: None,
            threads: ShardThreads::new(shared, context.jobs),
            filling: VecDeque::new(),
            filled: Vec::new(),
            plan,
            plan_stage,
            staging,
            destination,
            context,
            columns,
            checks,
            cutter,
            name: recipe.name.clone(),
            shards: 0,
            samples: 0,
        })
    }

    /// The columns of a sample: the key, then the fields by name.
    pub fn schema(&self) -> &SchemaRef {
        self.columns.schema()
    }

    /// The number of samples pushed.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Appends samples: rows with [`KEY`](packhorse_core::KEY) and the schema's columns, in any order. A nullable column
    /// may be left out. Waits while the session's memory is full of rows that threads have not yet written.
    ///
    /// Errors: `Config` for a column that the schema lacks; `Content` for a bad value. Then no row of `rows` is written,
    /// and the writer goes on without them. An error of a thread, such as a full disk, ends it too: all later calls return that error.
    pub fn push(&mut self, rows: &Rows) -> Result<()> {
        self.threads.shared().check()?;
        let rows = self.columns.arranged(rows)?;
        let rows = self.checks.iter().try_fold(rows, |rows, check| check.apply(rows))?;
        let sizes = self.cutter.sizes(&rows, self.threads.shared().sink());
        let mut from = 0;
        while from < sizes.len() {
            let rest = sizes.get(from..).unwrap_or_default();
            match self.cutter.take(rest, PIECE) {
                0 => self.end_shard()?,
                n => {
                    let bytes = rest.iter().take(n).fold(0u64, |sum, size| sum.saturating_add(size.raw));
                    self.send(rows.slice(from, n), bytes)?;
                    from += n;
                }
            }
        }
        Ok(())
    }

    fn send(&mut self, rows: Rows, bytes: u64) -> Result<()> {
        let samples = rows.num_rows() as u64;
        let held = self.threads.shared().hold(bytes)?;
        if self.open.is_none() {
            let name = format!("{}-{:06}", self.name, self.shards);
            let (open, filling) = self.threads.start(name.clone(), self.staging.stage(&name)?);
            self.shards += 1;
            self.filling.push_back(filling);
            self.open = Some(open);
        }
        let sent = self.open.as_ref().is_some_and(|open| open.send(rows, bytes, held));
        self.samples += samples;
        if sent { Ok(()) } else { Err(self.threads.shared().failure()) }
    }

    /// Ends the open shard, and adds complete shards to the plan.
    fn end_shard(&mut self) -> Result<()> {
        self.cutter.restart();
        if let Some(open) = self.open.take() {
            open.end();
        }
        while let Some(done) = self.filling.front().and_then(Filling::poll) {
            self.filling.pop_front();
            self.add(done?)?;
        }
        Ok(())
    }

    fn add(&mut self, mut shard: FilledShard) -> Result<()> {
        let keys = std::mem::take(&mut shard.keys);
        let entry =
            |key: &str| Ok(PlanEntry { key: key.to_owned(), cls: None, json: None, joined: None, fields: Vec::new() });
        self.plan.shard(&shard.name, None, keys.iter().map(entry))?;
        self.filled.push(shard);
        Ok(())
    }

    /// Ends the last shard, gives all files their names, and seals the dataset.
    ///
    /// Errors: `Config` if no sample was pushed; `Content` for two samples of one key; failed I/O. The folder then holds
    /// no dataset, or the one before.
    pub fn finish(mut self) -> Result<Manifest> {
        self.end_shard()?;
        // Without a thread nothing would fill the shards.
        self.threads.shared().check()?;
        while let Some(filling) = self.filling.pop_front() {
            let shard = filling.wait().unwrap_or_else(|| Err(self.threads.shared().failure()))?;
            self.add(shard)?;
        }
        self.threads.shared().check()?;
        if self.filled.is_empty() {
            let message = "the program gave no sample, so there is no dataset to write";
            return Err(Error::config(message).in_input(self.destination.out().display()));
        }
        let (plan, _) = self.plan.finish(&[])?;
        let publishing = Publishing {
            context: &self.context,
            staging: self.staging,
            destination: &self.destination,
            plan,
            published: Vec::new(),
        };
        publishing.all(self.plan_stage.ready()?, self.filled)
    }
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shards = self.filled.len() + self.filling.len();
        f.debug_struct("Writer").field("shards", &shards).finish_non_exhaustive()
    }
}
