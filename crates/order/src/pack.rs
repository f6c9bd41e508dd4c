//! Best-fit packing: whole documents are combined with little padding.
//!
//! Best-fit decreasing (D. S. Johnson, *Near-optimal bin packing algorithms*, MIT 1973; for language models Ding et
//! al., *Fewer Truncations Improve Language Modeling*, ICML 2024), in time linear in the number of documents: counting
//! sort, and a bitset over the space left in bins finds the fullest one that fits.
//!
//! The order is fixed: first the bins of one full piece, by document and offset; then the others in the order of their
//! opening, pieces longest first, ties by document. Of several bins with the same space left, the one filled last is
//! used.

use crate::array::room;
use crate::capacity::Capacities;
use crate::{Array, RandomState, shuffle};
use packhorse_core::{Error, Result};

/// An index of bins of pieces of documents. No tokens are moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackIndex {
    /// The capacity of a bin, in tokens.
    pub capacity: u32,
    /// `<i8`, bins + 1: the pieces of bin `b` are rows `bin[b]..bin[b + 1]`.
    pub bin: Array,
    /// `<i4`, rows of three: document, offset, length.
    pub piece: Array,
}

impl PackIndex {
    /// Packs documents of these `lengths` into bins of `capacity` tokens.
    ///
    /// A longer document is cut into pieces of `capacity` and a remainder; no other is cut. Empty documents are left
    /// out.
    ///
    /// Errors: a negative length, a capacity not in 1..=2^30, 2^32 pieces or more, not enough memory.
    pub fn build(lengths: &[i32], capacity: u32) -> Result<Self> {
        if capacity == 0 || capacity > 1 << 30 {
            return Err(Error::config(format!("bins of {capacity} tokens are not of 1 to 2^30")));
        }
        let count = Count::of(lengths, capacity)?;
        let sorted = sorted(lengths, capacity, &count)?;
        let (bins, opened) = assigned(&count, capacity, sorted.len())?;
        let ends = ends(&count, &bins, opened)?;
        let piece = pieces(lengths, capacity, &count, &sorted, &bins, &ends)?;
        Ok(Self { capacity, bin: Array::I64(ends), piece: Array::I32(piece) })
    }

    /// The number of bins.
    pub fn bins(&self) -> u64 {
        self.bin.len().saturating_sub(1) as u64
    }

    /// Tokens of padding.
    pub fn padding(&self) -> u64 {
        let Array::I32(numbers) = &self.piece else { return 0 };
        let tokens: u64 = numbers.as_chunks::<3>().0.iter().map(|[_, _, length]| *length as u64).sum();
        self.bins() * u64::from(self.capacity) - tokens
    }

    /// A permutation of the bins.
    pub fn shuffle(&self, seed: u32) -> Result<Array> {
        let mut order: Vec<u32> = room(self.bins(), "shuffle of the bins")?;
        order.extend(0..self.bins() as u32);
        shuffle(&mut order, &mut RandomState::new(seed));
        Ok(Array::U32(order))
    }
}

/// Pieces by length.
struct Count {
    /// Pieces that fill a bin.
    full: u64,
    /// The number of pieces of each length below the capacity.
    by_length: Vec<u32>,
}

impl Count {
    fn of(lengths: &[i32], capacity: u32) -> Result<Self> {
        if lengths.len() >= i32::MAX as usize {
            return Err(Error::unsupported(format!("{} documents are more than 31 bits count", lengths.len())));
        }
        let mut by_length = room(u64::from(capacity), "lengths")?;
        by_length.resize(capacity as usize, 0u32);
        let mut full = 0u64;
        for &length in lengths {
            let (whole, rest) = cut(length, capacity);
            full += u64::from(whole);
            if let Some(count) = by_length.get_mut(rest as usize) {
                *count += 1;
            }
        }
        if let Some(least) = lengths.iter().min().filter(|least| **least < 0) {
            return Err(Error::content(format!("a document has a length of {least} tokens: verify the .idx file")));
        }
        if let Some(empty) = by_length.first_mut() {
            *empty = 0;
        }
        if full + lengths.len() as u64 > u64::from(u32::MAX) {
            return Err(Error::unsupported("more than 2^32 pieces: raise the capacity"));
        }
        Ok(Self { full, by_length })
    }

    /// Lengths, longest first, with the number of pieces of each.
    fn falling(&self) -> impl Iterator<Item = (u32, u32)> {
        let lengths = 0..self.by_length.len() as u32;
        lengths.zip(&self.by_length).rev().filter(|(_, count)| **count > 0).map(|(length, count)| (length, *count))
    }
}

/// Full pieces and the remainder. Most documents are short, so this avoids most divisions.
#[inline]
fn cut(length: i32, capacity: u32) -> (u32, u32) {
    let length = length.max(0) as u32;
    if length < capacity { (0, length) } else { (length / capacity, length % capacity) }
}

/// The documents that have a remainder, longest remainder first, ties in order.
fn sorted(lengths: &[i32], capacity: u32, count: &Count) -> Result<Vec<u32>> {
    let mut places = count.by_length.clone();
    let mut total = 0u32;
    for place in places.iter_mut().rev() {
        total += std::mem::replace(place, total);
    }
    let mut sorted = room(u64::from(total), "sorted documents")?;
    sorted.resize(total as usize, 0);
    for (document, &length) in (0u32..).zip(lengths) {
        let (_, rest) = cut(length, capacity);
        if rest == 0 {
            continue;
        }
        let Some(place) = places.get_mut(rest as usize) else { continue };
        if let Some(slot) = sorted.get_mut(*place as usize) {
            *slot = document;
        }
        *place += 1;
    }
    Ok(sorted)
}

