//! Decodes masks, whose pixels are numbers and not colours, into a batch's memory.

use super::crop_window::misfit;
use super::decode::{header, upright_size};
use super::format::ImageFormat;
use super::raster::Raster;
use super::view::{Crop, Draws, Size, View};
use super::{jpeg, other, png};
use packhorse_core::{Error, Limits, Result};

/// Makes views of masks: images whose pixels are class or instance numbers. Output: one number a pixel (height × width, no
/// padding), upright as EXIF or XMP says.
///
/// Numbers are those stored: the gray value, the index into a palette, 0 and 1 of a bilevel image. Alpha is dropped. An
/// image of three channels is refused, since colours are not numbers. Crop and flip are those that [`ViewDecoder`] makes of
/// the mask's image with the same view and draws; each pixel is the nearest one, centre to centre, as Pillow's
/// `NEAREST` and torchvision's `NEAREST_EXACT` have it, so that no new number appears. [`View::filter`] and
/// [`View::reduced`] decide nothing.
///
/// [`ViewDecoder`]: super::ViewDecoder
#[derive(Clone, Copy, Debug)]
pub struct MaskDecoder {
    view: View,
    wide: bool,
    limits: Limits,
}

impl MaskDecoder {
    /// A `Config` error for an invalid `view`. `wide`: numbers have two bytes, little-endian, instead of one. Images over
    /// `limits.pixels` are not decoded.
    pub fn new(view: View, wide: bool, limits: Limits) -> Result<Self> {
        let view = View { reduced: false, ..view };
        view.validate(&limits)?;
        Ok(Self { view, wide, limits })
    }

    /// The limits given.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Height and width of a mask's view; reads the header if the view does not fix them.
    ///
    /// # Errors
    /// `Content` for something that is not an image, `Limit` for too many pixels.
    pub fn size(&self, bytes: &[u8]) -> Result<(u32, u32)> {
        if let Some(shape) = self.view.shape() {
            return Ok(shape);
        }
        upright_size(bytes, &self.limits)
    }

    /// Decodes `bytes` into `out`, whose length must match [`MaskDecoder::size`]; returns height and width. Pure: equal
    /// bytes, view, image size and draws give equal numbers.
    ///
    /// `images`: height and width of the images that the mask may belong to, upright ([`upright_size`]). It is cut where the
    /// first one of its size is, or else the first one of its proportions, within a pixel: random crops of two sizes differ now
    /// and then, even at equal draws. Without images it is cut for itself.
    ///
    /// # Errors
    /// `Content` for a damaged image, for one of colours, for numbers over 255 where they have one byte, for other
    /// proportions than those of `images`, and for a size that violates [`Size::Exact`](super::Size::Exact); `Limit` for too
    /// many pixels. The content of `out` is then undefined.
    pub fn decode_into(&self, bytes: &[u8], images: &[(u32, u32)], draws: Draws, out: &mut [u8]) -> Result<(u32, u32)> {
        let draws = draws.lane(self.view.lane);
        let kind = ImageFormat::of(bytes)?;
        let (width, height, orientation) = header(kind, bytes, &self.limits)?;
        let own = orientation.swap((width, height));
        let crop = match self.view.size {
            size @ (Size::Center { .. } | Size::Random { .. }) => {
                let image = image_of(own, images)?;
                Crop::new(size, image, draws)?.scaled(image, own)
            }
            size => Crop::new(size, own, draws)?,
        };
        let mirror = draws.unit(0) < f64::from(self.view.flip);
        let stored = match kind {
            ImageFormat::Jpeg => jpeg::decode(bytes)?,
            ImageFormat::Png => png::numbers(bytes)?,
            _ => other::numbers(kind, bytes, &self.limits)?,
        };
        if stored.channels > 2 {
            let message = "has colours, and a mask has a number for each pixel: gray, or an index into a palette";
            return Err(Error::content(message));
        }
        self.sample(&orientation.apply(stored), &crop, mirror, out)?;
        Ok((crop.target.1, crop.target.0))
    }

