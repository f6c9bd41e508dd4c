//! One scan: its components, coefficients and bits, and its codes block by block.

use super::Fault;
use super::bits::Bits;
use super::codes::Codes;
use super::frame::FrameState;

const WRONG: Fault = "a scan's header is damaged";
const TABLE: Fault = "a Huffman table is missing";
const RUN: Fault = "a run of coefficients goes over the end of its block";
const VALUE: Fault = "a coefficient is too large";

/// A scan (B.2.3) while it is read.
pub(super) struct ScanState {
    parts: Vec<Part>,
    /// Spectral selection: the first and the last coefficient.
    band: (usize, usize),
    /// Whether this is the first pass over these coefficients, not a refinement.
    first: bool,
    /// Successive approximation: the lowest bit that this scan carries.
    low: u8,
    /// End-of-band run: blocks with no further coefficients in this band.
    skipped: u32,
}

struct Part {
    component: usize,
    dc: usize,
    ac: usize,
    /// DC value of its previous block.
    level: i32,
}

/// Tables from the segments before a scan.
#[derive(Default)]
pub(super) struct Tables {
    pub(super) dc: [Option<Codes>; 4],
    pub(super) ac: [Option<Codes>; 4],
    /// The DC step of each quantization table.
    pub(super) steps: [Option<u16>; 4],
}

impl ScanState {
    pub(super) fn read(header: &[u8], frame: &mut FrameState) -> Result<Self, Fault> {
        let (many, rest) = header.split_first().ok_or(WRONG)?;
        let (parts, rest) = rest.split_at_checked(2 * usize::from(*many)).ok_or(WRONG)?;
        let [from, to, bits, ..] = *rest else { return Err(WRONG) };
        let part = |[name, tables]: &[u8; 2]| {
            let component = frame.components.iter().position(|component| component.name == *name)?;
            Some(Part { component, dc: (tables >> 4).into(), ac: (tables & 15).into(), level: 0 })
        };
        let parts = parts.as_chunks().0.iter().map(part).collect::<Option<Vec<_>>>().ok_or(WRONG)?;
        let (from, to, high, low) = match frame.progressive {
            true => (usize::from(from), usize::from(to), bits >> 4, bits & 15),
            // Sequential scans may hold garbage here; decoders ignore it.
            false => (0, 63, 0, 0),
        };
        let alone = parts.len() == 1;
        let of_band = if from == 0 { to == 0 || !frame.progressive } else { alone && from <= to };
        let numbers: Vec<usize> = parts.iter().map(|part| part.component).collect();
        if parts.is_empty() || to > 63 || !of_band || !frame.fits(&numbers) {
            return Err(WRONG);
        }
        for number in numbers {
            let component = frame.components.get_mut(number).ok_or(WRONG)?;
            for last in component.come.get_mut(from..=to).unwrap_or_default() {
                let expected = if high == 0 { last.is_none() } else { *last == Some(high) && high == low + 1 };
                if !expected {
                    return Err("scans are out of order");
                }
                *last = Some(low);
            }
        }
        Ok(Self { parts, band: (from, to), first: high == 0, low, skipped: 0 })
    }

    /// Number of MCUs: interleaved, or single blocks if the scan has one component.
    pub(super) fn units(&self, frame: &FrameState) -> u32 {
        match &self.parts[..] {
            [part] => frame.components.get(part.component).map_or(0, |component| component.width * component.height),
            _ => frame.across * frame.down,
        }
    }

    /// At a restart and at the end: the end-of-band run must be used up.
    pub(super) fn restart(&mut self) -> Result<(), Fault> {
        self.parts.iter_mut().for_each(|part| part.level = 0);
        if self.skipped == 0 { Ok(()) } else { Err("a scan ends inside a run of blocks") }
    }

    /// Reads the codes of MCU number `unit`.
    pub(super) fn unit(
        &mut self,
        unit: u32,
        frame: &mut FrameState,
        tables: &Tables,
        bits: &mut Bits<'_>,
    ) -> Result<(), Fault> {
        let (progressive, across, precision) = (frame.progressive, frame.across, frame.precision);
        let Self { parts, band, first, low, skipped } = self;
        let alone = parts.len() == 1;
        for part in parts {
            let component = frame.components.get_mut(part.component).ok_or(WRONG)?;
            let (h, v) = if alone { (1, 1) } else { (component.h, component.v) };
            for block in 0..h * v {
                if progressive && band.0 > 0 {
                    let (x, y) = match alone {
                        true => (unit % component.width, unit / component.width),
                        false => (unit % across * h + block % h, unit / across * v + block / h),
                    };
                    let place = y as usize * component.stride as usize + x as usize;
                    let nonzero = component.nonzero.get_mut(place).ok_or(WRONG)?;
                    let codes = table(&tables.ac, part.ac)?;
                    match first {
                        true => begin(codes, *band, skipped, nonzero, bits)?,
                        false => refine(codes, *band, skipped, nonzero, bits)?,
                    }
                } else if *first {
                    part.level += difference(table(&tables.dc, part.dc)?, precision, bits)?;
                    let step = tables
                        .steps
                        .get(component.steps)
                        .copied()
                        .flatten()
                        .ok_or("a quantization table is missing")?;
                    within(part.level << *low, step, precision)?;
                    if !progressive {
                        others(table(&tables.ac, part.ac)?, precision, bits)?;
                    }
                } else {
                    bits.drop_one()?;
                }
            }
        }
        Ok(())
    }
}