/// The bin of each piece in sorted order, numbered without the bins of one full piece; and the number of such bins.
fn assigned(count: &Count, capacity: u32, pieces: usize) -> Result<(Vec<u32>, u32)> {
    let mut bins = room(pieces as u64, "bins of the pieces")?;
    let mut open = Capacities::new(capacity, pieces as u64)?;
    for (length, count) in count.falling() {
        for _ in 0..count {
            bins.push(open.put(length));
        }
    }
    Ok((bins, open.opened()))
}

/// The end of the pieces of each bin, preceded by 0.
fn ends(count: &Count, bins: &[u32], opened: u32) -> Result<Vec<i64>> {
    let mut ends: Vec<i64> = room(count.full + u64::from(opened) + 1, "bins")?;
    ends.extend(0..=count.full as i64);
    let first = ends.len();
    ends.resize(first + opened as usize, 0);
    let mut sizes = ends.split_off(first);
    for &bin in bins {
        if let Some(size) = sizes.get_mut(bin as usize) {
            *size += 1;
        }
    }
    let mut end = count.full as i64;
    ends.extend(sizes.iter().map(|size| {
        end += size;
        end
    }));
    Ok(ends)
}

/// Document, offset and length of each piece, bin by bin.
fn pieces(
    lengths: &[i32],
    capacity: u32,
    count: &Count,
    sorted: &[u32],
    bins: &[u32],
    ends: &[i64],
) -> Result<Vec<i32>> {
    let full = count.full as usize;
    let mut rows: Vec<[i32; 3]> = room((full + sorted.len()) as u64, "pieces")?;
    if full > 0 {
        for (document, &length) in (0i32..).zip(lengths) {
            let (whole, _) = cut(length, capacity);
            rows.extend((0..whole).map(|piece| [document, (piece * capacity) as i32, capacity as i32]));
        }
    }
    rows.resize(full + sorted.len(), [0; 3]);
    // The position of the next piece of each bin.
    let mut next: Vec<u32> = room(ends.len() as u64, "bins")?;
    next.extend(ends.get(full..).unwrap_or_default().iter().map(|&end| end as u32));
    let mut pairs = sorted.iter().zip(bins);
    for (length, count) in count.falling() {
        for (&document, &bin) in pairs.by_ref().take(count as usize) {
            let Some(place) = next.get_mut(bin as usize) else { continue };
            let whole = lengths.get(document as usize).copied().unwrap_or_default();
            if let Some(row) = rows.get_mut(*place as usize) {
                *row = [document as i32, whole - length as i32, length as i32];
            }
            *place += 1;
        }
    }
    Ok(rows.into_flattened())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference implementation: sort, then try every bin.
    fn plainly(lengths: &[i32], capacity: i32) -> Vec<Vec<[i32; 3]>> {
        let (mut full, mut rest) = (Vec::new(), Vec::new());
        for (document, &length) in (0i32..).zip(lengths) {
            full.extend((0..length / capacity).map(|at| vec![[document, at * capacity, capacity]]));
            if length % capacity > 0 {
                rest.push([document, length - length % capacity, length % capacity]);
            }
        }
        rest.sort_by_key(|piece| -piece[2]);
        let mut bins: Vec<(i32, usize, Vec<[i32; 3]>)> = Vec::new();
        for (time, piece) in rest.into_iter().enumerate() {
            let fits = bins.iter_mut().filter(|bin| bin.0 >= piece[2]);
            match fits.min_by_key(|bin| (bin.0, std::cmp::Reverse(bin.1))) {
                Some(bin) => {
                    bin.0 -= piece[2];
                    bin.1 = time;
                    bin.2.push(piece);
                }
                None => bins.push((capacity - piece[2], time, vec![piece])),
            }
        }
        full.into_iter().chain(bins.into_iter().map(|bin| bin.2)).collect()
    }

    fn unpacked(index: &PackIndex) -> Vec<Vec<[i32; 3]>> {
        let (Array::I64(ends), Array::I32(numbers)) = (&index.bin, &index.piece) else { panic!() };
        let rows = numbers.as_chunks::<3>().0;
        ends.windows(2).map(|pair| rows[pair[0] as usize..pair[1] as usize].to_vec()).collect()
    }

    #[test]
    fn the_bitset_is_the_rule() {
        let mut random = RandomState::new(2);
        for case in 0..80u64 {
            let capacity = [1, 2, 7, 64, 100, 5000][case as usize % 6];
            let top = capacity * [1, 1, 2, 3][case as usize / 6 % 4] + 1;
            let lengths: Vec<i32> = (0..case * 9).map(|_| random.at_most(top) as i32).collect();
            let index = PackIndex::build(&lengths, capacity as u32).unwrap();
            assert_eq!(unpacked(&index), plainly(&lengths, capacity as i32), "{case}");
        }
    }

    #[test]
    fn what_can_not_be_packed() {
        assert!(PackIndex::build(&[1, -1], 5).is_err());
        assert!(PackIndex::build(&[1], 0).is_err());
        assert!(PackIndex::build(&[i32::MAX; 3], 1).is_err());
        assert_eq!(PackIndex::build(&[0, 0], 5).unwrap().bins(), 0);
    }
}
