//! Plans of shards that follow those of a dataset.

use super::{LABEL, Plan};
use crate::merged_columns::same_type;
use crate::scan::TableInput;
use packhorse_core::{
    Code, DataType, Error, Field, HUGGINGFACE, LOGICAL, NUMPY, Result, Schema, class_names, numpy_type,
};
use packhorse_dataset::{Digest, FieldRecord, PlanHeader, PlanReader};
use packhorse_transform::{Casts, Transform};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;
use std::sync::Arc;

const SETTINGS: &str = "give the settings that the dataset was packed with";

/// How new samples may differ from those of the dataset.
pub(crate) struct Allowed<'a> {
    /// Columns of another type are cast where these give them that of the dataset.
    pub(crate) casts: &'a Casts,
    /// Rows of tables may lack columns that may be null in the dataset.
    pub(crate) fill_missing: bool,
    /// Shards hold members, which are bytes whatever types a plan has.
    pub(crate) members: bool,
    /// The transforms of the dataset, in order.
    pub(crate) transforms: &'a [Box<dyn Transform>],
}

/// The numbers that names of shards have so far, such as 7 of `train-000007`.
#[derive(Default)]
struct ShardNumbers(BTreeMap<String, u64>);

impl ShardNumbers {
    fn take(&mut self, name: &str) {
        if let Some((stem, number)) = name.rsplit_once('-')
            && let Ok(number) = number.parse::<u64>()
        {
            let after = number.saturating_add(1);
            match self.0.get_mut(stem) {
                Some(next) => *next = (*next).max(after),
                None => drop(self.0.insert(stem.to_owned(), after)),
            }
        }
    }

    fn next(&self, stem: &str) -> u64 {
        self.0.get(stem).copied().unwrap_or_default()
    }
}

/// The first plan whose shards are not numbered after those of the plans before it, as those of appends are.
pub(crate) fn first_stray(plans: &[PlanReader]) -> Option<usize> {
    let mut numbers = ShardNumbers::default();
    for (at, plan) in plans.iter().enumerate() {
        for shard in plan.shards() {
            let is_next = |(stem, number): (&str, &str)| number.parse() == Ok(numbers.next(stem));
            if at > 0 && !shard.name.rsplit_once('-').is_some_and(is_next) {
                return Some(at);
            }
            numbers.take(&shard.name);
        }
    }
    None
}

impl Plan {
    /// Makes this a plan of samples that are added to the dataset with the header `base`: it has the columns of the
    /// dataset, and its classes and splits followed by new ones.
    ///
    /// Errors: `Config` for other columns, and for classes or splits that contradict those of the dataset.
    pub(crate) fn follow(&mut self, base: &PlanHeader, allowed: &Allowed<'_>) -> Result<()> {
        let (tables, rows) = (self.listing.tables(), self.listing.iter().all(|sample| sample.table().is_some()));
        let names: BTreeSet<&str> = shared_columns(tables);
        let empty = |table: &TableInput, name: &str| table.omitted.iter().any(|o| o.empty && o.field == name);
        let new = NewColumns {
            may_lack: &|name| allowed.fill_missing || !rows || tables.iter().any(|table| empty(table, name)),
            // Types of most formats do not tell whether a value is null; the pass over the values does.
            may_hold: &|name| {
                let declared = |table: &TableInput| !matches!(table.format, "csv" | "jsonl");
                rows && names.contains(name) && tables.iter().all(declared)
            },
        };
        let ours = &mut self.header;
        let label = if allowed.members { stored_label(base, ours).cloned() } else { None };
        match same_columns(base, ours, allowed.casts, label.as_ref(), &new) {
            // A column of the dataset may be null, though it is not in the new samples.
            Ok(()) => {
                let own = std::mem::replace(&mut ours.schema, base.schema.clone());
                ours.schema.iter_mut().for_each(|field| take_classes(field, &own));
            }
            // The transforms may make the same of other columns.
            Err(e) => match packs_the_same(base, ours, allowed.transforms) {
                Ok(true) => {}
                _ => return Err(e),
            },
        }
        if let Some(label) = label
            && let Some(field) = ours.schema.iter_mut().find(|field| field.name == label.name)
        {
            *field = label;
        }
        ours.encode.clone_from(&base.encode);
        ours.classes = classes(base, &ours.classes)?;
        ours.splits = splits(&base.splits, &ours.splits)?;
        Ok(())
    }

