//! Copies boxes (hyperslabs) of elements from chunks into rows.

/// One axis of a box.
pub(crate) struct Axis {
    /// First element in the rows.
    pub(crate) start: u64,
    /// First element in the chunk.
    pub(crate) skip: u64,
    pub(crate) count: u64,
    /// Strides in bytes, in the chunk and in the rows.
    pub(crate) in_stride: u64,
    pub(crate) out_stride: u64,
}

/// Copies a box of elements of `width` bytes, from offset `from_at` of the chunk `from` to offset `to_at` of the rows
/// `to`.
pub(crate) fn copy_box(axes: &[Axis], from: &[u8], from_at: u64, to: &mut [u8], to_at: u64, width: u64) {
    let Some((axis, inner)) = axes.split_first() else { return };
    let (from_at, to_at) = (from_at + axis.skip * axis.in_stride, to_at + axis.start * axis.out_stride);
    if inner.is_empty() {
        let len = (axis.count * width) as usize;
        let source = from.get(from_at as usize..).and_then(|from| from.get(..len));
        let target = to.get_mut(to_at as usize..).and_then(|to| to.get_mut(..len));
        if let (Some(source), Some(target)) = (source, target) {
            target.copy_from_slice(source);
        }
        return;
    }
    for i in 0..axis.count {
        copy_box(inner, from, from_at + i * axis.in_stride, to, to_at + i * axis.out_stride, width);
    }
}
