//! Reverses the filters of chunks.

use super::inflate::{Inflater, ratio};
use super::message::FilterDescription;
use crate::shuffle::unshuffle;
use crate::{plugin, registry};
use packhorse_core::{Code, Error, Result};
use std::ops::{Deref, DerefMut};

const SHUFFLE: u16 = 2;
const FLETCHER32: u16 = 3;

/// Refuses filters that are not available, by name.
pub(crate) fn check(filters: &[FilterDescription]) -> Result<()> {
    let known = |filter: &&FilterDescription| matches!(filter.id, SHUFFLE | FLETCHER32) || ratio(filter.id).is_some();
    let Some(filter) = filters.iter().find(|filter| !known(filter)) else { return Ok(()) };
    let name = match registry::name(filter.id) {
        Some(name) => format!("{name} (filter {})", filter.id),
        None => format!("filter {} \"{}\"", filter.id, filter.name),
    };
    Err(Error::unsupported(format!("chunks compressed with {name}; {}", plugin::advice(filter.id))))
}

/// Decompresses chunks, one at a time; reuses its buffers.
pub(crate) struct Decoder {
    inflater: Inflater,
    now: Room,
    next: Room,
}

/// Decoders keep no larger buffers between chunks.
const KEPT: usize = 32 << 20;

/// A buffer of changing length, whose memory is cleared only once up to [`KEPT`] bytes.
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

    /// The room for the next chunk.
    fn kept(self) -> Self {
        if self.bytes.len() > KEPT { Self::default() } else { self }
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

    /// Reads a chunk of `stored` bytes with `read`, reverses all filters not in `mask`, and fills `out`.
    pub(crate) fn unpack(
        &mut self,
        filters: &[FilterDescription],
        mask: u32,
        stored: usize,
        read: impl FnOnce(&mut [u8]) -> Result<()>,
        out: &mut [u8],
    ) -> Result<()> {
        let mut now = std::mem::take(&mut self.now);
        now.resize(stored);
        let done = read(&mut now).and_then(|()| self.apply(filters, mask, &mut now, out));
        self.now = now.kept();
        self.next = std::mem::take(&mut self.next).kept();
        done
    }

    fn apply(&mut self, filters: &[FilterDescription], mask: u32, now: &mut Room, out: &mut [u8]) -> Result<()> {
        let used = filters.iter().enumerate().filter(|(i, _)| mask & (1 << (i % 32)) == 0);
        let used: Vec<&FilterDescription> = used.map(|(_, filter)| filter).collect();
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

    /// Reverses one filter, from `now` to `next`, which gets at most `most` bytes.
    fn step(&mut self, filter: &FilterDescription, now: &[u8], next: &mut Room, most: usize) -> Result<()> {
        if filter.id == SHUFFLE {
            next.resize(now.len());
            unshuffle(now, width_of(filter), next);
            return Ok(());
        }
        // What the filters before it made of a chunk may be much shorter than the chunk.
        let most = most.min(usize::try_from(expanded(now.len() as u64, filter.id)).unwrap_or(most));
        next.resize(most);
        let len = self.inflater.inflate(filter, now, next)?;
        next.resize(len.min(most));
        Ok(())
    }
}

/// The bytes by which a filter may have made a chunk of `len` bytes longer.
fn growth(id: u16, len: usize) -> usize {
    match id {
        SHUFFLE => 0,
        FLETCHER32 => 4,
        _ => 1024 + len / 256,
    }
}

/// Bytes per shuffled element.
fn width_of(filter: &FilterDescription) -> usize {
    filter.parameters.first().map_or(1, |width| *width as usize)
}

/// The most bytes that `stored` bytes can be before this filter.
fn expanded(stored: u64, id: u16) -> u64 {
    ratio(id).map_or(stored, |ratio| stored.saturating_mul(ratio).saturating_add(1 << 16))
}

/// The most bytes that a chunk of `stored` bytes can decompress to.
pub(crate) fn most(filters: &[FilterDescription], stored: u64) -> u64 {
    filters.iter().fold(stored, |stored, filter| expanded(stored, filter.id))
}

fn size(found: usize, wanted: usize) -> Error {
    Error::content(format!("a chunk has {found} bytes instead of {wanted}: the file is damaged"))
}

/// Checks and removes the checksum at the end of `bytes`.
fn checked(bytes: &mut Room) -> Result<()> {
    let short = || Error::content("a chunk is cut short: the file is damaged");
    let at = bytes.len().checked_sub(4).ok_or_else(short)?;
    let (data, sum) = bytes.split_at_checked(at).ok_or_else(short)?;
    let sum = sum.iter().rev().fold(0u32, |sum, byte| sum << 8 | u32::from(*byte));
    let found = fletcher32(data);
    // HDF5 before 1.6.3 swapped the bytes of each half on some machines.
    let swapped = (found & 0x00ff_00ff) << 8 | (found >> 8 & 0x00ff_00ff);
    if sum != found && sum != swapped {
        return Err(Error::content("a chunk's checksum is wrong: the file is damaged").with_code(Code::ChecksumDiffers));
    }
    bytes.resize(at);
    Ok(())
}

/// Fletcher's checksum over big-endian 16-bit words.
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
