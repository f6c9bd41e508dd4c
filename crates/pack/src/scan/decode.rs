//! Reads the headers of encoded fields (`.npz`, `.npy`), so that the plan knows every column and its shape.

use super::{Decoded, Listing, SampleRef, Scan, ScanOptions};
use crate::inputs::Inputs;
use crate::latency_probe::LatencyProbe;
use crate::merged_columns::{Joining, MergedColumns};
use crate::recipe::Decode;
use packhorse_core::{
    Codec, DataType, Error, Event, Field, HUGGINGFACE, Kind, LOGICAL, Limits, Options, PACKED, Registry, Result,
    SchemaRef, with_metadata,
};
use packhorse_dataset::{FieldRecord, FieldSource, Manifest};
use packhorse_transform::Casts;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Samples probed per round; fewer in the first, which measures the latency.
const CHUNK: usize = 4096;
const FIRST: usize = 64;

/// The probing threads: one per core, and many more if latency is high.
struct Threads {
    many: usize,
    pool: OnceLock<rayon::ThreadPool>,
    latency: LatencyProbe,
}

impl Threads {
    fn work<R: Send>(&self, job: impl FnOnce() -> R + Send) -> Result<R> {
        if !self.latency.is_high() {
            return Ok(job());
        }
        if let Some(pool) = self.pool.get() {
            return Ok(pool.install(job));
        }
        let failed = |e| Error::new(Kind::Environment, format!("can't start threads: {e}"));
        let pool = rayon::ThreadPoolBuilder::new().num_threads(self.many.max(1)).build().map_err(failed)?;
        Ok(self.pool.get_or_init(|| pool).install(job))
    }
}

/// The columns of a dataset, which values of samples that are added to it have too. Labels are numbered by its class list.
pub(crate) fn columns_of(manifest: &Manifest) -> Result<SchemaRef> {
    let is_label = |field: &&FieldRecord| field.name == "cls" && !manifest.classes.is_empty();
    FieldRecord::schema(&manifest.schema.iter().filter(|field| !is_label(field)).cloned().collect::<Vec<_>>())
}

/// Probes every encoded field to decode. Removes samples that can't be decoded or whose types do not fit, as faults.
pub(super) fn apply(context: Scan<'_>, options: &ScanOptions<'_>, listing: &mut Listing) -> Result<()> {
    let ScanOptions { typed, joining, .. } = options;
    let scratch = std::env::temp_dir();
    let roots = listing.roots().to_vec();
    let inputs = context.inputs(&roots, &scratch);
    let threads = Threads { many: options.io_threads, pool: OnceLock::new(), latency: LatencyProbe::default() };
    let mut found = BTreeMap::new();
    for name in field_names(listing) {
        let Some((format, codec)) = codec(context.registry, &name, context.limits)? else { continue };
        let casts = &joining.casts;
        // Of several fields that decode to one name, all but one can be left out by the names that they are stored under.
        if casts.names_dropped(&name) {
            continue;
        }
        let probing = Probing { inputs: &inputs, listing, codec: &*codec, name: &name, threads: &threads, casts };
        if !*typed {
            match probing.held()? {
                Held::Several(_) if splits(options, listing, &name) => {}
                Held::Several(columns) | Held::One(columns)
                    if columns.iter().any(|column| meets_values(column, options, listing)) => {}
                Held::Several(_) | Held::One(_) => continue,
                Held::Unknown(fault) => {
                    let text =
                        format!("the fields {name} stay as they are, since none of them can be decoded: {fault}");
                    context.observer.event(&Event::Warning(&text));
                    continue;
                }
            }
        }
        let mut columns = MergedColumns::default();
        let faults = probing.all(joining, &mut columns)?;
        columns.note_json(|name| is_json(listing, name));
        found.insert(name, Decoded { format, columns });
        leave_out(listing, faults);
    }
    listing.decoded = found;
    Ok(())
}

/// Whether the several arrays of the field `name` become fields where a single one stays as it is: those of files do.
fn splits(options: &ScanOptions<'_>, listing: &Listing, name: &str) -> bool {
    let is_file = |sample: &SampleRef<'_>| !sample.is_member() && sample.shard().is_none();
    options.recipe.decode == Decode::Always
        || listing.iter().any(|sample| is_file(&sample) && sample.piece_of(name).is_some())
}