    /// Names the shards such that their numbers follow those of the shards named `taken`.
    pub(crate) fn renumber<'a>(&mut self, taken: impl Iterator<Item = &'a str>) {
        let mut numbers = ShardNumbers::default();
        taken.for_each(|name| numbers.take(name));
        for shard in &mut self.shards {
            let stem = shard.split.as_ref().unwrap_or(&self.header.name);
            shard.name = format!("{stem}-{:06}", numbers.next(stem));
            numbers.take(&shard.name);
        }
    }

    /// Takes these classes and splits, and returns those before.
    pub(crate) fn take_lists(&mut self, classes: Vec<String>, splits: Vec<String>) -> (Vec<String>, Vec<String>) {
        let before = std::mem::replace(&mut self.header.classes, classes);
        (before, std::mem::replace(&mut self.header.splits, splits))
    }

    /// The number of shards.
    pub(crate) fn shard_count(&self) -> usize {
        self.shards.len()
    }

    /// The names of its shards.
    pub(crate) fn shard_names(&self) -> impl Iterator<Item = &str> {
        self.shards.iter().map(|shard| shard.name.as_str())
    }

    /// The logical digest that the plan would be stored with.
    pub(crate) fn digest(&self) -> Result<Digest> {
        self.write(std::io::sink()).map(|(digest, _)| digest)
    }

    /// The keys of its samples, but for rows whose input has keys of its own.
    pub(crate) fn keys(&self) -> impl Iterator<Item = PlannedKey> {
        self.order.iter().filter_map(|item| {
            let sample = self.listing.sample(item.sample as usize)?;
            let rows = sample.table().map(|_| item.from..item.from + u64::from(item.count));
            // Rows may have keys of their own, which are known when they are read.
            let named =
                sample.table().is_some_and(|table| table.schema.column_with_name(packhorse_core::KEY).is_some());
            // As entries of plans have it.
            let own = || sample.key().trim_end_matches('/').to_owned();
            let key = self.short.get(&item.sample).cloned().unwrap_or_else(own);
            (!named).then_some(PlannedKey { key, rows })
        })
    }
}

/// The key of a planned sample, or of rows of one input with keys made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlannedKey {
    pub(crate) key: String,
    pub(crate) rows: Option<Range<u64>>,
}

/// The columns that each table has.
fn shared_columns(tables: &[TableInput]) -> BTreeSet<&str> {
    fn of(table: &TableInput) -> BTreeSet<&str> {
        table.schema.fields().iter().map(|field| field.name().as_str()).collect()
    }
    let mut tables = tables.iter();
    let first = tables.next().map(of).unwrap_or_default();
    tables.fold(first, |shared, table| &shared & &of(table))
}

/// What the plan tells of the columns of the new samples.
struct NewColumns<'a> {
    /// Whether the samples may lack a column.
    may_lack: &'a dyn Fn(&str) -> bool,
    /// Whether a column that may be null may have a value in each sample.
    may_hold: &'a dyn Fn(&str) -> bool,
}

/// Whether `transforms` make the same columns of the inputs of both plans: each column that both have is the same in both, or is not
/// what the output is made of.
fn packs_the_same(base: &PlanHeader, new: &PlanHeader, transforms: &[Box<dyn Transform>]) -> Result<bool> {
    let (mut there, mut own) = (FieldRecord::schema(&base.schema)?, FieldRecord::schema(&new.schema)?);
    let is_same = |a: &Schema, b: &Schema, name: &str| a.field_with_name(name).ok() == b.field_with_name(name).ok();
    let both = |field: &&Arc<Field>| own.field_with_name(field.name()).is_ok();
    let mut same = there.fields().iter().filter(both).all(|field| is_same(&there, &own, field.name()));
    for transform in transforms {
        let sources = (transform.only_source(&there), transform.only_source(&own));
        if let (Some(one), Some(other)) = sources {
            same = one == other && is_same(&there, &own, &one);
        }
        (there, own) = (transform.schema(&there)?, transform.schema(&own)?);
    }
    Ok(same && there == own)
}

