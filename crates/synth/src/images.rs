//! Synthetic photographs. Owns files and classes; pixels come from `scene`, bytes from `picture`.

mod picture;
mod plane;
mod scene;
mod texture;

use crate::file_generator::FileGenerator;
use crate::rng::Rng;
use crate::{Run, Written, write};
use packhorse_core::{Error, Result};
use scene::Scenes;
use std::ops::RangeInclusive;
use std::path::Path;

/// The classes, as in CIFAR-10.
const CLASSES: [&str; 10] = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"];

/// Supported sides in pixels.
const SIDES: RangeInclusive<u32> = 16..=2048;

/// A corpus of JPEGs that compress like photographs, `horse/000001.jpg`: numbered over all classes, with a random
/// class per file. Baseline, 4:2:0, RGB, without EXIF.
///
/// With the default sides a file has 10 to 25 KB, 16 KB on average, at qualities 85 to 89.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImagesSpec {
    /// Number of files.
    pub count: u64,
    /// Determines every byte.
    pub seed: u64,
    /// Number of classes, 1 to 10.
    pub classes: u32,
    /// The range of widths and heights in pixels, within 16 to 2048.
    pub sides: RangeInclusive<u32>,
}

impl Default for ImagesSpec {
    /// 1,000 files in 10 classes, sides from 224 to 256.
    fn default() -> Self {
        Self { count: 1000, seed: 0, classes: 10, sides: 224..=256 }
    }
}

/// Writes the corpus of `spec` into `dir`. A `Config` error if the folder holds other files.
pub fn images(dir: &Path, spec: &ImagesSpec, run: &Run<'_>) -> Result<Written> {
    if !(1..=CLASSES.len() as u32).contains(&spec.classes) {
        return Err(Error::config(format!("{} classes; give 1 to {}", spec.classes, CLASSES.len())));
    }
    let (low, high) = (*spec.sides.start(), *spec.sides.end());
    if !SIDES.contains(&low) || !SIDES.contains(&high) || low > high {
        let text = format!("sides of {low} to {high} pixels; give {} to {}", SIDES.start(), SIDES.end());
        return Err(Error::config(text));
    }
    write::write(dir, &Photographs { spec, scenes: Scenes::new(spec.seed, high, spec.classes) }, run)
}

struct Photographs<'a> {
    spec: &'a ImagesSpec,
    scenes: Scenes,
}

impl Photographs<'_> {
    fn class(&self, index: u64) -> u32 {
        Rng::new(self.spec.seed, 10, index).below(self.spec.classes)
    }
}

impl FileGenerator for Photographs<'_> {
    fn files(&self) -> u64 {
        self.spec.count
    }

    fn name(&self, index: u64) -> String {
        let class = CLASSES.get(self.class(index) as usize).unwrap_or(&"other");
        format!("{class}/{:06}.jpg", index + 1)
    }

    fn fill(&self, index: u64, out: &mut Vec<u8>) -> Result<()> {
        let mut rng = Rng::new(self.spec.seed, 1, index);
        let (low, high) = (*self.spec.sides.start(), *self.spec.sides.end());
        let (width, height) = (rng.within(low, high), rng.within(low, high));
        self.scenes.shoot(&mut rng, self.class(index), width, height).encode(rng.within(85, 89), out)
    }
}
