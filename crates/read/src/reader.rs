//! Random access to the samples of a dataset.

use crate::isolation::Isolation;
use crate::joined_columns::JoinedColumns;
use crate::on_error::is_of_lost;
use crate::opened::{Opened, Shards};
use crate::parallel::in_parallel;
use crate::range_reads::{self, RangeRead, Want};
use crate::reads_ahead::ReadsAhead;
use crate::requested_columns::{Column, RequestedColumns};
use crate::sample_block::{Row, SampleBlock, Span};
use crate::spans::TARGET;
use crate::table::{TableSample, Tables};
use crate::{Access, Dataset, memory};
use packhorse_core::{Code, Error, Event, Input, KEY, Kind, Members, Observer, Result, crc32c};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// How thoroughly reads are checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// Sizes of shards, the checksum of their indexes, and the checks of the formats themselves.
    #[default]
    Header,
    /// The checksum (CRC-32C) of every field, if the index has it; else the digest of the whole shard when it is first
    /// opened, if the manifest has it.
    Full,
}

/// How samples are read.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// How bytes of local shards are read.
    pub access: Access,
    /// How thoroughly reads are checked.
    pub verify: Verify,
    /// Bytes of decoded rows to cache, for formats whose samples can't be read one by one. By default a sixteenth of the
    /// memory that the process can have, but from 256 MiB to 1 GiB.
    pub rows: usize,
    /// Shards to keep open; at most half of the files that the process may open.
    pub open: usize,
    /// The maximum size of a field, in bytes.
    pub largest: u64,
    /// Whether reading and decoding keep away from rayon's global pool: set it in a process that was forked after rayon
    /// was used, since the pool's threads are not there and parallel work would wait for them without end. Parts of a
    /// batch are then decompressed one after another. Nothing that was opened before the fork can be used: open the
    /// dataset again ([`isolated`](crate::isolated)).
    pub isolated: bool,
}

impl Default for ReadOptions {
    /// Reads in ranges with gaps of 64 KiB, verified headers, 512 shards, fields of at most 2 GiB.
    fn default() -> Self {
        static ROWS: OnceLock<usize> = OnceLock::new();
        let rows = *ROWS.get_or_init(|| (memory::available() / 16).clamp(256 << 20, 1 << 30) as usize);
        let access = Access::Ranges { gap: 64 << 10 };
        Self { access, verify: Verify::Header, rows, open: 512, largest: 2 << 30, isolated: false }
    }
}

impl ReadOptions {
    /// For samples that are read once, in order: of decoded rows 64 MiB are kept.
    pub fn in_order() -> Self {
        Self { rows: 64 << 20, ..Self::default() }
    }
}

/// Reads samples of a dataset, several together. Threads share it.
pub struct Reader {
    dataset: Dataset,
    columns: RequestedColumns,
    shards: Shards,
    tables: Tables,
    joined: JoinedColumns,
    options: ReadOptions,
    isolation: Isolation,
    /// The most shards that a thread holds open beside those that stay open.
    shards_at_once: usize,
}

/// Shard, position there and number of a sample.
type Place = (u32, u64, u64);

/// Buffers that a thread reuses between batches.
#[derive(Debug, Default)]
pub struct Wants {
    samples: Vec<(u32, u64)>,
    wants: Vec<Want>,
    reads: Vec<RangeRead>,
    opened: Vec<(u32, Arc<Opened>)>,
    typed: Vec<(usize, usize, u64)>,
    places: Vec<Place>,
    /// The different shards of them.
    seen: Vec<u32>,
    /// Shard and position of each sample, if it has joined columns.
    joined: Vec<(u32, u64)>,
}

impl Reader {
    /// A reader of these fields of `dataset`.
    pub fn new(dataset: Dataset, columns: Vec<Column>, options: ReadOptions) -> Self {
        Self::with_opener(dataset, RequestedColumns::new(columns), options, None, None)
    }