/// The field `cls` of the new samples, where it has numbers in one of both and members with these numbers in the other:
/// shards with labels that are packed again.
fn stored_label<'a>(base: &PlanHeader, new: &'a PlanHeader) -> Option<&'a FieldRecord> {
    fn label(header: &PlanHeader) -> Option<&FieldRecord> {
        header.schema.iter().find(|field| field.name == "cls").filter(|_| !header.classes.is_empty())
    }
    let (there, own) = (label(base)?, label(new)?);
    let is = |field: &FieldRecord, data_type: DataType| field.data_type == data_type.to_string();
    let either = |one: &FieldRecord, two: &FieldRecord| is(one, LABEL) && is(two, DataType::BinaryView);
    (either(there, own) || either(own, there)).then_some(own)
}

fn same_columns(
    base: &PlanHeader,
    new: &PlanHeader,
    casts: &Casts,
    label: Option<&FieldRecord>,
    columns: &NewColumns<'_>,
) -> Result<()> {
    let error = |what: String| Error::config(what).with_code(Code::ColumnsDiffer);
    let refused =
        |what| Err(error(what).hint(format!("{SETTINGS}, or pack the new samples into a dataset of their own")));
    let names: HashSet<&str> = base.schema.iter().map(|field| field.name.as_str()).collect();
    if let Some(more) = new.schema.iter().find(|field| !names.contains(field.name.as_str())) {
        let what = format!("the new samples have the field {}, which the dataset lacks", more.name);
        return Err(error(what)
            .hint("pack the dataset's folder and the new inputs together into a new folder, with `fill-missing`"));
    }
    for field in &base.schema {
        let Some(own) = new.schema.iter().find(|own| own.name == field.name) else {
            if field.nullable && (casts.drops(&field.name) || (columns.may_lack)(&field.name)) {
                continue;
            }
            let lacks = format!("the dataset has the field {}, which the new samples lack", field.name);
            return match field.nullable {
                true => Err(error(lacks).hint("pass `fill-missing` to have nulls there")),
                false => refused(lacks),
            };
        };
        let names = |field: &FieldRecord| class_names(field.metadata.get(HUGGINGFACE));
        if let (Some(there), Some(new)) = (names(field), names(own))
            && !there.starts_with(&new)
            && !new.starts_with(&there)
        {
            let message = format!(
                "the field {} has the classes {} in the dataset and {} in the new samples, so one number would name two classes",
                field.name,
                there.join(", "),
                new.join(", ")
            );
            return Err(error(message));
        }
        // What else another library calls a column does not change its values, nor does the zone that times are shown in.
        let known = |field: &FieldRecord| {
            // The classes of labels are compared as lists, which may grow.
            let is_listed = |name: &str| name == HUGGINGFACE || (name == "class_names" && field.name == "cls");
            // The width of NumPy text does not matter.
            let is_width = |(name, value): &(&String, &String)| *name == NUMPY && value.starts_with("<U");
            let own = field.metadata.iter().filter(|(name, _)| !is_listed(name)).filter(|own| !is_width(own));
            let without_zone = |value: &str| value.split_once("tz=").map_or(value, |(kind, _)| kind).to_owned();
            own.map(|(name, value)| (name.clone(), if name == LOGICAL { without_zone(value) } else { value.clone() }))
                .collect::<Vec<_>>()
        };
        // Text may be JSON without that being known.
        let is_json = |(name, value): &(String, String)| name == LOGICAL && value == "json";
        let (there, mut new) = (known(field), known(own));
        if !there.iter().any(is_json) {
            new.retain(|note| !is_json(note));
        }
        let differs = own.data_type != field.data_type || new != there;
        if differs && label != Some(own) && !is_cast(own, field, casts)? {
            let types = |field: &FieldRecord| match field.metadata.is_empty() {
                true => field.data_type.clone(),
                false => format!("{} {:?}", field.data_type, field.metadata),
            };
            let (there, new) = (types(field), types(own));
            let what = format!("the field {} is {there} in the dataset and {new} in the new samples", field.name);
            let hint = format!(
                "{SETTINGS}, or pack the new samples into a dataset of the same format, if need be with `cast`, and append that"
            );
            let error = error(what).hint(hint);
            return Err(match given_type(field) {
                Some(kind) => error.hint(format!("in CSV and JSON lines `schema={}:{kind}` says the type", own.name)),
                None => error,
            });
        }
        if own.nullable && !field.nullable && !(columns.may_hold)(&own.name) {
            let message = format!(
                "the field {} is missing in some of the new samples, and each sample of the dataset has it",
                own.name
            );
            let again = "or pack all inputs again into a new dataset, where it may be missing";
            return Err(error(message).hint(format!("leave those samples out, {again}")));
        }
    }
    let columns = |header: &PlanHeader| -> Vec<(String, String, u32)> {
        header.encode.iter().map(|codec| (codec.field.clone(), codec.format.clone(), codec.revision)).collect()
    };
    let known = columns(base);
    // A field that the new samples lack has no encoding there.
    match columns(new).iter().all(|column| known.contains(column)) {
        true => Ok(()),
        false => refused("the new samples would be stored in other encodings".to_owned()),
    }
}

