//! The conversion of rows between inputs and a shard, built from a plan's header.

use crate::block_reader::BlockReader;
use crate::inputs::Inputs;
use crate::joined_inputs::JoinedInputs;
use crate::opened_view::stored;
use crate::pack_context::PackContext;
use crate::plan::{limits, planned_limits};
use crate::{OnError, latency_probe::LatencyProbe, steps};
use packhorse_core::{FieldType, KEY, Limits, Pool, Result, SchemaRef, Sink, element_width};
use packhorse_dataset::{CodecRecord, FieldRecord, PlanHeader, PlannedView};
use packhorse_transform::{Transform, casts_of};
use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

/// The steps before and after the transforms of a plan, and the sink.
pub(crate) struct Conversion {
    before: Vec<Box<dyn Transform>>,
    /// The first step of rows of tables, if `before` does not convert to the types of the plan.
    of_rows: Option<Box<dyn Transform>>,
    pub(crate) after: Vec<Box<dyn Transform>>,
    /// The schema of rows as they are read from inputs whose fields are bytes.
    raw: SchemaRef,
    /// The schema of the rows that the sink gets.
    pub(crate) written: SchemaRef,
    pub(crate) sink: Box<dyn Sink>,
    /// The least bytes of a decoded sample.
    pub(crate) decoded: u64,
    /// The limits of single values.
    pub(crate) limits: Limits,
    /// The limits of decoded values.
    pub(crate) inner: Limits,
    /// Whether both are the plan's own, so that values over them may be skipped.
    limits_decide: bool,
    /// Whether rows are written unchanged.
    pub(crate) plain: bool,
}

/// The least bytes that each of several writers may decode.
const LEAST: u64 = 16 << 20;

impl Conversion {
    /// The conversion of a plan with this header. `rows`: whether shards start with rows of table inputs, whose keys
    /// and fields scan did not check.
    pub(crate) fn of(context: &PackContext<'_>, header: &PlanHeader, rows: bool) -> Result<Self> {
        Self::within(context, header, rows, limits(header, context.limits)?)
    }

    /// The conversion for `writers` side by side, each with its share of the limits; `None` if the share is the whole.
    /// A value refused only by the smaller limits is never skipped.
    pub(crate) fn tight(
        &self,
        context: &PackContext<'_>,
        header: &PlanHeader,
        rows: bool,
        writers: usize,
    ) -> Result<Option<Self>> {
        let part = |whole: u64| (whole / writers.max(1) as u64).max(LEAST);
        let inner =
            Limits { blob: part(self.limits.blob).max(self.decoded), ahead: part(self.limits.ahead), ..self.limits };
        match self.limits != Limits::default() && inner.blob < self.limits.blob {
            true => Self::within(context, header, rows, inner).map(Some),
            false => Ok(None),
        }
    }

    /// The conversion with the limits `inner` for decoded values.
    fn within(context: &PackContext<'_>, header: &PlanHeader, rows: bool, inner: Limits) -> Result<Self> {
        let schema = FieldRecord::schema(&header.schema)?;
        let limits = limits(header, context.limits)?;
        let limits_decide = inner == planned_limits(header)?.unwrap_or_default();
        let casts = casts_of(context.transforms);
        let before = steps::before(context.registry, header, &schema, inner, &casts)?;
        let mut after = steps::after(context.registry, header, limits)?;
        let transformed = steps::transformed_schema(schema.clone(), context.transforms)?;
        let written = steps::written_schema(&transformed, header)?;
        let sink = context.registry.get(&header.sink.format)?.sink(&header.sink.options.iter().collect())?;
        let hash = header.choices.get("long-keys").is_some_and(|how| how == "hash");
        let longest = written.fields().iter().filter(|f| f.name() != KEY).map(|f| sink.longest_key(f.name())).min();
        if let Some(longest) = longest.filter(|longest| hash && *longest < usize::MAX && rows) {
            after.push(Box::new(steps::ShortenKeys(longest, sink.written_key())));
        }
        let plain = before.is_empty() && context.transforms.is_empty() && after.is_empty();
        if let Some(check) = sink.row_check(&written).filter(|_| !plain || rows) {
            after.push(Box::new(steps::CheckRows(check)));
        }
        let decoded = decoded(&schema, header)?;
        let raw = steps::raw_schema(header, &schema);
        let of_rows = (raw == schema).then(|| steps::conform(&schema, &casts));
        Ok(Self { before, of_rows, after, raw, written, sink, decoded, limits, inner, limits_decide, plain })
    }

    /// The number of writers whose gathered rows fit into `memory`, if limits are set.
    pub(crate) fn most_writers(&self, memory: u64) -> usize {
        let bounded = self.limits != Limits::default();
        let room = memory.checked_div(self.sink.gathers(&self.written)).filter(|_| bounded);
        room.map_or(usize::MAX, |room| usize::try_from(room.max(1)).unwrap_or(usize::MAX))
    }

    /// A reader of blocks of `inputs`.
    pub(crate) fn block_reader<'a>(
        &'a self,
        context: &'a PackContext<'a>,
        header: &PlanHeader,
        inputs: Inputs<'a>,
        on_error: OnError,
    ) -> BlockReader<'a> {
        BlockReader {
            inputs,
            schema: self.raw.clone(),
            of_rows: self.of_rows.as_deref(),
            transforms: self.before.iter().chain(context.transforms).chain(&self.after).map(|t| &**t).collect(),
            decoded_from: decoded_from(header),
            registry: context.registry,
            limits: self.limits,
            limits_decide: self.limits_decide,
            inner: self.inner,
            sources: header.sources.iter().map(|s| (s.format.clone(), s.options.iter().collect())).collect(),
            selected: selected(header),
            joined: JoinedInputs::of(header),
            heavy: !context.transforms.is_empty(),
            opened: Mutex::default(),
            on_error,
            thorough: true,
            memory: Pool::default(),
            latency: LatencyProbe::default(),
        }
    }
}

/// The fields that are read of the datasets of views, by their roots.
fn selected(header: &PlanHeader) -> HashMap<u32, Vec<String>> {
    let of = |view: &PlannedView| Some((view.root, stored(view.fields.as_ref(), view.joined.as_ref())?));
    header.views.iter().filter_map(of).collect()
}

/// For each decoded column its encoded field.
fn decoded_from(header: &PlanHeader) -> HashMap<String, String> {
    let of_record = |r: &CodecRecord| r.columns.iter().map(|c| (c.name.clone(), r.field.clone())).collect::<Vec<_>>();
    header.decode.iter().flat_map(of_record).collect()
}

/// The least bytes of a decoded sample: the sum of its arrays of fixed shape.
fn decoded(schema: &SchemaRef, header: &PlanHeader) -> Result<u64> {
    let inside: HashSet<&str> = header.decode.iter().flat_map(|r| r.columns.iter().map(|c| c.name.as_str())).collect();
    let mut bytes = 0u64;
    for field in schema.fields().iter().filter(|field| inside.contains(field.name().as_str())) {
        if let FieldType::Tensor { element, shape } = FieldType::of(field)? {
            let elements = shape.iter().fold(1u64, |n, axis| n.saturating_mul(*axis as u64));
            bytes = bytes.saturating_add(elements.saturating_mul(element_width(&element).unwrap_or(1) as u64));
        }
    }
    Ok(bytes)
}