    /// A reader whose shards are opened by `opener`, a cache, and whose samples come in runs of `run` neighbours.
    pub(crate) fn with_opener(
        dataset: Dataset,
        columns: RequestedColumns,
        options: ReadOptions,
        opener: Option<crate::opened::Opener>,
        run: Option<u64>,
    ) -> Self {
        let shards = Shards::new(&options, opener);
        let tables = Tables::new(options.rows, run);
        let joined = JoinedColumns::new(&dataset, &columns, options.rows / 4);
        let isolation = Isolation::new(options.isolated);
        let shards_at_once = shards.least;
        Self { dataset, columns, shards, tables, joined, options, isolation, shards_at_once }
    }

    /// The same for all samples of the shards; `None` if these are its samples.
    pub(crate) fn of_whole_shards(&self) -> Result<Option<Self>> {
        let whole = self.dataset.of_whole_shards()?;
        Ok(whole.map(|whole| Self::new(whole, self.columns.to_vec(), self.options.clone())))
    }

    /// The dataset.
    pub(crate) fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// The file of a shard.
    pub(crate) fn input(&self, shard: u32) -> Result<Arc<dyn Input>> {
        self.shards.get(&self.dataset, shard).map(|opened| Arc::clone(&opened.input))
    }

    /// Whether a shard is open.
    pub(crate) fn has_open(&self, shard: u32) -> bool {
        self.shards.find(shard).is_some()
    }

    /// Whether the index of a shard says that a sample lacks a requested column. `false` with joined columns.
    pub(crate) fn knows_lack(&self, shard: u32, at: u64, column: usize) -> bool {
        let opened = if self.joined.any() { None } else { self.shards.get(&self.dataset, shard).ok() };
        let (Some(opened), Some(Column(names))) = (opened, self.columns.get(column)) else { return false };
        let has =
            |members: &Members| members.of(at as usize).any(|member| names.iter().any(|name| name == member.field));
        opened.members().is_some_and(|members| !has(members))
    }

    /// Whether the first shard is a file of this machine's file systems, and these fields are half of it or more. Of typed rows they must be all.
    pub(crate) fn takes_half_of_files(&self) -> bool {
        let first = self.dataset.runs().first().and_then(|run| self.shards.get(&self.dataset, run.shard).ok());
        let Some(opened) = first.filter(|opened| opened.input.local_path().is_some()) else { return false };
        let wanted = |field: &str| self.columns.has(field);
        match opened.members() {
            Some(members) => {
                let all = (0..members.samples().min(LOOKED_AT)).flat_map(|sample| members.of(sample));
                let (half, bytes) = all.fold((0, 0), |(half, bytes), member| {
                    (half + if self.columns.reads(member.field) { 2 * member.len } else { 0 }, bytes + member.len)
                });
                half >= bytes
            }
            None => self.dataset.schema().fields().iter().all(|field| field.name() == KEY || wanted(field.name())),
        }
    }

    /// Reads the samples with these numbers into `out`. The error of a sample, or of a shard that is missing or damaged, is the
    /// [fault](SampleBlock::fault) of its rows.
    ///
    /// Errors: a number past the end (kind `Config`); a shard that can't be read now (kind `Environment`) or that changed.
    pub fn read(
        &self,
        numbers: impl Iterator<Item = u64> + Send,
        wants: &mut Wants,
        out: &mut SampleBlock,
    ) -> Result<()> {
        self.isolation.run(|| self.read_numbers(numbers, wants, out))
    }

    /// The same on this thread.
    pub(crate) fn read_numbers(
        &self,
        numbers: impl Iterator<Item = u64>,
        wants: &mut Wants,
        out: &mut SampleBlock,
    ) -> Result<()> {
        wants.samples.clear();
        for number in numbers {
            let place = self.dataset.find(number);
            wants.samples.push(place.ok_or_else(|| Error::config(format!("there is no sample {number}")))?);
        }
        let samples = std::mem::take(&mut wants.samples);
        let read = self.read_places(samples.iter().copied(), wants, out);
        wants.samples = samples;
        read
    }

