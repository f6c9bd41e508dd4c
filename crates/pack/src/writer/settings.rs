//! What a recipe says about a dataset whose samples come from a program.

use super::WriterContext;
use crate::conversion::Conversion;
use crate::kept_tables::KeptTables;
use crate::long_keys::LongKeys;
use crate::pack_context::PackContext;
use crate::plan::{LABEL, check_name, encoded};
use crate::without_inputs::note_program;
use crate::{Labels, Recipe, steps};
use packhorse_core::{CLASSES, Code, DataType, Error, Field, FieldType, KEY, Kind, Result, Schema, SchemaRef, Sink};
use packhorse_dataset::{FieldRecord, PlanHeader, SinkRecord};
use packhorse_transform::Transform;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The settings that a writer takes.
const TAKEN: [&str; 17] = [
    "to",
    "out",
    "name",
    "shard-size",
    "samples-per-shard",
    "index",
    "long-keys",
    "classes",
    "classes-from",
    "chunk",
    "filter",
    "byte-shuffle",
    "compression",
    "level",
    "row-group",
    "tensor-ext",
    "set",
];

/// The groups of settings about inputs.
const ABOUT_INPUTS: [&str; 3] = ["Inputs and dataset", "Labels and metadata", "Arrays and tables as inputs"];

/// A recipe, made ready.
pub(super) struct WriterSettings {
    pub(super) header: PlanHeader,
    /// The columns of pushed rows: the key, then the fields by name.
    pub(super) schema: SchemaRef,
    /// Checks of rows when they are pushed.
    pub(super) checks: Vec<Box<dyn Transform>>,
    /// The conversions of rows before the sink.
    pub(super) steps: Vec<Box<dyn Transform>>,
    /// The columns that the sink gets.
    pub(super) written: SchemaRef,
    pub(super) sink: Box<dyn Sink>,
}

impl WriterSettings {
    pub(super) fn of(context: &WriterContext, recipe: &Recipe, schema: &SchemaRef) -> Result<Self> {
        refuse_others(recipe)?;
        check_name(&recipe.name)?;
        let options = recipe.planning(&context.registry, None)?;
        let format = context.registry.get(&options.format)?;
        let sink = format.sink(&options.sink)?;
        let classes = classes(context, recipe, schema)?;
        let schema = sorted(schema)?;
        let encode = encoded(&context.registry, &*sink, &schema)?;
        sink.accept(&steps::encoded_schema(&schema, &encode)?)?;
        let header = PlanHeader {
            packhorse_plan: PlanHeader::VERSION,
            name: recipe.name.clone(),
            sink: SinkRecord {
                format: options.format.clone(),
                revision: format.info().revision,
                options: options.sink.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            },
            choices: choices(recipe),
            encode,
            schema: FieldRecord::of(&schema),
            classes,
            ..PlanHeader::default()
        };
        let kept = KeptTables::none();
        let Conversion { after: steps, written, sink, .. } = Conversion::of(&packing(context, &kept), &header, true)?;
        let (checks, steps): (Vec<Box<dyn Transform>>, _) = match (header.encode.is_empty(), sink.row_check(&written)) {
            (true, _) => (steps, Vec::new()),
            // Long keys may be shortened later.
            (false, Some(check)) if recipe.long_keys == LongKeys::default() => {
                (vec![Box::new(steps::CheckKeys::new(check, &written))], steps)
            }
            (false, _) => (Vec::new(), steps),
        };
        Ok(Self { header, schema, checks, steps, written, sink })
    }
}

/// The context of a plan without inputs.
fn packing<'a>(context: &'a WriterContext, kept: &'a KeptTables) -> PackContext<'a> {
    PackContext {
        registry: &context.registry,
        transforms: &[],
        store: context.store.clone(),
        limits: context.limits,
        observer: &*context.observer,
        cancel: &context.cancel,
        kept,
        moved: &[],
        quarantine: None,
    }
}

