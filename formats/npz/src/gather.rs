//! Copies strided arrays into C order, and swaps byte orders.

use crate::dtype::Axis;

/// Elements per side of a tile, so that a tile fits into the L1 cache.
const TILE: usize = 32;

/// A dimension with its strides in bytes in the source and in the destination.
#[derive(Clone, Copy)]
struct Step {
    len: usize,
    from: usize,
    to: usize,
}

/// The size in bytes of the elements of `width` bytes along `axes`.
pub(crate) fn size(axes: &[Axis], width: usize) -> usize {
    axes.iter().fold(width, |n, axis| n.saturating_mul(axis.len))
}

/// Copies the elements of `width` bytes along `axes` of `src` into `dst` in C order. `dst` must have their
/// [`size`], and callers must have checked that no element lies past the end of `src`.
pub(crate) fn gather(src: &[u8], axes: &[Axis], width: usize, dst: &mut [u8]) {
    if dst.is_empty() {
        return;
    }
    let axes = coalesced(axes, width);
    if axes.is_empty() {
        return copy(src, 0, dst, 0, dst.len());
    }
    let mut steps = steps(&axes, width);
    match steps.last().copied() {
        Some(last) if last.from == width => {
            steps.pop();
            let run = last.len * width;
            walk(&steps, 0, 0, &mut |from, to| copy(src, from, dst, to, run));
        }
        _ => scattered(src, &steps, width, dst),
    }
}

/// Whether the elements along `axes` are contiguous in C order.
pub(crate) fn contiguous<'a>(axes: impl DoubleEndedIterator<Item = &'a Axis> + Clone, width: usize) -> bool {
    let mut stride = width;
    let mut follows = |axis: &Axis| {
        let follows = axis.len == 1 || axis.stride == stride;
        stride = stride.saturating_mul(axis.len);
        follows
    };
    axes.clone().any(|axis| axis.len == 0) || axes.rev().all(&mut follows)
}

/// The axes without those of length 1, and with contiguous neighbours merged; empty if all elements are contiguous.
fn coalesced(axes: &[Axis], width: usize) -> Vec<Axis> {
    let mut found: Vec<Axis> = Vec::with_capacity(axes.len());
    for axis in axes.iter().filter(|axis| axis.len != 1) {
        match found.last_mut() {
            Some(outer) if outer.stride == axis.stride.saturating_mul(axis.len) => {
                *outer = Axis { len: outer.len * axis.len, stride: axis.stride };
            }
            _ => found.push(*axis),
        }
    }
    match found.as_slice() {
        [one] if one.stride == width => Vec::new(),
        _ => found,
    }
}

fn steps(axes: &[Axis], width: usize) -> Vec<Step> {
    let mut to = width;
    let mut steps: Vec<Step> = Vec::with_capacity(axes.len());
    for axis in axes.iter().rev() {
        steps.push(Step { len: axis.len, from: axis.stride, to });
        to *= axis.len;
    }
    steps.reverse();
    steps
}

/// Calls `each` with the source and destination offset of every combination of entries.
fn walk(steps: &[Step], from: usize, to: usize, each: &mut impl FnMut(usize, usize)) {
    match steps.split_first() {
        None => each(from, to),
        Some((step, rest)) => {
            (0..step.len).for_each(|i| walk(rest, from + i * step.from, to + i * step.to, each));
        }
    }
}

fn copy(src: &[u8], from: usize, dst: &mut [u8], to: usize, len: usize) {
    if let (Some(src), Some(dst)) = (src.get(from..from + len), dst.get_mut(to..to + len)) {
        dst.copy_from_slice(src);
    }
}

/// Copies single elements, in tiles of the last dimension and the one with the smallest stride in `src`.
fn scattered(src: &[u8], steps: &[Step], width: usize, dst: &mut [u8]) {
    let Some((last, outer)) = steps.split_last() else { return };
    let closest = (0..outer.len()).min_by_key(|i| outer.get(*i).map(|s| s.from));
    let mut outer = outer.to_vec();
    let closest = match closest {
        Some(i) if outer.get(i).is_some_and(|s| s.from < last.from) => outer.remove(i),
        _ => Step { len: 1, from: 0, to: 0 },
    };
    walk(&outer, 0, 0, &mut |from, to| {
        let (src, dst) = (src.get(from..).unwrap_or_default(), dst.get_mut(to..).unwrap_or_default());
        match width {
            1 => tiles::<1>(src, closest, *last, dst),
            2 => tiles::<2>(src, closest, *last, dst),
            4 => tiles::<4>(src, closest, *last, dst),
            8 => tiles::<8>(src, closest, *last, dst),
            16 => tiles::<16>(src, closest, *last, dst),
            _ => each_one(src, closest, *last, width, dst),
        }
    });
}

fn tiles<const W: usize>(src: &[u8], a: Step, b: Step, dst: &mut [u8]) {
    for a0 in (0..a.len).step_by(TILE) {
        for b0 in (0..b.len).step_by(TILE) {
            let n = TILE.min(b.len - b0);
            for i in a0..a.len.min(a0 + TILE) {
                let (from, to) = (i * a.from + b0 * b.from, i * a.to + b0 * W);
                let src = src.get(from..).unwrap_or_default();
                let (row, _) = dst.get_mut(to..to + n * W).unwrap_or_default().as_chunks_mut::<W>();
                for (j, element) in row.iter_mut().enumerate() {
                    if let Some(found) = src.get(j * b.from..).and_then(<[u8]>::first_chunk) {
                        *element = *found;
                    }
                }
            }
        }
    }
}

fn each_one(src: &[u8], a: Step, b: Step, width: usize, dst: &mut [u8]) {
    walk(&[a, b], 0, 0, &mut |from, to| copy(src, from, dst, to, width));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected result, element by element.
    fn plainly(src: &[u8], axes: &[Axis], width: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let total: usize = axes.iter().map(|a| a.len).product();
        for i in 0..total {
            let (mut rest, mut at) = (i, 0);
            for axis in axes.iter().rev() {
                at += rest % axis.len * axis.stride;
                rest /= axis.len;
            }
            out.extend_from_slice(&src[at..at + width]);
        }
        out
    }

    #[test]
    fn any_order_becomes_c_order() {
        let src: Vec<u8> = (0..200_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for width in [1, 2, 3, 4, 8, 16, 5] {
            for lens in [vec![], vec![7], vec![1, 5], vec![40, 70], vec![3, 1, 33, 4], vec![2, 3, 4, 5, 1]] {
                for order in 0..3 {
                    let mut stride = width * if order == 2 { 3 } else { 1 };
                    let mut axes: Vec<Axis> = lens.iter().map(|len| Axis { len: *len, stride: 0 }).collect();
                    let mut set = |axis: &mut Axis| {
                        axis.stride = stride;
                        stride *= axis.len;
                    };
                    match order {
                        0 => axes.iter_mut().rev().for_each(&mut set),
                        _ => axes.iter_mut().for_each(&mut set),
                    }
                    assert_eq!(contiguous(axes.iter(), width), coalesced(&axes, width).is_empty(), "{axes:?}");
                    let mut out = vec![9; size(&axes, width)];
                    gather(&src, &axes, width, &mut out);
                    assert_eq!(out, plainly(&src, &axes, width), "{axes:?} {width}");
                }
            }
        }
    }
}
