//! Looks at the headers of pictures and selects who decodes each.

use super::chunk::{Picture, Way};
use super::engine::{Engine, Parser};
use packhorse_core::{Error, Limits, Result};
use packhorse_transform::image::{JpegFacts, View, ViewDecoder};
use std::ops::Range;

/// Reads headers; each thread has its own.
pub(super) struct Surveyor {
    header: ViewDecoder,
    /// One per engine.
    parsers: Vec<Parser>,
}

impl Surveyor {
    pub(super) fn new(engines: &[Engine], limits: Limits) -> Result<Self> {
        let parsers = engines.iter().map(Engine::parser).collect::<Result<_>>()?;
        Ok(Self { header: ViewDecoder::new(View::default(), limits)?, parsers })
    }

    /// The picture in `bytes`, which are at `place` in the batch's field. `here` if the CPU takes it in any case.
    pub(super) fn look(&mut self, bytes: &[u8], place: Range<usize>, required: bool, here: bool) -> Result<Picture> {
        if bytes.is_empty() {
            let absent = Picture { bytes: place, way: Way::None, height: 0, width: 0 };
            return if required { Err(Error::content("is empty; get it again or leave it out")) } else { Ok(absent) };
        }
        let (height, width) = self.header.size(bytes)?;
        let mut way = Way::Cpu;
        if bytes.starts_with(b"\xff\xd8") {
            let facts = JpegFacts::read(bytes)?;
            let known = (facts.height, facts.width) == (height, width);
            for (number, parser) in self.parsers.iter_mut().enumerate().filter(|_| known && !here) {
                if parser.takes(bytes, &facts)? {
                    way = Way::Engine(number, facts);
                    break;
                }
            }
        }
        Ok(Picture { bytes: place, way, height, width })
    }
}

/// Whether row `row` is among the share of rows that the CPU takes: they are spread evenly.
pub(super) fn is_here(row: usize, share: f32) -> bool {
    let before = |rows: usize| (rows as f64 * f64::from(share)).floor();
    before(row + 1) > before(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_spread_evenly() {
        let rows = |share| (0..8).filter(|row| is_here(*row, share)).collect::<Vec<_>>();
        assert_eq!((rows(0.0), rows(0.5), rows(0.25)), (vec![], vec![1, 3, 5, 7], vec![3, 7]));
        assert_eq!(rows(1.0), (0..8).collect::<Vec<_>>());
    }
}