/// Refuses settings that a writer does not have, by name.
fn refuse_others(recipe: &Recipe) -> Result<()> {
    let given = recipe.given();
    if let Some((setting, _)) = given.iter().find(|(setting, _)| !TAKEN.contains(&setting.name)) {
        let name = setting.name;
        let about_inputs = ABOUT_INPUTS.contains(&setting.group) && name != "dedup";
        let error = Error::config(match about_inputs {
            true => format!("`{name}` is about inputs, and these samples come from a program; leave it out"),
            false => format!("`{name}` does not apply where samples come from a program"),
        });
        let error = error.with_code(Code::BadSetting);
        return Err(match about_inputs {
            true => error,
            false => error.hint(format!("write the dataset without it, and pack that again with `{name}`")),
        });
    }
    // Labels of a program need no folders.
    let named = recipe.classes.is_some() || recipe.classes_from.is_some();
    Recipe { labels: named.then_some(Labels::Folders), ..recipe.clone() }.check()
}

fn choices(recipe: &Recipe) -> BTreeMap<String, String> {
    let mut choices = BTreeMap::new();
    note_program(&mut choices);
    let mut say = |name: &str, value: Option<String>| value.map(|value| choices.insert(name.to_owned(), value));
    say("shard-size", recipe.shard_size.map(|size| size.0.to_string()));
    say("samples-per-shard", recipe.samples_per_shard.map(|samples| samples.to_string()));
    say("long-keys", (recipe.long_keys != Recipe::default().long_keys).then(|| recipe.long_keys.to_string()));
    choices
}

/// The class list of the recipe or of the schema.
fn classes(context: &WriterContext, recipe: &Recipe, schema: &SchemaRef) -> Result<Vec<String>> {
    let classes = match (recipe.class_list(&*context.store)?, schema.metadata().get(CLASSES)) {
        (Some(list), _) => list,
        (None, Some(text)) => serde_json::from_str(text)
            .map_err(|e| Error::config(format!("the schema's {CLASSES} is not a JSON list of names: {e}")))?,
        (None, None) => return Ok(Vec::new()),
    };
    match schema.column_with_name("cls").is_some_and(|(_, field)| *field.data_type() == LABEL) {
        true => Ok(classes),
        false => Err(Error::config(format!(
            "classes name the values of a field cls of type {LABEL}, and the schema has none"
        ))),
    }
}

/// The key first, then the fields by name.
fn sorted(schema: &SchemaRef) -> Result<SchemaRef> {
    let bad = |message: String| Error::config(message).with_code(Code::ColumnsDiffer);
    let mut fields: Vec<Field> = schema.fields().iter().map(|field| field.as_ref().clone()).collect();
    fields.sort_by(|a, b| (a.name() != KEY, a.name()).cmp(&(b.name() != KEY, b.name())));
    match fields.first_mut() {
        Some(key) if key.name() == KEY && *key.data_type() == DataType::Utf8View => key.set_nullable(false),
        _ => return Err(bad(format!("the schema of samples needs a column {KEY} of type Utf8View"))),
    }
    if fields.len() < 2 {
        return Err(bad(format!("the schema of samples has only {KEY}; add the fields of a sample")));
    }
    if fields.iter().any(|field| field.name().is_empty()) {
        return Err(bad("the schema of samples has a field without a name".to_owned()));
    }
    if let Some(name) = fields.windows(2).find_map(|pair| match pair {
        [a, b] if a.name() == b.name() => Some(a.name()),
        _ => None,
    }) {
        return Err(bad(format!("the schema of samples has two fields {name}")));
    }
    let fields = fields.into_iter().map(delivered).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(Schema::new(fields)))
}

/// The same field in the type that sources deliver: pushed arrays of other Arrow types become that.
fn delivered(field: Field) -> Result<Field> {
    let kind = FieldType::of(&field).map_err(|e| {
        let hint = "see docs/writing.md for the types of samples; dates and times are ticks of 8 bytes";
        e.with_kind(Kind::Config).remark("samples have no such values").hint(hint)
    })?;
    let kind = kind.with_views();
    let own = kind.field(field.name(), field.is_nullable());
    let same = field.clone().with_data_type(own.data_type().clone());
    if FieldType::of(&same).is_ok_and(|found| found == kind) {
        return Ok(same);
    }
    let metadata = field.metadata().iter().chain(own.metadata()).map(|(name, value)| (name.clone(), value.clone()));
    Ok(own.clone().with_metadata(metadata.collect::<HashMap<_, _>>()))
}
