//! Validates a JPEG by walking every Huffman code of every scan (ITU-T T.81, annexes B, F and G), without pixels.
//!
//! zune-jpeg does not detect incomplete data, even in strict mode: it stops where codes run out, continues where
//! codes are left over, and fills in for a missing restart. Of 300 photographs that were truncated and ended with a
//! new EOI it refuses none; libjpeg notices, but only warns. So [`verify`] counts. Each scan has exactly the declared
//! blocks, then fewer than eight bits, then a marker. Restarts come in order. Each code is in its table, and each run
//! ends inside its block. No block is far brighter than white. The scans together carry every bit of every
//! coefficient. Damage breaks one of these nearly always, because decoding loses synchronization and the counts no
//! longer match. Damage that keeps both counts and sums is missed, such as most single flipped bits.
//!
//! Covers baseline, extended and progressive JPEGs with Huffman coding; the caller refuses others first.

mod bits;
mod codes;
mod frame;
mod scan;

use super::header::{EOI, SOS};
use bits::Bits;
use codes::Codes;
use frame::FrameState;
use packhorse_core::{Error, Result};
use scan::{ScanState, Tables};

/// A short description of a JPEG's damage.
type Fault = &'static str;

const SOI: u8 = 0xd8;
/// The most scans, as in zune-jpeg: more only cost time.
const SCANS: u32 = 100;

/// Refuses a JPEG with missing, extra or misordered data. Bytes after EOI do not matter.
pub(in crate::image) fn verify(bytes: &[u8]) -> Result<()> {
    let damaged = |why| Error::content(format!("is a damaged JPEG ({why}); get it again or leave it out"));
    Walk::default().walk(bytes).map_err(damaged)
}

/// The state from the segments read so far.
#[derive(Default)]
struct Walk {
    frame: Option<FrameState>,
    tables: Tables,
    restart: u32,
    scans: u32,
}

impl Walk {
    fn walk(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let mut rest = bytes.strip_prefix(&[0xff, SOI]).ok_or("it does not begin as one")?;
        loop {
            let (marker, tail) = marker(rest)?;
            if marker == EOI {
                return self.frame.as_ref().ok_or("it has no frame")?.require_all();
            }
            let (length, tail) = tail.split_first_chunk().ok_or("it is cut short")?;
            let length = usize::from(u16::from_be_bytes(*length)).checked_sub(2).ok_or("a segment has no length")?;
            let (body, tail) = tail.split_at_checked(length).ok_or("it is cut short")?;
            rest = tail;
            match marker {
                0xc0..=0xc2 if self.frame.is_some() => return Err("it has several frames"),
                0xc0..=0xc2 => self.frame = Some(FrameState::read(body, marker == 0xc2)?),
                0xc4 => self.take_codes(body)?,
                0xdb => self.take_steps(body)?,
                0xdd => {
                    self.restart = u16::from_be_bytes(*body.first_chunk().ok_or("a segment is too short")?).into();
                }
                SOS => rest = self.scan(body, tail)?,
                SOI | 0xd0..=0xd7 => return Err("a marker stands in a wrong place"),
                _ => {}
            }
        }
    }

    /// Reads the Huffman tables of a DHT segment.
    fn take_codes(&mut self, mut body: &[u8]) -> Result<(), Fault> {
        while let Some((place, tail)) = body.split_first() {
            let (codes, tail) = Codes::read(tail)?;
            let tables = if place >> 4 == 0 { &mut self.tables.dc } else { &mut self.tables.ac };
            *tables.get_mut(usize::from(place & 15)).ok_or("a table has a wrong number")? = Some(codes);
            body = tail;
        }
        Ok(())
    }

    /// Reads the DC step of each quantization table of a DQT segment.
    fn take_steps(&mut self, mut body: &[u8]) -> Result<(), Fault> {
        while let Some((place, tail)) = body.split_first() {
            let wide = place >> 4 > 0;
            let (table, tail) =
                tail.split_at_checked(if wide { 128 } else { 64 }).ok_or("a quantization table is damaged")?;
            let step = match *table {
                [high, low, ..] if wide => u16::from_be_bytes([high, low]),
                [step, ..] => step.into(),
                [] => 0,
            };
            *self.tables.steps.get_mut(usize::from(place & 15)).ok_or("a table has a wrong number")? = Some(step);
            body = tail;
        }
        Ok(())
    }

    /// Validates a scan; returns the bytes after it.
    fn scan<'a>(&mut self, header: &[u8], coded: &'a [u8]) -> Result<&'a [u8], Fault> {
        let frame = self.frame.as_mut().ok_or("a scan comes before the frame")?;
        self.scans += 1;
        if self.scans > SCANS {
            return Err("it has too many scans");
        }
        let mut scan = ScanState::read(header, frame)?;
        let mut bits = Bits::new(coded);
        let units = scan.units(frame);
        for unit in 0..units {
            if self.restart > 0 && unit > 0 && unit % self.restart == 0 {
                let number = (unit / self.restart - 1) % 8;
                scan.restart()?;
                bits.restart(0xd0 + number as u8)?;
            }
            scan.unit(unit, frame, &self.tables, &mut bits)?;
        }
        scan.restart()?;
        bits.end()
    }
}

/// The marker that must come here, and the bytes after it.
fn marker(bytes: &[u8]) -> Result<(u8, &[u8]), Fault> {
    let tail = bytes.strip_prefix(b"\xff").ok_or(if bytes.is_empty() {
        "it is cut short"
    } else {
        "bytes stand where a marker must"
    })?;
    let fill = tail.iter().position(|byte| *byte != 0xff).ok_or("it is cut short")?;
    match tail.get(fill..).and_then(<[u8]>::split_first) {
        Some((0, _)) | None => Err("bytes stand where a marker must"),
        Some((marker, tail)) => Ok((*marker, tail)),
    }
}

#[cfg(test)]
mod tests;
