//! A shard of a view's dataset, opened to read some of its samples.

use crate::input_format::{NameRules, container, main_file, open};
use crate::inspect_rows::key_of;
use crate::opened_view::OpenedView;
use crate::seal::read_members;
use packhorse_core::{Error, Input, Limits, Members, Options, Registry, Result, Rows, Store, Table, counted};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// An opened shard.
pub(crate) struct ViewShard {
    pub(crate) path: PathBuf,
    pub(crate) content: ViewContent,
}

/// Its samples.
pub(crate) enum ViewContent {
    /// Members at known ranges; the last says whether their checksums are known.
    Members(Box<dyn Input>, Box<Members>, bool),
    /// Typed rows, without other fields than those of the view where that saves reading.
    Rows(Box<dyn Table>),
}

impl ViewShard {
    /// Opens shard `number` of the base of `opened`.
    ///
    /// Errors: `Content` for a shard that has not as many samples as the manifest says.
    pub(crate) fn open(registry: &Registry, store: &dyn Store, opened: &OpenedView, number: u32) -> Result<Self> {
        let shard = opened.shard(number)?;
        let path = main_file(registry, store, &opened.base.join(&shard.file));
        let unknown = || Error::unsupported("is of a format that this build does not read").in_input(path.display());
        let (format, compression) = container(registry, &NameRules::default(), &path).ok_or_else(unknown)?;
        let source = format.source(&Options::new(), Limits::default())?;
        let input = open(store, &path, compression)?;
        let (content, samples) = if source.lists() {
            let (members, checksums) = match read_members(store, &opened.base, &shard.name) {
                Err(e) if e.is_absent() => (Members::list(&*source, &*input)?, false),
                read => (read?, true),
            };
            let samples = members.samples() as u64;
            (ViewContent::Members(input, Box::new(members), checksums), samples)
        } else {
            let narrowed =
                opened.stored_fields().filter(|fields| !fields.is_empty()).and_then(|fields| source.narrowed(&fields));
            let table = narrowed.unwrap_or(source).open(Arc::from(input)).map_err(|e| e.in_input(path.display()))?;
            let info = table.info().map_err(|e| e.in_input(path.display()))?;
            (ViewContent::Rows(table), info.items)
        };
        match samples == shard.samples {
            true => Ok(Self { path, content }),
            false => {
                let message = format!("has {} and should have {}", counted(samples, "sample"), shard.samples);
                Err(Error::content(message).in_input(path.display()))
            }
        }
    }

    /// Calls `each` with the rows of the samples `items`, block by block. Of members nothing is called.
    pub(crate) fn rows(&self, items: Range<u64>, each: &mut dyn FnMut(Rows) -> Result<bool>) -> Result<()> {
        let ViewContent::Rows(table) = &self.content else { return Ok(()) };
        for rows in table.rows(items)? {
            if !each(rows?)? {
                break;
            }
        }
        Ok(())
    }
}

impl ViewShard {
    /// The sample of this key among the samples `items`; of rows without keys the one with this number.
    pub(crate) fn find(&self, items: Range<u64>, key: &str) -> Result<Option<u64>> {
        if let ViewContent::Members(_, members, _) = &self.content {
            return Ok(items.into_iter().find(|sample| members.key(*sample as usize) == Some(key)));
        }
        let (mut at, mut found) = (items.start, None);
        self.rows(items, &mut |rows| {
            let is_it = |row: &usize| match key_of(&rows, *row) {
                Some(own) => own == key,
                None => key.parse() == Ok(at + *row as u64),
            };
            found = (0..rows.num_rows()).find(is_it).map(|row| at + row as u64);
            at += rows.num_rows() as u64;
            Ok(found.is_none())
        })?;
        Ok(found)
    }
}