/// The type of a field as `schema` names it for tables whose text does not tell it.
fn given_type(field: &FieldRecord) -> Option<String> {
    let names = [("Boolean", "bool"), ("Int64", "int64"), ("Float64", "float64"), ("Utf8View", "text")];
    let (_, name) = names.into_iter().find(|(known, _)| *known == field.data_type && field.metadata.is_empty())?;
    Some(format!("{name}{}", if field.nullable { "?" } else { "" }))
}

/// Takes the list of classes of the same field of the new samples where it goes on with that of the dataset.
fn take_classes(field: &mut FieldRecord, new: &[FieldRecord]) {
    let feature = new.iter().find(|own| own.name == field.name).and_then(|own| own.metadata.get(HUGGINGFACE));
    let (there, own) = (class_names(field.metadata.get(HUGGINGFACE)), class_names(feature));
    if let (Some(there), Some(own), Some(feature)) = (there, own, feature)
        && own.starts_with(&there)
        && own.len() > there.len()
    {
        field.metadata.insert(HUGGINGFACE.to_owned(), feature.clone());
    }
}

/// Whether `casts` make the type of `own` that of `field`.
fn is_cast(own: &FieldRecord, field: &FieldRecord, casts: &Casts) -> Result<bool> {
    if casts.get(&own.name).is_none() {
        return Ok(false);
    }
    let schema = FieldRecord::schema(&[own.clone(), field.clone()])?;
    let cast = casts.field(schema.field(0));
    let wanted = schema.field(1);
    let notes = |field: &Field| (numpy_type(field).map(str::to_owned), field.metadata().get(LOGICAL).cloned());
    Ok(cast.is_ok_and(|cast| same_type(&cast, wanted) && notes(&cast) == notes(wanted)))
}

/// The class list of the dataset, or one that begins with it.
fn classes(base: &PlanHeader, new: &[String]) -> Result<Vec<String>> {
    let labelled = base.schema.iter().any(|field| field.name == "cls");
    let bare = labelled && base.classes.is_empty() != new.is_empty();
    if base.classes.starts_with(new) && !bare {
        return Ok(base.classes.clone());
    }
    if new.starts_with(&base.classes) && !bare {
        return Ok(new.to_vec());
    }
    let list = |list: &[String]| if list.is_empty() { "no class list".to_owned() } else { list.join(", ") };
    let message = format!(
        "the classes of the dataset are [{}] and those of the new samples [{}], so one number would name two classes; label \
         them by the dataset's list (`classes-from`), or by a list that begins with it (`classes`)",
        list(&base.classes),
        list(new)
    );
    Err(Error::config(message))
}

fn splits(base: &[String], new: &[String]) -> Result<Vec<String>> {
    match (base.is_empty(), new.is_empty()) {
        (true, true) => Ok(Vec::new()),
        (false, false) => {
            let more = new.iter().filter(|name| !base.contains(name));
            Ok(base.iter().chain(more).cloned().collect())
        }
        (true, false) => Err(Error::config("the dataset has no splits, and the new samples have; give `split=none`")),
        (false, true) => {
            let message = format!(
                "the dataset has the splits {}; say with `split` which one each new sample belongs to",
                base.join(", ")
            );
            Err(Error::config(message))
        }
    }
}
