//! Crops. Owns the arithmetic of boxes; touches no pixel.

use super::{Draws, Size};
use packhorse_core::{Error, Result};

/// Tries to draw a crop inside the image before falling back to the largest central one.
const TRIES: u32 = 10;

/// A box within an image, and the size it is resized to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::image) struct Crop {
    pub(in crate::image) left: f64,
    pub(in crate::image) top: f64,
    pub(in crate::image) width: f64,
    pub(in crate::image) height: f64,
    /// Whether the box is cut out before resampling, so that pixels outside have no influence. Then all sides are
    /// integers.
    pub(in crate::image) alone: bool,
    /// Width and height after resizing.
    pub(in crate::image) target: (u32, u32),
}

impl Crop {
    /// The crop that `size` takes of an image of `width` × `height`, both at least 1.
    pub(in crate::image) fn new(size: Size, (width, height): (u32, u32), draws: Draws) -> Result<Self> {
        match size {
            Size::Keep => Ok(Self::whole((width, height), (width, height))),
            Size::Exact { height: h, width: w } if (h, w) == (height, width) => {
                Ok(Self::whole((width, height), (width, height)))
            }
            Size::Exact { height: h, width: w } => Err(Error::content(format!(
                "is {height} × {width} pixels, not {h} × {w}; resize it, or ask for a size that resizes"
            ))),
            Size::Squash { height: h, width: w } => Ok(Self::whole((width, height), (w, h))),
            Size::Center { short, height: h, width: w } => Ok(Self::center((width, height), short, (w, h))),
            Size::Random { height: h, width: w, scale, ratio } => {
                Ok(Self::random((width, height), (w, h), wide(scale), wide(ratio), draws))
            }
        }
    }

    /// The same part of an image of `to` (width and height) that this is of an image of `from`, of the same proportions.
    pub(in crate::image) fn scaled(self, from: (u32, u32), to: (u32, u32)) -> Self {
        let across = f64::from(to.0) / f64::from(from.0);
        let down = f64::from(to.1) / f64::from(from.1);
        let (left, width) = (self.left * across, self.width * across);
        Self { left, width, top: self.top * down, height: self.height * down, alone: false, ..self }
    }

    fn whole((width, height): (u32, u32), target: (u32, u32)) -> Self {
        Self::cut((0, 0), (width, height), target)
    }

    fn cut((left, top): (u32, u32), (width, height): (u32, u32), target: (u32, u32)) -> Self {
        let (left, top) = (f64::from(left), f64::from(top));
        Self { left, top, width: f64::from(width), height: f64::from(height), alone: true, target }
    }

    /// The central crop of an image whose shorter side is scaled to `short`, in the image's own pixels.
    fn center((width, height): (u32, u32), short: u32, target: (u32, u32)) -> Self {
        let side = |side: u32| u64::from(side) * u64::from(short) / u64::from(width.min(height));
        // Half-way cases round to even, as in Python.
        let cut = |side: u64, target: u32| (side.saturating_sub(target.into()) as f64 / 2.0).round_ties_even();
        let (scaled_width, scaled_height) = (side(width), side(height));
        let across = f64::from(width) / scaled_width as f64;
        let down = f64::from(height) / scaled_height as f64;
        Self {
            left: cut(scaled_width, target.0) * across,
            top: cut(scaled_height, target.1) * down,
            width: f64::from(target.0) * across,
            height: f64::from(target.1) * down,
            alone: false,
            target,
        }
    }

    fn random(
        (width, height): (u32, u32),
        target: (u32, u32),
        scale: (f64, f64),
        ratio: (f64, f64),
        draws: Draws,
    ) -> Self {
        let area = f64::from(width) * f64::from(height);
        // The standard library's logarithm may differ between platforms in the last bit.
        let (low, high) = (libm::log(ratio.0), libm::log(ratio.1));
        for first in (0..TRIES).map(|n| 1 + 4 * n) {
            let area = area * draws.between(first, scale.0, scale.1);
            let ratio = libm::exp(draws.between(first + 1, low, high));
            let (w, h) = (rounded(area * ratio), rounded(area / ratio));
            if (1..=width).contains(&w) && (1..=height).contains(&h) {
                let top = draws.up_to(first + 2, height - h);
                let left = draws.up_to(first + 3, width - w);
                return Self::cut((left, top), (w, h), target);
            }
        }
        Self::fallback((width, height), target, ratio)
    }

    /// The largest central crop with an allowed aspect ratio.
    fn fallback((width, height): (u32, u32), target: (u32, u32), ratio: (f64, f64)) -> Self {
        let own = f64::from(width) / f64::from(height);
        let (w, h) = if own < ratio.0 {
            (width, whole(f64::from(width) / ratio.0).clamp(1, height))
        } else if own > ratio.1 {
            (whole(f64::from(height) * ratio.1).clamp(1, width), height)
        } else {
            (width, height)
        };
        Self::cut(((width - w) / 2, (height - h) / 2), (w, h), target)
    }

    /// Whether this is the whole image of `size`, unscaled.
    pub(in crate::image) fn is_all(&self, (width, height): (u32, u32)) -> bool {
        self.target == (width, height)
            && (self.left, self.top) == (0.0, 0.0)
            && (self.width, self.height) == (f64::from(width), f64::from(height))
    }
}

/// Side of a square of `area`, as an integer.
fn rounded(area: f64) -> u32 {
    whole(area.sqrt())
}

/// Rounds half to even, saturating at the bounds of `u32`.
fn whole(value: f64) -> u32 {
    value.round_ties_even() as u32
}

fn wide((from, to): (f32, f32)) -> (f64, f64) {
    (from.into(), to.into())
}

#[cfg(test)]
mod tests;
