//! What happens to a chunk on its way out of the file.

use super::inflate::{Inflater, ratio};
use super::message::Filter;
use crate::shuffle::unshuffle;
use crate::{plugin, registry};
use packhorse_core::{Error, Result};
use std::ops::{Deref, DerefMut};

const SHUFFLE: u16 = 2;
const FLETCHER32: u16 = 3;

/// Refuses filters that we do not have, by name.
pub(crate) fn check(filters: &[Filter]) -> Result<()> {
    let known = |filter: &&Filter| matches!(filter.id, SHUFFLE | FLETCHER32) || ratio(filter.id).is_some();
    let Some(filter) = filters.iter().find(|filter| !known(filter)) else { return Ok(()) };
    let name = match registry::name(filter.id) {
        Some(name) => format!("{name} (filter {})", filter.id),
        None => format!("filter {} \"{}\"", filter.id, filter.name),
    };
    Err(Error::unsupported(format!("chunks compressed with {name}; {}", plugin::advice(filter.id))))
}

/// Decompresses chunks, one at a time; its buffers are used again.
pub(crate) struct Decoder {
    inflater: Inflater,
    now: Room,
    next: Room,
}

/// Bytes whose number is another for every chunk. What is beyond stays, so that memory is cleared once.
#[derive(Default)]
struct Room {
    bytes: Vec<u8>,
    used: usize,
}

impl Room {
    fn resize(&mut self, used: usize) {
        if used > self.bytes.len() {
            self.bytes.resize(used, 0);
        }
        self.used = used;
    }
}

impl Deref for Room {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(..self.used).unwrap_or_default()
    }
}

impl DerefMut for Room {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(..self.used).unwrap_or_default()
    }
}

impl Decoder {
    pub(crate) fn new() -> Self {
        Self { inflater: Inflater::new(), now: Room::default(), next: Room::default() }
    }

    /// The chunk of `stored` bytes that `read` reads, after all filters not in `mask`, into `out`, which
    /// it fills.
    pub(crate) fn unpack(
        &mut self,
        filters: &[Filter],
        mask: u32,
        stored: usize,
        read: impl FnOnce(&mut [u8]) -> Result<()>,
        out: &mut [u8],
    ) -> Result<()> {
        let mut now = std::mem::take(&mut self.now);
        now.resize(stored);
        let done = read(&mut now).and_then(|()| self.apply(filters, mask, &mut now, out));
        self.now = now;
        done
    }

    fn apply(&mut self, filters: &[Filter], mask: u32, now: &mut Room, out: &mut [u8]) -> Result<()> {
        let used = filters.iter().enumerate().filter(|(i, _)| mask & (1 << (i % 32)) == 0);
        let used: Vec<&Filter> = used.map(|(_, filter)| filter).collect();
        for (i, filter) in used.iter().enumerate().rev() {
            match filter.id {
                FLETCHER32 => checked(now)?,
                SHUFFLE if i == 0 && now.len() == out.len() => {
                    unshuffle(now, width_of(filter), out);
                    return Ok(());
                }
                id if i == 0 && ratio(id).is_some() => {
                    let len = self.inflater.inflate(filter, now, out)?;
                    return if len == out.len() { Ok(()) } else { Err(size(len, out.len())) };
                }
                _ => {
                    let mut next = std::mem::take(&mut self.next);
                    let before: usize = used.iter().take(i).map(|filter| growth(filter.id, out.len())).sum();
                    let done = self.step(filter, now, &mut next, out.len() + before);
                    std::mem::swap(now, &mut next);
                    self.next = next;
                    done?;
                }
            }
        }
        if now.len() != out.len() {
            return Err(size(now.len(), out.len()));
        }
        out.copy_from_slice(now);
        Ok(())
    }

    /// One filter, from `now` to `next`, which will hold at most `most` bytes.
    fn step(&mut self, filter: &Filter, now: &[u8], next: &mut Room, most: usize) -> Result<()> {
        if filter.id == SHUFFLE {
            next.resize(now.len());
            unshuffle(now, width_of(filter), next);
            return Ok(());
        }
        plausible(filter.id, now.len(), most)?;
        next.resize(most);
        let len = self.inflater.inflate(filter, now, next)?;
        next.resize(len.min(most));
        Ok(())
    }
}

/// By how much a filter may have made a chunk of `len` bytes longer.
fn growth(id: u16, len: usize) -> usize {
    match id {
        SHUFFLE => 0,
        FLETCHER32 => 4,
        _ => 1024 + len / 256,
    }
}

/// Bytes of the elements that were shuffled.
fn width_of(filter: &Filter) -> usize {
    filter.parameters.first().map_or(1, |width| *width as usize)
}

/// Refuses chunks that can't become as large as they say.
pub(crate) fn plausible(id: u16, stored: usize, wanted: usize) -> Result<()> {
    match (stored as u64).saturating_mul(ratio(id).unwrap_or(1)).saturating_add(1 << 16) >= wanted as u64 {
        true => Ok(()),
        false => Err(Error::content(format!("a chunk of {stored} bytes can't hold {wanted}: the file is damaged"))),
    }
}

/// The most bytes that a chunk can become which takes up `stored` bytes.
pub(crate) fn most(filters: &[Filter], stored: u64) -> u64 {
    match filters.iter().filter_map(|filter| ratio(filter.id)).max() {
        Some(ratio) => stored.saturating_mul(ratio).saturating_add(1 << 16),
        None => stored,
    }
}

fn size(found: usize, wanted: usize) -> Error {
    Error::content(format!("a chunk holds {found} bytes where {wanted} are wanted: the file is damaged"))
}

/// Takes the checksum off the end of `bytes`.
fn checked(bytes: &mut Room) -> Result<()> {
    let short = || Error::content("a chunk is cut short: the file is damaged");
    let at = bytes.len().checked_sub(4).ok_or_else(short)?;
    let (data, sum) = bytes.split_at_checked(at).ok_or_else(short)?;
    let sum = sum.iter().rev().fold(0u32, |sum, byte| sum << 8 | u32::from(*byte));
    let found = fletcher32(data);
    // HDF5 before 1.6.3 wrote the bytes of each half the other way around on some machines.
    let swapped = (found & 0x00ff_00ff) << 8 | (found >> 8 & 0x00ff_00ff);
    if sum != found && sum != swapped {
        return Err(Error::content("a chunk's checksum is wrong: the file is damaged"));
    }
    bytes.resize(at);
    Ok(())
}

/// Fletcher's checksum over big-endian words of 16 bits.
fn fletcher32(bytes: &[u8]) -> u32 {
    let (mut first, mut second) = (0u32, 0u32);
    // 360 words keep both sums below 2^32.
    for block in bytes.chunks(720) {
        for word in block.chunks(2) {
            let high = word.first().copied().unwrap_or_default();
            let low = word.get(1).copied().unwrap_or_default();
            first += u32::from(high) << 8 | u32::from(low);
            second += first;
        }
        first = (first & 0xffff) + (first >> 16);
        second = (second & 0xffff) + (second >> 16);
    }
    first = (first & 0xffff) + (first >> 16);
    second = (second & 0xffff) + (second >> 16);
    second << 16 | first
}
