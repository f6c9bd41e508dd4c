//! Separates the documents of one sample: cumulative lengths, position ids, segment ids.
//!
//! All functions cover the first `tokens` tokens of a sample, its inputs: tokens of segments beyond that (the extra
//! token) are ignored, and missing tokens are padding.

use crate::Segment;

/// Appends the cumulative lengths for variable-length attention kernels: 0, the end of each segment, and `tokens` if
/// there is padding, which is then a segment of its own. They are strictly increasing.
pub fn cu_seqlens(segments: &[Segment], tokens: u32, out: &mut Vec<i32>) {
    out.push(0);
    let mut end = 0;
    for segment in cut(segments, tokens as usize) {
        end += segment as i32;
        out.push(end);
    }
    if end < tokens as i32 {
        out.push(tokens as i32);
    }
}

/// Writes the position of each token in its segment, from 0. Padding counts from 0 as well.
pub fn position_ids(segments: &[Segment], out: &mut [i32]) {
    let mut rest = &mut *out;
    for segment in cut(segments, rest.len()) {
        let (these, others) = std::mem::take(&mut rest).split_at_mut(segment);
        count(these);
        rest = others;
    }
    count(rest);
}

/// Writes the number of each token's segment, from 0; -1 for padding.
pub fn segment_ids(segments: &[Segment], out: &mut [i32]) {
    let mut rest = &mut *out;
    for (segment, number) in cut(segments, rest.len()).zip(0..) {
        let (these, others) = std::mem::take(&mut rest).split_at_mut(segment);
        these.fill(number);
        rest = others;
    }
    rest.fill(-1);
}

/// The lengths of the non-empty segments, cut to `tokens` in total.
fn cut(segments: &[Segment], tokens: usize) -> impl Iterator<Item = usize> {
    let lengths = segments.iter().map(|segment| segment.length as usize).filter(|length| *length > 0);
    lengths.scan(tokens, |left, length| {
        let length = length.min(*left);
        *left -= length;
        (length > 0).then_some(length)
    })
}

fn count(out: &mut [i32]) {
    for (place, number) in out.iter_mut().zip(0..) {
        *place = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments(lengths: &[u32]) -> Vec<Segment> {
        lengths.iter().map(|&length| Segment { dataset: 0, sequence: 1, offset: 5, length }).collect()
    }

    fn all(lengths: &[u32], tokens: u32) -> (Vec<i32>, Vec<i32>, Vec<i32>) {
        let (mut ends, mut positions, mut numbers) = (Vec::new(), vec![9; tokens as usize], vec![9; tokens as usize]);
        cu_seqlens(&segments(lengths), tokens, &mut ends);
        position_ids(&segments(lengths), &mut positions);
        segment_ids(&segments(lengths), &mut numbers);
        (ends, positions, numbers)
    }

    #[test]
    fn full_short_and_over() {
        let whole = (vec![0, 2, 5], vec![0, 1, 0, 1, 2], vec![0, 0, 1, 1, 1]);
        assert_eq!(all(&[2, 3], 5), whole);
        assert_eq!(all(&[2, 3, 1], 5), whole);
        assert_eq!(all(&[2, 4], 5), whole);
        assert_eq!(all(&[2], 4), (vec![0, 2, 4], vec![0, 1, 0, 1], vec![0, 0, -1, -1]));
        assert_eq!(all(&[], 2), (vec![0, 2], vec![0, 1], vec![-1, -1]));
        assert_eq!(all(&[2, 0, 2], 4).0, [0, 2, 4]);
        assert_eq!(all(&[3], 0), (vec![0], vec![], vec![]));
    }
}
