//! A frame header, and which coefficients have arrived.

use super::Fault;

/// The most blocks of an interleaved MCU (B.2.3).
const BLOCKS: u32 = 10;

/// Component id, horizontal and vertical sampling factors, quantization table.
type Part = (u8, u32, u32, u8);

/// A frame (B.2.2) and the progress of its components.
pub(super) struct FrameState {
    pub(super) progressive: bool,
    /// Bits per sample.
    pub(super) precision: u8,
    /// Interleaved MCUs across and down.
    pub(super) across: u32,
    pub(super) down: u32,
    pub(super) components: Vec<Component>,
}

/// A component of a frame.
pub(super) struct Component {
    pub(super) name: u8,
    /// Number of its quantization table.
    pub(super) steps: usize,
    /// Blocks per interleaved MCU, across and down.
    pub(super) h: u32,
    pub(super) v: u32,
    /// Blocks across and down in a scan of its own.
    pub(super) width: u32,
    pub(super) height: u32,
    /// Blocks per row including the padding of the last MCU.
    pub(super) stride: u32,
    /// Progressive only: for each block, a bitmap of its nonzero coefficients so far.
    pub(super) nonzero: Vec<u64>,
    /// For each coefficient, the lowest bit received so far; 0 if complete.
    pub(super) come: [Option<u8>; 64],
}

impl FrameState {
    pub(super) fn read(body: &[u8], progressive: bool) -> Result<Self, Fault> {
        const WRONG: Fault = "its frame is damaged";
        let [precision, h1, h0, w1, w0, many, parts @ ..] = body else { return Err(WRONG) };
        let (width, height) = (u32::from(u16::from_be_bytes([*w1, *w0])), u32::from(u16::from_be_bytes([*h1, *h0])));
        let parts = parts.as_chunks::<3>().0;
        let factors: Vec<Part> =
            parts.iter().map(|[name, hv, steps]| (*name, u32::from(hv >> 4), u32::from(hv & 15), *steps)).collect();
        let sound = factors.iter().all(|(_, h, v, _)| (1..=4).contains(h) && (1..=4).contains(v));
        if factors.len() != usize::from(*many)
            || factors.is_empty()
            || factors.len() > 4
            || !sound
            || width * height == 0
        {
            return Err(WRONG);
        }
        let most = |of: fn(&Part) -> u32| factors.iter().map(of).max().unwrap_or(1);
        let (h, v) = (most(|f| f.1), most(|f| f.2));
        let (across, down) = (width.div_ceil(8 * h), height.div_ceil(8 * v));
        let component = |(name, fh, fv, steps): &Part| {
            let stride = across * fh;
            Component {
                name: *name,
                steps: usize::from(*steps),
                h: *fh,
                v: *fv,
                width: (width * fh).div_ceil(8 * h),
                height: (height * fv).div_ceil(8 * v),
                stride,
                nonzero: vec![0; if progressive { stride as usize * (down * fv) as usize } else { 0 }],
                come: [None; 64],
            }
        };
        let components = factors.iter().map(component).collect();
        Ok(Self { progressive, precision: *precision, across, down, components })
    }

    /// Refuses an image with coefficients that are missing or incomplete.
    pub(super) fn require_all(&self) -> Result<(), Fault> {
        let all = self.components.iter().all(|component| component.come.iter().all(|last| *last == Some(0)));
        if all { Ok(()) } else { Err("scans are missing") }
    }

    /// Whether an interleaved MCU of these components is within the limit.
    pub(super) fn fits(&self, components: &[usize]) -> bool {
        let blocks = |at: &usize| self.components.get(*at).map_or(0, |component| component.h * component.v);
        components.len() < 2 || components.iter().map(blocks).sum::<u32>() <= BLOCKS
    }
}
