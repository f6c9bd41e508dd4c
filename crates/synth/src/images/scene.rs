//! Images of scenes. Owns how files differ: crop, mirror, objects, light, grain.

use super::picture::Picture;
use super::texture::Texture;
use crate::rng::Rng;
use std::sync::OnceLock;

/// Textures per class.
const PER_CLASS: u32 = 6;
/// Extra texture size in pixels, so that crops differ.
const MARGIN: u32 = 96;
/// Bytes of film grain.
const GRAIN: usize = 1 << 18;

/// The source of all images. A texture is generated when first needed.
pub(super) struct Scenes {
    seed: u64,
    side: u32,
    textures: Vec<OnceLock<Texture>>,
    grain: Vec<i8>,
}

impl Scenes {
    /// For images of at most `side` × `side`.
    pub(super) fn new(seed: u64, side: u32, classes: u32) -> Self {
        let mut rng = Rng::new(seed, 11, 0);
        // A triangular distribution from -16 to 15.
        let grain = (0..GRAIN).map(|_| (rng.below(17) + rng.below(16)) as i8 - 16).collect();
        let textures = (0..classes * PER_CLASS).map(|_| OnceLock::new()).collect();
        Self { seed, side: side + MARGIN, textures, grain }
    }

    /// An image of a scene of `class`.
    pub(super) fn shoot(&self, rng: &mut Rng, class: u32, width: u32, height: u32) -> Picture {
        let mut picture = match self.texture(class * PER_CLASS + rng.below(PER_CLASS)) {
            Some(texture) => self.frame(rng, texture, width, height),
            None => Picture::black(width, height),
        };
        for _ in 0..rng.within(2, 5) {
            place(rng, &mut picture);
        }
        if rng.below(2) == 0 {
            picture.planes.iter_mut().for_each(|plane| plane.mirror());
        }
        self.expose(rng, picture.planes[0].bytes_mut());
        picture
    }

    fn texture(&self, number: u32) -> Option<&Texture> {
        let texture = self.textures.get(number as usize)?;
        Some(texture.get_or_init(|| Texture::new(&mut Rng::new(self.seed, 12, number.into()), self.side as usize)))
    }

    fn frame(&self, rng: &mut Rng, texture: &Texture, width: u32, height: u32) -> Picture {
        let mut picture = Picture::black(width, height);
        // Even offsets, because the chroma has half the resolution.
        let (left, top) = (rng.below((self.side - width) / 2) as usize, rng.below((self.side - height) / 2) as usize);
        let [luma, cb, cr] = &texture.planes;
        let (half_width, half_height) = (width.div_ceil(2) as usize, height.div_ceil(2) as usize);
        picture.planes = [
            luma.crop(left * 2, top * 2, width as usize, height as usize),
            cb.crop(left, top, half_width, half_height),
            cr.crop(left, top, half_width, half_height),
        ];
        picture
    }

    /// Applies gain and grain; a new stretch of grain about every 32 lines.
    fn expose(&self, rng: &mut Rng, luma: &mut [u8]) {
        let gain = rng.within(54, 70) as i16;
        let strength = rng.within(6, 9) as i16;
        for part in luma.chunks_mut(8192) {
            let start = rng.below((GRAIN - 8192) as u32) as usize;
            for (value, grain) in part.iter_mut().zip(self.grain.get(start..).unwrap_or_default()) {
                let lit = ((i16::from(*value) * gain) >> 6) + ((i16::from(*grain) * strength) >> 3);
                *value = lit.clamp(0, 255) as u8;
            }
        }
    }
}

/// Paints an ellipse of one colour, translucent half of the time.
fn place(rng: &mut Rng, picture: &mut Picture) {
    let (width, height) = (picture.width, picture.height);
    let (rx, ry) = (2 + rng.within(width / 16, width / 4), 2 + rng.within(height / 16, height / 4));
    let (cx, cy) = (rng.below(width), rng.below(height));
    let share = if rng.below(2) == 0 { 224 } else { 96 };
    let [luma, cb, cr] = &mut picture.planes;
    luma.paint((cx, cy), (rx, ry), rng.within(20, 235), share);
    for chroma in [cb, cr] {
        chroma.paint((cx / 2, cy / 2), (rx / 2, ry / 2), rng.within(80, 176), share);
    }
}
