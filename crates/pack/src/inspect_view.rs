//! Looks into a view: lists its samples, shows the first ones, reads one field.

use crate::head::{self, Preview};
use crate::inspect::{copy_checked, in_file};
use crate::inspect_rows::{self, Columns};
use crate::joined_table::JoinedRows;
use crate::merged_columns::shown;
use crate::opened_view::OpenedView;
use crate::view_shard::{ViewContent, ViewShard};
use packhorse_core::{Extent, Field, InputRange, Limits, Registry, Result, Store};
use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Calls a function with file, key, field and extent of a member.
type EachMember<'a> = dyn FnMut(&Path, &str, &str, Extent) -> Result<()> + 'a;

/// A function that is called with the number of a shard, the opened shard and samples of it; false ends the calls.
type EachRun<'a> = dyn FnMut(u32, &ViewShard, Range<u64>) -> Result<bool> + 'a;

impl OpenedView {
    /// Samples and fields, if the samples are typed rows; `None` if their fields are ranges of bytes, which
    /// [`members`](Self::members) lists.
    pub fn columns(&self, registry: &Registry, store: &dyn Store) -> Result<Option<Columns>> {
        let Some(first) = self.runs.first() else { return Ok(None) };
        let shard = ViewShard::open(registry, store, self, first.shard)?;
        let ViewContent::Rows(table) = &shard.content else { return Ok(None) };
        let mut columns = inspect_rows::columns_of(table.info()?);
        columns.fields.retain(|(name, _)| name == packhorse_core::KEY || self.has(name));
        if let Some(joined) = JoinedRows::open(registry, store, self)? {
            columns.fields.extend(joined.schema()?.fields().iter().map(|field| (field.name().clone(), shown(field))));
        }
        columns.samples = self.view.samples;
        Ok(Some(columns))
    }

    /// Calls `each` with the file, key, field and extent of every member of the view's samples, in their order.
    pub fn members(&self, registry: &Registry, store: &dyn Store, each: &mut EachMember<'_>) -> Result<()> {
        self.each_run(registry, store, &mut |_, shard, items| {
            let ViewContent::Members(_, members, _) = &shard.content else { return Ok(true) };
            for sample in items {
                let key = members.key(sample as usize).unwrap_or_default();
                for member in members.of(sample as usize).filter(|member| self.has(member.field)) {
                    each(&shard.path, key, member.field, Extent { offset: member.offset, len: member.len })?;
                }
            }
            Ok(true)
        })
    }

    /// The first `samples` samples, for people.
    pub fn head(&self, registry: &Registry, store: &dyn Store, samples: u64) -> Result<Vec<Preview>> {
        let (wanted, mut found) = (usize::try_from(samples).unwrap_or(usize::MAX), Vec::new());
        let joined = JoinedRows::open(registry, store, self)?;
        self.each_run(registry, store, &mut |number, shard, items| {
            let (first, before) = (items.start, found.len());
            let items = items.start..items.end.min(items.start.saturating_add((wanted - found.len()) as u64));
            match &shard.content {
                ViewContent::Members(input, members, _) => {
                    for sample in items {
                        let mut fields = Vec::new();
                        for member in members.of(sample as usize).filter(|member| self.has(member.field)) {
                            Limits::default().blob(member.len).map_err(|e| e.in_input(shard.path.display()))?;
                            let mut bytes = vec![0; member.len as usize];
                            input.read_at(member.offset, &mut bytes)?;
                            fields.push((member.field.to_owned(), head::of_bytes(registry, member.field, &bytes)));
                        }
                        let key = members.key(sample as usize).unwrap_or_default().to_owned();
                        found.push(Preview { key, fields });
                    }
                }
                ViewContent::Rows(_) => {
                    let mut number = items.start as usize;
                    shard.rows(items, &mut |rows| {
                        for row in 0..rows.num_rows() {
                            let mut preview = Preview::new(registry, &rows, row, number)?;
                            preview.fields.retain(|(name, _)| self.has(name));
                            found.push(preview);
                            number += 1;
                        }
                        Ok(true)
                    })?;
                }
            }
            for (at, preview) in (first..).zip(found.iter_mut().skip(before)) {
                if let Some(joined) = &joined {
                    preview.fields.extend(Preview::new(registry, &joined.row(number, at)?, 0, 0)?.fields);
                }
            }
            Ok(found.len() < wanted)
        })?;
        Ok(found)
    }

    /// Writes the field `name` (`KEY.FIELD`) of a sample of the view to `out`, as [`cat`](crate::cat) does. Returns whether
    /// the view has it.
    pub fn cat(&self, registry: &Registry, store: &dyn Store, name: &str, out: &mut dyn Write) -> Result<bool> {
        let mut done = false;
        let joined = JoinedRows::open(registry, store, self)?;
        let schema = joined.as_ref().map(JoinedRows::schema).transpose()?;
        let named =
            |field: &&Arc<Field>| name.strip_suffix(field.name().as_str()).is_some_and(|key| key.ends_with('.'));
        let column = schema.as_ref().and_then(|schema| schema.fields().iter().find(named));
        if let Some((joined, field)) = joined.zip(column) {
            let key = name.get(..name.len() - field.name().len() - 1).unwrap_or_default();
            self.each_run(registry, store, &mut |number, shard, items| {
                if let Some(at) = shard.find(items, key)? {
                    inspect_rows::write(registry, &joined.row(number, at)?, field, out)?;
                    done = true;
                }
                Ok(!done)
            })?;
            return Ok(done);
        }
        self.each_run(registry, store, &mut |_, shard, items| {
            match &shard.content {
                ViewContent::Members(input, members, checksums) => {
                    let wanted = items.into_iter().find_map(|sample| {
                        let field = name.strip_prefix(members.key(sample as usize)?)?.strip_prefix('.')?;
                        members.of(sample as usize).find(|member| member.field == field && self.has(field))
                    });
                    if let Some(member) = wanted {
                        let range = InputRange { input: &**input, offset: member.offset, len: member.len };
                        copy_checked(range, checksums.then_some(member.crc32c), name, out)?;
                        done = true;
                    }
                }
                ViewContent::Rows(table) => {
                    let has = |field: &str| self.has(field);
                    done = inspect_rows::cat_of(registry, &**table, items, name, &has, out)?;
                }
            }
            Ok(!done)
        })?;
        Ok(done)
    }

    /// Calls `each` with the number of a shard, the opened shard and the samples of every run, in order, as long as it returns true.
    fn each_run(&self, registry: &Registry, store: &dyn Store, each: &mut EachRun<'_>) -> Result<()> {
        let mut open: Option<(u32, ViewShard)> = None;
        for run in &self.runs {
            let shard = match open.take() {
                Some((number, shard)) if number == run.shard => shard,
                _ => ViewShard::open(registry, store, self, run.shard)?,
            };
            let (_, shard) = open.insert((run.shard, shard));
            if !each(run.shard, shard, run.first..run.first + run.len).map_err(|e| in_file(e, &shard.path))? {
                break;
            }
        }
        Ok(())
    }
}