    /// Reads samples by their runs and positions, and tells `observer` once of a cache that is too small.
    pub(crate) fn read_watched(
        &self,
        places: impl Iterator<Item = (u32, u64)>,
        wants: &mut Wants,
        out: &mut SampleBlock,
        observer: &dyn Observer,
    ) -> Result<()> {
        self.read_places(places, wants, out)?;
        if let Some(advice) = self.tables.advice() {
            observer.event(&Event::Warning(&advice));
        }
        Ok(())
    }

    /// Reads samples by their runs and positions.
    pub(crate) fn read_places(
        &self,
        places: impl Iterator<Item = (u32, u64)>,
        wants: &mut Wants,
        out: &mut SampleBlock,
    ) -> Result<()> {
        out.clear(self.columns.len());
        wants.joined.clear();
        let mut found = std::mem::take(&mut wants.places);
        found.clear();
        for (run, at) in places {
            found.push(self.dataset.sample(run, at)?);
        }
        let mut rest = &found[..];
        let mut read = Ok(());
        while read.is_ok() && !rest.is_empty() {
            let (these, others) = rest.split_at(self.few_shards(rest, wants));
            read = self.read_some(these, wants, out);
            wants.opened.clear();
            rest = others;
        }
        wants.places = found;
        out.end_keys(out.rows.len());
        out.faults.sort_by_key(|(row, _)| *row);
        match self.joined.any() {
            true => read.and_then(|()| self.joined.read(&wants.joined, out)),
            false => read,
        }
    }

    /// How many of `places` lie in so few shards that all of them can be open.
    fn few_shards(&self, places: &[Place], wants: &mut Wants) -> usize {
        let most = self.shards_at_once;
        if self.dataset.shards().len() <= most {
            return places.len();
        }
        let seen = &mut wants.seen;
        seen.clear();
        let fits = |place: &&Place| {
            let known = seen.contains(&place.0);
            if !known {
                seen.push(place.0);
            }
            known || seen.len() <= most
        };
        places.iter().take_while(fits).count()
    }

    /// Appends the samples at `places`, whose shards may all be open at once.
    fn read_some(&self, places: &[Place], wants: &mut Wants, out: &mut SampleBlock) -> Result<()> {
        wants.wants.clear();
        wants.typed.clear();
        self.open_together(places, wants)?;
        let read = places.iter().try_for_each(|&(shard, at, number)| {
            out.numbers.push(number);
            if self.joined.any() {
                wants.joined.push((shard, at));
            }
            match self.opened(shard, wants) {
                Ok(opened) => self.want(opened, at, wants, out),
                Err(error) if is_of_lost(error.kind()) => {
                    out.faults.push((out.rows.len(), error));
                    out.push_row(Row::None);
                    Ok(())
                }
                Err(error) => Err(error),
            }
        });
        read.and_then(|()| self.fetch(wants, out)).and_then(|()| self.typed(wants, out))
    }

    /// Opens the shards that are not open, several at once: over a network each takes round trips. A lost or damaged one is
    /// the fault of its samples, where it is wanted; after another error no more are opened. A forked process opens them one
    /// after another there.
    fn open_together(&self, places: &[Place], wants: &mut Wants) -> Result<()> {
        let mut closed = Vec::new();
        for places in places.chunk_by(|one, next| one.0 == next.0) {
            let Some((shard, ..)) = places.first() else { continue };
            if closed.contains(shard) || wants.opened.iter().any(|(known, _)| known == shard) {
                continue;
            }
            match self.shards.find(*shard) {
                Some(opened) => wants.opened.push((*shard, opened)),
                None => closed.push(*shard),
            }
        }
        if closed.len() < 2 || self.options.isolated {
            return Ok(());
        }
        let opened = Mutex::new(Vec::new());
        let open = |at: usize| {
            let Some(number) = closed.get(at) else { return Ok(()) };
            match self.shards.get(&self.dataset, *number) {
                Ok(shard) => opened.lock().unwrap_or_else(PoisonError::into_inner).push((*number, shard)),
                Err(error) if is_of_lost(error.kind()) => {}
                Err(error) => return Err(error),
            }
            Ok(())
        };
        let done = in_parallel(closed.len(), OPENED_AT_ONCE, open);
        wants.opened.append(&mut opened.into_inner().unwrap_or_else(PoisonError::into_inner));
        done
    }

