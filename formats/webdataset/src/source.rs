//! The source: samples of tar shards.

use crate::tar_reader::{Ending, TarMember, TarReader};
use arrow_array::builder::{BinaryViewBuilder, StringViewBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use packhorse_core::{
    ArchiveMember, Blocks, DataType, Error, Extent, Field, Input, KEY, Limits, Result, Rows, Schema, Source, Table,
    TableInfo, blocks, split_name,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// A block of rows is handed out when it holds this many bytes.
const BLOCK_BYTES: usize = 8 << 20;

pub(crate) struct TarSource {
    pub(crate) limits: Limits,
}

impl Source for TarSource {
    fn lists(&self) -> bool {
        true
    }

    fn list(&self, input: &dyn Input, each: &mut dyn FnMut(ArchiveMember<'_>) -> Result<()>) -> Result<()> {
        let mut walk = TarReader::new(input, self.limits)?;
        while let Some(member) = walk.next().map_err(|e| e.in_input(input.name()))? {
            if member.is_passed_over() {
                continue;
            }
            walk.pass(&member).map_err(|e| e.in_input(input.name()).in_sample(member.name.escape_ascii()))?;
            let extent = match member.is_regular() {
                true => Ok(Extent { offset: member.data, len: member.size }),
                false => Err(Error::content(unsupported_member(&member)).in_input(input.name())),
            };
            each(ArchiveMember { name: &member.name, extent })?;
        }
        check_ending(&walk).map_err(|e| e.in_input(input.name()))
    }

    fn open<'a>(&self, input: Arc<dyn Input + 'a>) -> Result<Box<dyn Table + 'a>> {
        Ok(Box::new(Tar { input, limits: self.limits }))
    }
}

/// An open tar.
struct Tar<'a> {
    input: Arc<dyn Input + 'a>,
    limits: Limits,
}

impl Table for Tar<'_> {
    fn info(&self) -> Result<TableInfo> {
        Err(Error::unsupported("its fields are ranges of bytes").in_input(self.input.name()))
    }

    fn rows(&self, items: Range<u64>) -> Result<Blocks<'_>> {
        let walk = TarReader::new(&*self.input, self.limits)?;
        let mut grouping = Grouping { walk, next: None, sample: 0 };
        Ok(blocks(self.input.name(), move || grouping.block(&items)))
    }
}

/// The error for a member that is not a regular file.
pub(crate) fn unsupported_member(member: &TarMember) -> String {
    let kind = match member.kind {
        _ if member.sparse => {
            return "is a sparse file in the tar, whose holes are not stored; write the tar again without sparse files"
                .to_owned();
        }
        b'1' => "a hard link",
        b'2' => "a symbolic link",
        b'3' | b'4' => "a device",
        b'6' => "a FIFO",
        other => return format!("is a tar member of type {}, which holds no field", other.escape_ascii()),
    };
    format!("is {kind} in the tar, and only regular files hold fields; pack the files themselves")
}

pub(crate) fn check_ending(walk: &TarReader<'_>) -> Result<()> {
    match walk.ending {
        Some(Ending::Bare(at)) => Err(Error::content(format!(
            "has no end-of-archive marker at byte {at}, so it may be cut there; write it again if you can"
        ))),
        Some(Ending::Followed(at)) => Err(Error::content(format!(
            "continues after its end-of-archive marker at byte {at}, where readers stop: tars were joined with cat"
        ))
        .hint("give the tars one by one, or write one with `tar -A`")),
        Some(Ending::Marked(_)) | None => Ok(()),
    }
}

/// Samples as WebDataset's readers group them: consecutive members of one key.
struct Grouping<'a> {
    walk: TarReader<'a>,
    /// A member that belongs to the next sample, with its key and field.
    next: Option<(String, String, TarMember)>,
    sample: u64,
}

struct Group {
    key: String,
    fields: BTreeMap<String, Vec<u8>>,
}

impl Grouping<'_> {
    /// The next samples of `items`.
    fn block(&mut self, items: &Range<u64>) -> Result<Option<Rows>> {
        let (mut groups, mut bytes) = (Vec::new(), 0);
        while bytes < BLOCK_BYTES && self.sample < items.end {
            let wanted = items.start <= self.sample;
            let Some(group) = self.next_group(wanted)? else {
                check_ending(&self.walk)?;
                break;
            };
            if wanted {
                bytes += group.fields.values().map(Vec::len).sum::<usize>();
                groups.push(group);
            }
        }
        if groups.is_empty() { Ok(None) } else { rows_of(groups).map(Some) }
    }

    /// The next sample; with `read` unset its bytes are passed over.
    fn next_group(&mut self, read: bool) -> Result<Option<Group>> {
        let Some((key, field, member)) = self.next_member()? else { return Ok(None) };
        let mut group = Group { key, fields: BTreeMap::new() };
        self.add(&mut group, field, &member, read)?;
        while let Some((key, field, member)) = self.next_member()? {
            if key != group.key {
                self.next = Some((key, field, member));
                break;
            }
            self.add(&mut group, field, &member, read)?;
        }
        self.sample += 1;
        Ok(Some(group))
    }

    fn add(&mut self, group: &mut Group, field: String, member: &TarMember, read: bool) -> Result<()> {
        let bytes = if read { self.walk.data(member)? } else { Vec::new() };
        match group.fields.insert(field, bytes) {
            None => Ok(()),
            Some(_) => Err(Error::content("has a field twice").in_sample(&group.key)),
        }
    }

    fn next_member(&mut self) -> Result<Option<(String, String, TarMember)>> {
        if let Some(next) = self.next.take() {
            return Ok(Some(next));
        }
        while let Some(member) = self.walk.next()? {
            if member.sparse {
                return Err(Error::content(unsupported_member(&member)).in_sample(member.name.escape_ascii()));
            }
            if let (true, Ok(name)) = (member.is_regular(), split_name(&member.name)) {
                return Ok(Some((name.key, name.field, member)));
            }
        }
        Ok(None)
    }
}

fn rows_of(groups: Vec<Group>) -> Result<Rows> {
    let names: BTreeSet<String> = groups.iter().flat_map(|g| g.fields.keys().cloned()).collect();
    let mut keys = StringViewBuilder::new();
    let mut columns: Vec<BinaryViewBuilder> = names.iter().map(|_| BinaryViewBuilder::new()).collect();
    for group in groups {
        keys.append_value(&group.key);
        for (name, column) in names.iter().zip(&mut columns) {
            match group.fields.get(name) {
                Some(bytes) => column
                    .try_append_value(bytes)
                    .map_err(|e| Error::new(packhorse_core::Kind::Limit, e.to_string()))?,
                None => column.append_null(),
            }
        }
    }
    let mut fields = vec![Field::new(KEY, DataType::Utf8View, false)];
    fields.extend(names.iter().map(|name| Field::new(name, DataType::BinaryView, true)));
    let mut arrays: Vec<ArrayRef> = vec![Arc::new(keys.finish())];
    arrays.extend(columns.into_iter().map(|mut c| Arc::new(c.finish()) as ArrayRef));
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(|e| Error::bug(e.to_string()))
}