/// Refuses a DC value outside the sample range: it is eight times the block's mean, in quantization steps. Allows a
/// quarter more, because some encoders overshoot white on purpose to keep edges clean.
fn within(level: i32, step: u16, precision: u8) -> Result<(), Fault> {
    let (step, most) = (i64::from(step.max(1)), 10i64 << (precision.clamp(1, 16) - 1));
    match i64::from(level).abs() * step <= most + 2 * step {
        true => Ok(()),
        false => Err("a block is brighter than white or darker than black"),
    }
}

fn table(tables: &[Option<Codes>; 4], at: usize) -> Result<&Codes, Fault> {
    tables.get(at).and_then(Option::as_ref).ok_or(TABLE)
}

/// The DC difference to the previous block (F.2.2.1).
fn difference(codes: &Codes, precision: u8, bits: &mut Bits<'_>) -> Result<i32, Fault> {
    let size = codes.next(bits)?;
    // With 8 bits per sample, differences have 11 bits (F.1.2.1).
    if size > precision.saturating_add(3).min(15) {
        return Err(VALUE);
    }
    let value = i32::from(bits.take(size.into())?);
    Ok(if size > 0 && value < 1 << (size - 1) { value - (1 << size) + 1 } else { value })
}

/// The AC coefficients of a block (F.2.2.2).
fn others(ac: &Codes, precision: u8, bits: &mut Bits<'_>) -> Result<(), Fault> {
    let mut at = 1;
    while at < 64 {
        let code = ac.next_with_bits(bits)?;
        let (run, size) = (usize::from(code >> 4), code & 15);
        if size > 0 {
            at += run + 1;
            if size > precision.saturating_add(2) {
                return Err(VALUE);
            }
        } else {
            match run {
                0 => return Ok(()),
                15 => at += 16,
                _ => return Err("a code is invalid"),
            }
        }
    }
    if at == 64 { Ok(()) } else { Err(RUN) }
}

/// The end-of-band run, including this block: 2^power plus `power` extra bits (G.1.2.2).
fn blocks(power: usize, bits: &mut Bits<'_>) -> Result<u32, Fault> {
    Ok((1 << power) + u32::from(bits.take(power as u32)?))
}

/// The first pass over a band of a block (G.1.2.2).
fn begin(
    codes: &Codes,
    (from, to): (usize, usize),
    skipped: &mut u32,
    nonzero: &mut u64,
    bits: &mut Bits<'_>,
) -> Result<(), Fault> {
    if *skipped > 0 {
        *skipped -= 1;
        return Ok(());
    }
    let mut at = from;
    while at <= to {
        let code = codes.next(bits)?;
        let (run, size) = (usize::from(code >> 4), code & 15);
        match (run, size) {
            (15, 0) => at += 16,
            (power, 0) => {
                *skipped = blocks(power, bits)? - 1;
                return Ok(());
            }
            _ => {
                at += run;
                if at > to {
                    return Err(RUN);
                }
                bits.take(size.into())?;
                *nonzero |= 1 << at;
                at += 1;
            }
        }
    }
    if at == to + 1 { Ok(()) } else { Err(RUN) }
}

/// A refinement pass over a band of a block (G.1.2.3).
fn refine(
    codes: &Codes,
    (from, to): (usize, usize),
    skipped: &mut u32,
    nonzero: &mut u64,
    bits: &mut Bits<'_>,
) -> Result<(), Fault> {
    let mut at = from;
    if *skipped == 0 {
        while at <= to {
            let code = codes.next(bits)?;
            let (mut run, size) = (usize::from(code >> 4), code & 15);
            match (run, size) {
                (15, 0) => {}
                (power, 0) => {
                    *skipped = blocks(power, bits)?;
                    break;
                }
                (_, 1) => bits.drop_one()?,
                _ => return Err("a code is invalid"),
            }
            // Skip the run of zero coefficients; every nonzero one on the way has a correction bit.
            while at <= to && (*nonzero >> at & 1 == 1 || run > 0) {
                match *nonzero >> at & 1 {
                    0 => run -= 1,
                    _ => bits.drop_one()?,
                }
                at += 1;
            }
            if at > to && (run > 0 || size == 1) {
                return Err(RUN);
            }
            if size == 1 {
                *nonzero |= 1 << at;
            }
            at += 1;
        }
    }
    if *skipped > 0 {
        while at <= to {
            if *nonzero >> at & 1 == 1 {
                bits.drop_one()?;
            }
            at += 1;
        }
        *skipped -= 1;
    }
    Ok(())
}