/// Whether inputs that are stored as bytes are decoded all the same: files of several arrays, of which the first samples have one.
pub(super) fn splits_files(context: Scan<'_>, options: &ScanOptions<'_>, listing: &Listing) -> Result<bool> {
    let scratch = std::env::temp_dir();
    let inputs = context.inputs(listing.roots(), &scratch);
    let threads = Threads { many: 1, pool: OnceLock::new(), latency: LatencyProbe::default() };
    for name in field_names(listing) {
        let Some((_, codec)) = codec(context.registry, &name, context.limits)? else { continue };
        let casts = &Casts::default();
        let probing = Probing { inputs: &inputs, listing, codec: &*codec, name: &name, threads: &threads, casts };
        if splits(options, listing, &name) && matches!(probing.held()?, Held::Several(_)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What members of tars do not hold of a field of a sealed dataset: scale, fill value and units, and names of classes.
fn notes<'m>(manifest: &'m Manifest, name: &str) -> impl Iterator<Item = (&'static str, &'m String)> {
    let field = manifest.schema.iter().find(|field| field.name == name);
    let note = move |name| Some((name, field?.metadata.get(name)?));
    [PACKED, HUGGINGFACE].into_iter().filter_map(note)
}

/// Whether the text of the field `name` is JSON in all members.
fn is_json(listing: &Listing, name: &str) -> bool {
    listing.note_of_members(name, LOGICAL) == Some("json")
}

/// Whether a column that could stay in its file is cast or dropped, or is among the values of tables or of the dataset that samples are
/// added to.
fn meets_values(column: &Field, options: &ScanOptions<'_>, listing: &Listing) -> bool {
    let with_rows = listing.tables().iter().filter(|table| table.items > 0);
    let schemas = with_rows.map(|table| &table.schema).chain(&options.known);
    let mut fields = schemas.filter_map(|schema| schema.field_with_name(column.name()).ok());
    let casts = &options.joining.casts;
    // Notes of one dataset do not hold for the values of another.
    let is_noted = listing.sealed().iter().any(|sealed| notes(&sealed.manifest, column.name()).next().is_some());
    // A dataset that samples are added to has its columns already.
    options.known.is_none() && (is_noted || is_json(listing, column.name()))
        || options.recipe.names(column.name())
        || casts.get(column.name()).is_some()
        || casts.names_dropped(column.name())
        || fields.any(|field| *field.data_type() != DataType::BinaryView)
}

fn field_names(listing: &Listing) -> Vec<String> {
    let mut names: BTreeMap<&str, ()> = BTreeMap::new();
    for sample in listing.iter().filter(|sample| sample.table().is_none()) {
        names.extend(sample.fields().map(|(name, _)| (name, ())));
    }
    names.into_keys().map(str::to_owned).collect()
}

/// The codec of the field `name`, if this build has one.
fn codec(registry: &Registry, name: &str, limits: Limits) -> Result<Option<(&'static str, Box<dyn Codec>)>> {
    let Some(format) = registry.by_field(name) else { return Ok(None) };
    Ok(Some((format.info().id, format.codec(&Options::new(), limits)?)))
}

fn leave_out(listing: &mut Listing, faults: Vec<(usize, Error)>) {
    let mut keep = vec![true; listing.samples()];
    for (i, fault) in faults {
        if let Some(keep) = keep.get_mut(i) {
            *keep = false;
        }
        listing.add_fault(fault);
    }
    if keep.contains(&false) {
        listing.retain(&keep);
    }
}

/// Whether the field `name`, which decodes to these columns, is one array under its own name.
pub(super) fn is_single(codec: &dyn Codec, name: &str, columns: &[Field]) -> bool {
    let holds = |encoded: Result<String>| encoded.is_ok_and(|encoded| encoded == name);
    matches!(columns, [column] if holds(codec.encoded(column)) || holds(codec.encoded_column(column)))
}

/// Whether an error is about the input, not the file system.
fn is_of_input(error: &Error) -> bool {
    matches!(error.kind(), Kind::Content | Kind::Limit | Kind::Unsupported)
}

/// What a field of encoded values holds.
enum Held {
    /// One array under its own name, so that decoding and encoding it would change nothing.
    One(Vec<Field>),
    Several(Vec<Field>),
    /// It can't be decoded: why not.
    Unknown(Error),
}

struct Probing<'a> {
    inputs: &'a Inputs<'a>,
    listing: &'a Listing,
    codec: &'a dyn Codec,
    name: &'a str,
    threads: &'a Threads,
    casts: &'a Casts,
}

impl Probing<'_> {
    /// What the first sample holds that can be decoded.
    fn held(&self) -> Result<Held> {
        let mut fault = None;
        for i in 0..self.listing.samples() {
            let fields = match self.one(i) {
                Ok(Some(fields)) => fields,
                Ok(None) => continue,
                Err(e) if is_of_input(&e) => {
                    if fault.is_none() || e.kind() == Kind::Limit {
                        fault = Some(e);
                    }
                    continue;
                }
                Err(e) => return Err(e),
            };
            return Ok(match is_single(self.codec, self.name, &fields) {
                true => Held::One(fields),
                false => Held::Several(fields),
            });
        }
        Ok(match fault {
            Some(fault) if self.codec.is_archive(self.name) => match fault.kind() {
                // The samples of a dataset do not depend on memory.
                Kind::Limit => Held::Several(Vec::new()),
                _ => Held::Unknown(fault),
            },
            _ => Held::One(Vec::new()),
        })
    }

    /// Adds the columns of all samples; returns the samples that are faulty.
    fn all(&self, joining: &Joining, columns: &mut MergedColumns) -> Result<Vec<(usize, Error)>> {
        let mut faults = Vec::new();
        let (mut start, all) = (0, self.listing.samples());
        while start < all {
            self.inputs.check_cancel()?;
            let chunk = start..all.min(start + if start == 0 { FIRST } else { CHUNK });
            start = chunk.end;
            let numbers = chunk.clone().into_par_iter();
            let probed: Vec<_> = self.threads.work(|| numbers.map(|i| self.watched(i)).collect())?;
            for (i, fields) in chunk.zip(probed) {
                match fields.and_then(|fields| self.add(columns, i, fields, joining)) {
                    // Unreadable data is a fault of one sample.
                    Err(e) if e.kind() == Kind::Unsupported => faults.push((i, e.with_kind(Kind::Content))),
                    Err(e) if is_of_input(&e) => faults.push((i, e)),
                    other => other?,
                }
            }
        }
        Ok(faults)
    }

    fn add(&self, columns: &mut MergedColumns, i: usize, fields: Option<Vec<Field>>, joining: &Joining) -> Result<()> {
        let (Some(fields), Some(sample)) = (fields, self.listing.sample(i)) else { return Ok(()) };
        let (relative, path) = sample.paths_of(self.name);
        let found = columns.add(fields.iter(), 1, &relative, joining);
        found.map_err(|e| e.in_sample(sample.key()).in_input(path.display()))
    }

    /// As `one`, and records the latency.
    fn watched(&self, i: usize) -> Result<Option<Vec<Field>>> {
        let waits = LatencyProbe::waits();
        let found = self.one(i);
        self.threads.latency.record(LatencyProbe::waits().saturating_sub(waits), 1);
        found
    }

    /// The columns in the field of sample `i`; `None` if the sample lacks it.
    fn one(&self, i: usize) -> Result<Option<Vec<Field>>> {
        let Some(sample) = self.listing.sample(i).filter(|sample| sample.table().is_none()) else { return Ok(None) };
        if let Some(columns) = sample.probed(self.name) {
            return Ok(Some(columns.to_vec()));
        }
        let Some(piece) = sample.piece_of(self.name) else { return Ok(None) };
        let columns = self.probe(&piece).map_err(|e| e.in_sample(sample.key()))?;
        let Some((sealed, _)) = sample.shard() else { return Ok(Some(columns)) };
        let noted = |column: Field| {
            let name = column.name().clone();
            notes(&sealed.manifest, &name).fold(column, |column, (name, note)| with_metadata(column, name, note))
        };
        Ok(Some(columns.into_iter().map(noted).collect()))
    }

    fn probe(&self, piece: &FieldSource) -> Result<Vec<Field>> {
        let input = self.inputs.view(piece)?;
        let drops = |name: &str| self.casts.drops(name);
        self.codec.probe_without(self.name, &*input, &drops).map_err(|e| e.in_input(input.name()))
    }
}
