//! Where a device that holds samples finds those of a batch.

/// Where a device that holds the samples finds the fields of a batch. The slab begins with pieces, of three numbers each (`u64`,
/// little-endian): from, to, bytes. `to` is an offset in the batch as it would be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gather {
    /// Whose samples they are: [`HeldSamples::id`](crate::HeldSamples::id).
    pub holder: u64,
    /// The number of pieces.
    pub pieces: u32,
    /// The number of those, at the beginning, whose `from` is an offset in this slab. That of the others is an address of the
    /// device.
    pub here: u32,
    /// The bytes of the slab in use.
    pub bytes: usize,
    /// The bytes of the longest piece.
    pub longest: u64,
}
