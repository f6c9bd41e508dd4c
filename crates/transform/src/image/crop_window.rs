//! A box of stored pixels to be resampled. Owns its position and the resampling; decodes nothing.

use super::orientation::Orientation;
use super::resample::resample;
use super::view::Crop;
use fast_image_resize::images::TypedImage;
use fast_image_resize::pixels::U8x3;
use fast_image_resize::{ResizeOptions, Resizer};
use packhorse_core::{Error, Result};

/// Left, top, width and height in stored pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CropWindow {
    sides: [f64; 4],
    /// Whether it is cut out before resampling, so that pixels outside have no influence. Then all sides are integers.
    alone: bool,
}

impl CropWindow {
    /// Where `crop` lies in stored pixels of size `stored` (width, height).
    pub(super) fn new(crop: &Crop, orientation: Orientation, stored: (u32, u32)) -> Self {
        let shown = [crop.left, crop.top, crop.width, crop.height];
        let sides = orientation.stored_box(shown, (f64::from(stored.0), f64::from(stored.1)));
        Self { sides, alone: crop.alone }
    }

    /// The largest of 8, 4 and 2 by which the image may be reduced while the box keeps twice the sides of `target`;
    /// with fewer, pixels shift visibly. 1 if none fits.
    pub(super) fn reduction(&self, (width, height): (u32, u32)) -> u32 {
        let [_, _, w, h] = self.sides;
        let enough =
            |by: &u32| w >= 2.0 * f64::from(*by) * f64::from(width) && h >= 2.0 * f64::from(*by) * f64::from(height);
        [8, 4, 2].into_iter().find(enough).unwrap_or(1)
    }

    /// Adjusts the box after the image was reduced.
    pub(super) fn shrink(&mut self, from: (u32, u32), to: (u32, u32)) {
        let (across, down) = (f64::from(to.0) / f64::from(from.0), f64::from(to.1) / f64::from(from.1));
        let [left, top, width, height] = self.sides;
        let all = [0.0, 0.0, f64::from(from.0), f64::from(from.1)] == self.sides;
        self.alone &= all;
        self.sides = [left * across, top * down, width * across, height * down];
        if all {
            self.sides = [0.0, 0.0, f64::from(to.0), f64::from(to.1)];
        }
    }

    /// Resamples the box of an image of size `stored` into `out`, whose size is `made` (width, height); both are RGB. The pixels
    /// of `stored` are undefined afterwards.
    pub(super) fn resample(
        &self,
        resizer: &mut Resizer,
        options: &ResizeOptions,
        (pixels, stored): (&mut [u8], (u32, u32)),
        (out, made): (&mut [u8], (u32, u32)),
    ) -> Result<()> {
        let mut target = TypedImage::<U8x3>::from_buffer(made.0, made.1, out).map_err(misfit)?;
        let [left, top, w, h] = self.sides;
        if self.alone {
            let sides = [left, top, w, h].map(|side| side as u32);
            let source =
                TypedImage::from_buffer(sides[2], sides[3], cut_out(pixels, stored.0, sides)).map_err(misfit)?;
            return resample(resizer, &source, &mut target, options);
        }
        let source = TypedImage::from_buffer(stored.0, stored.1, pixels).map_err(misfit)?;
        // Rounding must not push the box outside.
        let (left, w) = within(left, w, stored.0);
        let (top, h) = within(top, h, stored.1);
        let (left, top) = (beside_pixels(left, w, made.0, stored.0), beside_pixels(top, h, made.1, stored.1));
        resample(resizer, &source, &mut target, &options.crop(left, top, w, h))
    }
}

/// Moves the RGB pixels of a box together, at the start of the rows that have some.
fn cut_out(pixels: &mut [u8], stored_width: u32, [left, top, width, height]: [u32; 4]) -> &mut [u8] {
    let row = |pixels: u32| pixels as usize * 3;
    let (stride, line) = (row(stored_width), row(width));
    let rows = pixels.get_mut(top as usize * stride..).unwrap_or_default();
    if line < stride {
        for y in 0..height as usize {
            let from = y * stride + row(left);
            if from + line <= rows.len() {
                rows.copy_within(from..from + line, y * line);
            }
        }
    }
    let end = (height as usize * line).min(rows.len());
    rows.get_mut(..end).unwrap_or_default()
}

/// A difference of weights too small to be seen, and so of places.
const SHIFT: f64 = 1e-6;

/// The `start` of `len` of `all` pixels that are enlarged to `out`, or one so near that the first and the last pixel made do not lie
/// on a pixel: of those fast_image_resize 6.1 takes no others than that pixel, and expects that none beside them takes more. It then reads
/// outside of its own buffer.
fn beside_pixels(start: f64, len: f64, out: u32, all: u32) -> f64 {
    let on_pixel = |start: f64| {
        let scale = len / f64::from(out);
        let place = |at: f64| start + at * scale - 0.5;
        let is_on = |place: f64| (place - place.round()).abs() < SHIFT / 1e3;
        scale < 1.0 && (is_on(place(0.5)) || is_on(place(f64::from(out) - 0.5)))
    };
    let starts = [start, start + SHIFT, start - SHIFT, start + SHIFT / 3.0, start - SHIFT / 3.0];
    let inside = |start: &f64| *start >= 0.0 && start + len <= f64::from(all);
    starts.into_iter().filter(inside).find(|start| !on_pixel(*start)).unwrap_or(start)
}