    /// The index in `wants.opened` of a shard; opens it if needed.
    fn opened(&self, shard: u32, wants: &mut Wants) -> Result<usize> {
        // Neighbours mostly share a shard, and a block has few shards.
        if let Some(found) = wants.opened.iter().rposition(|(known, _)| *known == shard) {
            return Ok(found);
        }
        let opened = self.shards.get(&self.dataset, shard)?;
        wants.opened.push((shard, opened));
        Ok(wants.opened.len() - 1)
    }

    /// Collects the ranges of sample `at` of an open shard.
    fn want(&self, shard: usize, at: u64, wants: &mut Wants, out: &mut SampleBlock) -> Result<()> {
        let row = out.rows.len();
        let Some((_, opened)) = wants.opened.get(shard) else { return Err(Error::bug("a shard that was not opened")) };
        let Some(members) = opened.members() else {
            out.push_row(Row::Typed { piece: usize::MAX, row: 0 });
            wants.typed.push((shard, row, at));
            return Ok(());
        };
        let first = out.spans.len();
        out.push_row(Row::Bytes);
        let sample = usize::try_from(at).unwrap_or(usize::MAX);
        out.end_keys(row);
        out.keys.push_str(members.key(sample).unwrap_or_default());
        out.key_ends.push(out.keys.len());
        let checks = self.options.verify == Verify::Full && opened.checksums;
        self.columns.members(
            || members.of(sample),
            |column, member| {
                if self.columns.present.contains(&column) {
                    if let Some(span) = out.spans.get_mut(first + column) {
                        *span = Some(Span { place: 0, start: 0, len: 0 });
                    }
                    return;
                }
                let (span, crc) = (first + column, checks.then_some(member.crc32c));
                wants.wants.push(Want { shard, start: member.offset, len: member.len, span, crc });
            },
        );
        Ok(())
    }

    /// Reads all collected ranges, merged; mapped ones need no read.
    fn fetch(&self, wants: &mut Wants, out: &mut SampleBlock) -> Result<()> {
        let Wants { wants, opened, reads, .. } = wants;
        self.refuse_large(wants, out);
        wants.sort_unstable_by_key(|want| (want.shard, want.start));
        range_reads::plan(wants, opened, self.options.access.gap(), reads, out);
        out.make_room(range_reads::room(reads).unwrap_or(usize::MAX).saturating_add(out.used))?;
        let ranges = reads.iter().filter_map(|read| Some((&*opened.get(read.shard)?.1.input, read.bytes.clone())));
        let (mut ahead, mut used) = (ReadsAhead::new(ranges), out.used);
        for reads in reads.chunk_by(|one, next| one.shard == next.shard) {
            let (Some(first), Some(last)) = (reads.first(), reads.last()) else { continue };
            let (number, shard) = opened.get(first.shard).ok_or_else(|| Error::bug("a read of no shard"))?;
            let of_shard = wants.get(first.wants.start..last.wants.end).unwrap_or_default();
            let (fname, offset) = (shard.input.name(), first.bytes.start);
            let size = || of_shard.iter().map(|want| want.len).sum::<u64>();
            let span = tracing::debug_span!(target: TARGET, "read_shard", fname, offset, size = size());
            let read = span.in_scope(|| range_reads::read(reads, &mut ahead, wants, &mut used, out));
            let Err(error) = read else { continue };
            let error = self.why(*number, error).in_input(fname);
            if !is_of_lost(error.kind()) {
                return Err(error);
            }
            let mut rows: Vec<usize> = of_shard.iter().map(|want| want.span / out.columns.max(1)).collect();
            rows.sort_unstable();
            rows.dedup();
            rows.into_iter().for_each(|row| out.lose(row, &error));
        }
        out.used = used;
        self.check(wants, opened, out);
        Ok(())
    }