    /// Takes the nearest pixels of an upright mask.
    fn sample(&self, mask: &Raster, crop: &Crop, mirror: bool, out: &mut [u8]) -> Result<()> {
        let (width, height) = crop.target;
        let bytes = if self.wide { 2 } else { 1 };
        if Some(out.len()) != (width as usize).checked_mul(height as usize).and_then(|n| n.checked_mul(bytes)) {
            return Err(misfit(format!("{} bytes do not hold {height} × {width} numbers", out.len())));
        }
        let mut columns: Vec<u32> = (0..width).map(|x| nearest(x, width, crop.left, crop.width, mask.width)).collect();
        if mirror {
            columns.reverse();
        }
        let rows = (0..height).map(|y| nearest(y, height, crop.top, crop.height, mask.height));
        let pixels = rows.flat_map(|y| columns.iter().map(move |x| number(mask.pixel((*x, y)), mask.wide)));
        for (to, pixel) in out.chunks_exact_mut(bytes).zip(pixels) {
            match (to, u8::try_from(pixel)) {
                ([to], Ok(pixel)) => *to = pixel,
                ([_], Err(_)) => {
                    let message = format!("has the number {pixel}, and bytes hold 0 to 255");
                    return Err(Error::content(message).hint("ask for numbers of 16 bits"));
                }
                (to, _) => to.copy_from_slice(&pixel.to_le_bytes()),
            }
        }
        Ok(())
    }
}

/// Width and height of the image that a mask of `own` width and height belongs to.
fn image_of(own: (u32, u32), images: &[(u32, u32)]) -> Result<(u32, u32)> {
    let sizes = || images.iter().map(|(height, width)| (*width, *height));
    match sizes().find(|size| *size == own).or_else(|| sizes().find(|size| is_alike(own, *size))) {
        Some(size) => Ok(size),
        None => match sizes().next() {
            None => Ok(own),
            Some((width, height)) => {
                let (w, h) = own;
                let message =
                    format!("is {h} × {w} pixels, and its image {height} × {width}: no crop is the same of both");
                Err(Error::content(message).hint("make masks of the proportions of their images"))
            }
        },
    }
}

/// Whether both have the same proportions, within one pixel of the smaller one.
fn is_alike(a: (u32, u32), b: (u32, u32)) -> bool {
    let is_near =
        |scale: f64, side: u32, other: u32| (f64::from(side) * scale - f64::from(other)).abs() <= scale.max(1.0);
    is_near(f64::from(a.0) / f64::from(b.0), b.1, a.1) || is_near(f64::from(a.1) / f64::from(b.1), b.0, a.0)
}

/// The stored pixel whose centre is nearest to that of pixel `i` of `count`, which share `length` pixels from `start` on.
fn nearest(i: u32, count: u32, start: f64, length: f64, stored: u32) -> u32 {
    let at = start + (f64::from(i) + 0.5) * length / f64::from(count);
    (at.max(0.0) as u32).min(stored.saturating_sub(1))
}