fn within(start: f64, len: f64, all: u32) -> (f64, f64) {
    let start = start.max(0.0);
    (start, len.min(f64::from(all) - start))
}

/// Width and height of a JPEG decoded at 1/`by` of its size.
pub(super) fn reduced((width, height): (u32, u32), by: u32) -> (u32, u32) {
    (width.div_ceil(by), height.div_ceil(by))
}

pub(super) fn misfit(error: impl std::fmt::Display) -> Error {
    Error::bug(format!("pixels that can't be resampled: {error}"))
}

#[cfg(test)]
mod tests {
    use super::super::view::{Draws, Size};
    use super::*;
    use fast_image_resize::{FilterType, ResizeAlg};
    use proptest::prelude::*;

    #[test]
    fn a_picture_is_reduced_while_enough_pixels_stay() {
        let window = CropWindow { sides: [3.0, 0.0, 2000.0, 1800.0], alone: true };
        let by = |side: u32| window.reduction((side, side));
        assert_eq!([by(112), by(113), by(225), by(226), by(450), by(451)], [8, 4, 4, 2, 2, 1]);
    }

    /// The library checks its indexes in builds with debug assertions.
    #[test]
    fn boxes_that_end_on_pixels_are_resampled() {
        let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::CatmullRom)).use_alpha(false);
        let mut resizer = Resizer::new();
        let (w, h) = (30, 20);
        // Sides of a box whose first or last pixel lies on pixel 6.
        let boxes = [(8.0, 16u32), (6.0, 18), (9.0, 12), (5.0, 40), (7.0, 7)].into_iter().flat_map(|(len, out)| {
            let scale = len / f64::from(out);
            let on = |at: f64| 6.5 - at * scale;
            [(on(0.5), len, out), (on(f64::from(out) - 0.5).max(0.0), len, out)]
        });
        for (start, len, out) in boxes {
            let (out, sides) = ((out, out), [start, start, len, len]);
            let mut pixels: Vec<u8> = (0..w * h * 3).map(|i| (i * 37 % 251) as u8).collect();
            let mut target = vec![0; (out.0 * out.1 * 3) as usize];
            let window = CropWindow { sides, alone: false };
            window.resample(&mut resizer, &options, (&mut pixels, (w, h)), (&mut target, out)).unwrap();
        }
    }

    #[test]
    fn boxes_are_cut_out() {
        let pixel = |x: u32, y: u32| [x as u8, y as u8, 7];
        let all: Vec<u8> = (0..5).flat_map(|y| (0..6).flat_map(move |x| pixel(x, y))).collect();
        for sides in [[0, 0, 6, 5], [0, 2, 6, 3], [2, 1, 3, 2], [5, 4, 1, 1], [0, 0, 1, 5]] {
            let [left, top, width, height] = sides;
            let wanted: Vec<u8> =
                (top..top + height).flat_map(|y| (left..left + width).flat_map(move |x| pixel(x, y))).collect();
            assert_eq!(cut_out(&mut all.clone(), 6, sides), wanted, "{sides:?}");
        }
    }

    #[test]
    fn the_whole_image_stays_whole() {
        let mut window = CropWindow { sides: [0.0, 0.0, 1001.0, 999.0], alone: true };
        window.shrink((1001, 999), (501, 500));
        assert_eq!(window, CropWindow { sides: [0.0, 0.0, 501.0, 500.0], alone: true });
        let mut window = CropWindow { sides: [100.0, 0.0, 500.0, 999.0], alone: true };
        window.shrink((1001, 999), (501, 500));
        assert!(!window.alone);
    }

    proptest! {
        #[test]
        fn no_window_lies_outside(w in 1u32..3000, h in 1u32..3000, short in 9u32..2000, number in 1u32..9, by in 1u32..9) {
            let size = Size::Center { short, height: 9, width: 7 };
            let orientation = Orientation::from_number(number);
            let crop = Crop::new(size, orientation.swap((w, h)), Draws::new(0)).unwrap();
            let mut window = CropWindow::new(&crop, orientation, (w, h));
            window.shrink((w, h), reduced((w, h), by));
            let (w, h) = reduced((w, h), by);
            let [left, top, width, height] = window.sides;
            for (start, len, all) in [(left, width, w), (top, height, h)] {
                let (start, len) = within(start, len, all);
                prop_assert!(start >= 0.0 && len > 0.0 && start + len <= f64::from(all));
            }
        }
    }
}