    /// Removes ranges over the limit, each of which is a fault of its row.
    fn refuse_large(&self, wants: &mut Vec<Want>, out: &mut SampleBlock) {
        let largest = self.options.largest;
        wants.retain(|want| {
            if want.len > largest {
                let name = self.column_name(want.span % out.columns.max(1));
                let message = format!("{name} has {} bytes, which is over the limit of {largest}", want.len);
                let error = Error::new(Kind::Limit, message).in_field(name);
                out.faults.push((want.span / out.columns.max(1), error));
            }
            want.len <= largest
        });
    }

    /// The first name of a column.
    fn column_name(&self, column: usize) -> &str {
        self.columns.get(column).and_then(|column| column.0.first()).map_or("", String::as_str)
    }

    /// Compares checksums.
    fn check(&self, wants: &[Want], opened: &[(u32, Arc<Opened>)], out: &mut SampleBlock) {
        for want in wants {
            let (Some(crc), Some(Some(span))) = (want.crc, out.spans.get(want.span)) else { continue };
            if out.bytes_of(*span).is_none_or(|bytes| crc32c(bytes) != crc) {
                let row = want.span / out.columns.max(1);
                let name = self.column_name(want.span % out.columns.max(1));
                let message =
                    format!("{name}: the bytes are not those that were packed (CRC-32C differs); verify the shard");
                let error = Error::content(message).with_code(Code::ChecksumDiffers).in_field(name);
                let shard = opened.get(want.shard).map(|(_, shard)| shard.input.name());
                out.faults.push((row, shard.into_iter().fold(error, Error::in_input)));
            }
        }
    }

    /// Why an open shard could not be read: what opening it again says, if it can't be, or else `error`.
    fn why(&self, shard: u32, error: Error) -> Error {
        self.shards.close(shard);
        self.shards.get(&self.dataset, shard).err().unwrap_or(error)
    }

    /// Reads rows of typed values. Those of a shard that was lost since it was opened become faults.
    fn typed(&self, wants: &mut Wants, out: &mut SampleBlock) -> Result<()> {
        let before = out.key_ends.len();
        while let Err(error) = self.typed_rows(wants, out) {
            let is_of = |(number, opened): &(u32, Arc<Opened>)| {
                let name = self.dataset.shards().get(*number as usize).map(|shard| shard.name.as_str());
                error.input().is_some_and(|input| Some(input) == name || input == opened.input.name())
            };
            let may_be_lost = matches!(error.kind(), Kind::Environment | Kind::Changed | Kind::Content);
            // A dataset may have a shard twice.
            let lost: Vec<bool> = wants.opened.iter().map(is_of).collect();
            let first = lost.iter().position(|lost| *lost).filter(|_| may_be_lost && out.key_ends.len() == before);
            let Some((number, _)) = first.and_then(|first| wants.opened.get(first)) else { return Err(error) };
            let error = self.why(*number, error);
            if !is_of_lost(error.kind()) {
                return Err(error);
            }
            wants.typed.retain(|(shard, row, _)| {
                let is_lost = lost.get(*shard).copied().unwrap_or(false);
                if is_lost {
                    out.lose(*row, &error);
                }
                !is_lost
            });
        }
        Ok(())
    }

    fn typed_rows(&self, wants: &Wants, out: &mut SampleBlock) -> Result<()> {
        if wants.typed.is_empty() {
            return Ok(());
        }
        if out.rows.iter().any(|row| matches!(row, Row::Bytes)) {
            return Err(Error::unsupported("shards of different kinds in one batch"));
        }
        let mut samples = Vec::with_capacity(wants.typed.len());
        for (shard, row, at) in &wants.typed {
            let Some((number, opened)) = wants.opened.get(*shard) else { continue };
            let shard = self.dataset.shards().get(*number as usize);
            let shard = shard.ok_or_else(|| Error::bug("a shard that is not there"))?;
            samples.push(TableSample { number: *number, shard, opened, at: *at, row: *row });
        }
        self.tables.read(&samples, &self.columns, out)
    }
}

/// Shards that a batch opens at once.
const OPENED_AT_ONCE: usize = 16;

/// Samples of a shard that show what share of it some fields are.
const LOOKED_AT: usize = 1000;