/// The number of a pixel: its first channel.
fn number(pixel: &[u8], wide: bool) -> u16 {
    match (wide, pixel) {
        (true, [a, b, ..]) => u16::from_ne_bytes([*a, *b]),
        (_, [value, ..]) => u16::from(*value),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{exif, fnv, jpeg_of, png_of};
    use super::super::{Size, ViewDecoder};
    use super::*;
    use ::png::{BitDepth, ColorType};

    fn decoded(view: View, wide: bool, bytes: &[u8], key: u64) -> Result<(Vec<u8>, (u32, u32))> {
        decoded_beside(&[], view, wide, bytes, key)
    }

    fn decoded_beside(
        images: &[(u32, u32)],
        view: View,
        wide: bool,
        bytes: &[u8],
        key: u64,
    ) -> Result<(Vec<u8>, (u32, u32))> {
        let decoder = MaskDecoder::new(view, wide, Limits::default())?;
        let (height, width) = decoder.size(bytes)?;
        let mut out = vec![7; height as usize * width as usize * if wide { 2 } else { 1 }];
        let size = decoder.decode_into(bytes, images, Draws::new(key), &mut out)?;
        assert_eq!(size, (height, width));
        Ok((out, size))
    }

    /// A gray PNG with these pixels.
    fn gray(width: u32, pixels: &[u8], change: impl FnOnce(&mut ::png::Info<'static>)) -> Vec<u8> {
        let mut info = ::png::Info::with_size(width, pixels.len() as u32 / width);
        (info.color_type, info.bit_depth) = (ColorType::Grayscale, BitDepth::Eight);
        change(&mut info);
        let mut out = Vec::new();
        let mut writer = ::png::Encoder::with_info(&mut out, info).unwrap().write_header().unwrap();
        writer.write_image_data(pixels).unwrap();
        writer.finish().unwrap();
        out
    }

    #[test]
    fn numbers_are_those_stored() {
        let keep = View::default();
        assert_eq!(decoded(keep, false, &gray(2, &[0, 7, 255, 3], |_| ()), 0).unwrap(), (vec![0, 7, 255, 3], (2, 2)));
        let palette = |info: &mut ::png::Info<'static>| {
            info.color_type = ColorType::Indexed;
            info.palette = Some(vec![9; 3 * 200].into());
        };
        assert_eq!(decoded(keep, false, &gray(2, &[0, 7, 199, 3], palette), 0).unwrap().0, [0, 7, 199, 3]);
        // Bits become 0 and 1, and not 0 and 255.
        let bits = png_of((5, 3), ColorType::Grayscale, BitDepth::One, |_| ());
        assert!(decoded(keep, false, &bits, 0).unwrap().0.iter().all(|bit| *bit < 2));
        let wide = png_of((5, 3), ColorType::Grayscale, BitDepth::Sixteen, |_| ());
        let (numbers, _) = decoded(keep, true, &wide, 0).unwrap();
        assert_eq!(numbers.len(), 30);
        let error = decoded(keep, false, &wide, 0).unwrap_err().to_string();
        assert!(error.contains("bytes hold 0 to 255") && error.contains("16 bits"), "{error}");
        assert_eq!(decoded(keep, true, &gray(2, &[1, 2], |_| ()), 0).unwrap().0, [1, 0, 2, 0]);
    }

    #[test]
    fn colours_are_refused() {
        for bytes in [super::super::samples::png(4, 4), super::super::samples::jpeg(8, 8)] {
            let error = decoded(View::default(), false, &bytes, 0).unwrap_err();
            assert!(error.to_string().contains("has colours"), "{error}");
        }
    }

    /// The mask of an image is cut, turned and mirrored as the image is: both are made of the same blocks, and the image's
    /// colours say where they went.
    #[test]
    fn a_mask_follows_its_image() {
        let (width, height) = (96u32, 64u32);
        let block = |x: u32, y: u32| (x / 16 + 6 * (y / 16)) as u8;
        let all = || (0..height).flat_map(move |y| (0..width).map(move |x| block(x, y)));
        let turned = |info: &mut ::png::Info<'static>, turn| info.exif_metadata = Some(exif(turn).into());
        for (key, turn) in (0..40).zip([1u8, 3, 6, 8, 2].into_iter().cycle()) {
            let mask = gray(width, &all().collect::<Vec<u8>>(), |info| turned(info, turn));
            let image: Vec<u8> = all().flat_map(|number| [number * 10, 0, 0]).collect();
            let image = {
                let mut info = ::png::Info::with_size(width, height);
                (info.color_type, info.bit_depth) = (ColorType::Rgb, BitDepth::Eight);
                turned(&mut info, turn);
                let mut out = Vec::new();
                let mut writer = ::png::Encoder::with_info(&mut out, info).unwrap().write_header().unwrap();
                writer.write_image_data(&image).unwrap();
                writer.finish().unwrap();
                out
            };
            for size in [
                View::random_crop(32).size,
                Size::Center { short: 40, height: 32, width: 24 },
                Size::Squash { height: 32, width: 48 },
                Size::Keep,
            ] {
                let view = View { size, flip: 0.5, ..View::default() };
                let (numbers, (height, width)) = decoded(view, false, &mask, key).unwrap();
                let mut pixels = vec![0; numbers.len() * 3];
                let mut images = ViewDecoder::new(view, Limits::default()).unwrap();
                assert_eq!(images.decode_into(&image, Draws::new(key), &mut pixels).unwrap(), (height, width));
                let same = numbers.iter().zip(pixels.chunks(3)).filter(|(number, pixel)| {
                    // At the borders of blocks colours mix.
                    i32::from(**number * 10).abs_diff(pixel[0].into()) <= 5
                });
                let share = same.count() as f64 / numbers.len() as f64;
                assert!(share > 0.7, "{view:?}, turned {turn}, key {key}: {share}");
                assert!(numbers.iter().all(|number| *number < 24));
            }
        }
    }

    /// A mask at half of its image's size is cut where the image is, for every key: each pixel of the view is a number of
    /// the block that the mask of full size has there, but for the borders of blocks.
    #[test]
    fn a_mask_of_another_size_is_cut_where_its_image_is() {
        let blocks = |side: u32, (width, height): (u32, u32)| -> Vec<u8> {
            (0..height).flat_map(|y| (0..width).map(move |x| (x / side + 7 * (y / side)) as u8)).collect()
        };
        let full = gray(201, &blocks(32, (201, 151)), |_| ());
        for view in [View::random_crop(64).flip(0.5), View::center_crop(64)] {
            for key in 0..400 {
                let (whole, _) = decoded(view, false, &full, key).unwrap();
                for size in [(100, 75), (101, 76)] {
                    let half = gray(size.0, &blocks(16, size), |_| ());
                    let (numbers, _) = decoded_beside(&[(151, 201)], view, false, &half, key).unwrap();
                    let same = numbers.iter().zip(&whole).filter(|(a, b)| a == b).count();
                    assert!(same as f64 / whole.len() as f64 > 0.85, "{view:?}, key {key}, {size:?}: {same}");
                }
            }
        }
        let narrow = gray(100, &blocks(16, (100, 151)), |_| ());
        let error = decoded_beside(&[(151, 201)], View::random_crop(64), false, &narrow, 0).unwrap_err();
        assert!(error.to_string().contains("is 151 × 100 pixels, and its image 151 × 201"), "{error}");
        assert!(decoded_beside(&[(151, 201)], View::squash(64), false, &narrow, 0).is_ok());
        // Of several images it belongs to the one of its size, or of its proportions.
        let view = View::random_crop(64);
        for images in [&[(151, 201), (151, 100)][..], &[(40, 30), (302, 200)]] {
            assert!(decoded_beside(images, view, false, &narrow, 0).is_ok(), "{images:?}");
        }
        // Images are resized to whole pixels, each of which may be many of a mask.
        for (image, mask) in [((298, 224), (3024, 4032)), ((96, 64), (1337, 2001)), ((64, 85), (2001, 1500))] {
            assert!(is_alike(mask, (image.1, image.0)), "{image:?}");
        }
    }

    #[test]
    fn a_mask_keeps_its_numbers_forever() {
        let pixels: Vec<u8> = (0..50 * 40).map(|i| (i * i / 37 % 251) as u8).collect();
        let view = View::random_crop(16).flip(0.5);
        let found: Vec<u64> =
            (0..3).map(|key| fnv(&decoded(view, false, &gray(50, &pixels, |_| ()), key).unwrap().0)).collect();
        assert_eq!(found, PINNED);
        let gray = jpeg_of(16, 16, jpeg_encoder::ColorType::Luma, 0, b"");
        assert_eq!(decoded(View::default(), false, &gray, 0).unwrap().1, (16, 16));
    }

    const PINNED: [u64; 3] = [8_245_401_343_015_803_229, 1_400_926_310_898_871_243, 13_837_245_701_912_961_011];
}
