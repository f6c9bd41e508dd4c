//! Target sizes. Owns the arithmetic; touches no pixel.

use packhorse_core::{Error, Limits, Result};
use std::fmt;
use std::str::FromStr;

/// The longest side of a JPEG.
const LONGEST: u32 = 65_535;

/// A target size in pixels of the upright image.
///
/// The filter is antialiased bicubic (Catmull-Rom): Pillow's default, `BICUBIC`. Its weights need no transcendental
/// function, so every machine computes the same bytes. Palette and bilevel images use the nearest pixel instead, as
/// in Pillow, so that mask values survive; other masks are named in [`ImageOptions::nearest`](super::ImageOptions::nearest). Alpha is premultiplied while filtering.
///
/// As text: `256` or `256,short`; `256,long`; `256,exact` or `256x128` (width, then height).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resize {
    /// Scales the shorter side to this, keeping proportions; never enlarges.
    Short(u32),
    /// Scales the longer side to this, keeping proportions; never enlarges.
    Long(u32),
    /// Scales to exactly this size, ignoring proportions.
    Exact {
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
    },
}

impl Resize {
    /// The target size for an image of `width` × `height`; `None` if it is unchanged.
    pub fn target(self, width: u32, height: u32) -> Option<(u32, u32)> {
        let (short, long) = (width.min(height), width.max(height));
        let (from, to) = match self {
            Resize::Short(edge) => (short, edge),
            Resize::Long(edge) => (long, edge),
            Resize::Exact { width: w, height: h } => return ((w, h) != (width, height)).then_some((w, h)),
        };
        (from > to).then(|| (scaled(width, from, to), scaled(height, from, to)))
    }

    pub(super) fn validate(self, limits: &Limits) -> Result<()> {
        let (a, b) = match self {
            Resize::Short(edge) | Resize::Long(edge) => (edge, 1),
            Resize::Exact { width, height } => (width, height),
        };
        let sides = 1..=LONGEST;
        if !sides.contains(&a) || !sides.contains(&b) {
            return Err(Error::config(format!("can't resize to {self}; a side is 1 to {LONGEST} pixels")));
        }
        if u64::from(a) * u64::from(b) > limits.pixels {
            return Err(Error::config(format!("can't resize to {self}: the limit is {} pixels", limits.pixels)));
        }
        Ok(())
    }

    /// Fraction of the pixels of a [`TYPICAL`](Self::TYPICAL) photograph that remains.
    pub(super) fn typical_share(self) -> f64 {
        let (w, h) = Self::TYPICAL;
        let (to_w, to_h) = self.target(w, h).unwrap_or((w, h));
        f64::from(to_w) * f64::from(to_h) / (f64::from(w) * f64::from(h))
    }

    /// The photograph for size estimates: ImageNet's median.
    const TYPICAL: (u32, u32) = (500, 375);
}

/// `side` × `to` / `from`, rounded to nearest, at least 1.
fn scaled(side: u32, from: u32, to: u32) -> u32 {
    let (side, from, to) = (u64::from(side), u64::from(from.max(1)), u64::from(to));
    u32::try_from((side * to + from / 2) / from).unwrap_or(u32::MAX).max(1)
}

impl fmt::Display for Resize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resize::Short(edge) => write!(f, "{edge},short"),
            Resize::Long(edge) => write!(f, "{edge},long"),
            Resize::Exact { width, height } => write!(f, "{width}x{height}"),
        }
    }
}

impl FromStr for Resize {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let body = text.strip_prefix("resize=").unwrap_or(text);
        parse(body).ok_or_else(|| {
            Error::config(format!("can't understand resize \"{body}\"; give 256,short or 256,long or 256x128"))
        })
    }
}

fn parse(text: &str) -> Option<Resize> {
    let (size, mode) = text.split_once(',').map_or((text, None), |(size, mode)| (size, Some(mode)));
    if let Some((width, height)) = size.split_once('x') {
        let exact = Resize::Exact { width: side(width)?, height: side(height)? };
        return matches!(mode, None | Some("exact")).then_some(exact);
    }
    let edge = side(size)?;
    match mode {
        None | Some("short") => Some(Resize::Short(edge)),
        Some("long") => Some(Resize::Long(edge)),
        Some("exact") => Some(Resize::Exact { width: edge, height: edge }),
        _ => None,
    }
}

fn side(text: &str) -> Option<u32> {
    text.parse().ok().filter(|side| (1..=LONGEST).contains(side))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_parses_and_prints_canonically() {
        for (text, canonical) in [
            ("256", "256,short"),
            ("resize=256,short", "256,short"),
            ("64,long", "64,long"),
            ("64,exact", "64x64"),
            ("256x128", "256x128"),
            ("256x128,exact", "256x128"),
        ] {
            assert_eq!(text.parse::<Resize>().unwrap().to_string(), canonical);
        }
        for text in ["", "0", "x", "256,", "256,tall", "256x", "256x128,short", "-1", "70000", "1,short,long"] {
            assert!(text.parse::<Resize>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn short_and_long_keep_proportions_and_never_enlarge() {
        assert_eq!(Resize::Short(256).target(500, 375), Some((341, 256)));
        assert_eq!(Resize::Long(256).target(500, 375), Some((256, 192)));
        assert_eq!(Resize::Short(256).target(5000, 256), None);
        assert_eq!(Resize::Long(256).target(5000, 2), Some((256, 1)));
        assert_eq!(Resize::Exact { width: 9, height: 8 }.target(9, 8), None);
        assert_eq!(Resize::Exact { width: 9, height: 8 }.target(8, 9), Some((9, 8)));
    }

    proptest! {
        #[test]
        fn invalid_text_gets_a_hint(text in "\\PC{0,12}") {
            if let Err(error) = text.parse::<Resize>() {
                prop_assert!(error.message().contains("give 256,short"));
            }
        }

        #[test]
        fn a_target_is_never_empty_and_never_larger(w in 1u32..70_000, h in 1u32..70_000, edge in 1u32..65_536) {
            for resize in [Resize::Short(edge), Resize::Long(edge)] {
                if let Some((a, b)) = resize.target(w, h) {
                    prop_assert!(a >= 1 && b >= 1 && a <= w && b <= h);
                    prop_assert!(resize.target(a, b).is_none());
                }
            }
        }
    }
}
