//! NumPy archives. Owns their arrays; `archive` writes the bytes.

mod archive;

use crate::file_generator::FileGenerator;
use crate::rng::{Rng, exp2};
use crate::{Run, Written, write};
use archive::Archive;
use packhorse_core::Result;
use std::path::Path;

/// Files per folder.
const PER_FOLDER: u64 = 1000;

/// A corpus of `.npz` files, `000/000001.npz`, a thousand per folder, with the members
///
/// * `x`: float32 `[16, 16]`, a smooth bump with noise;
/// * `y`: int64 `[]`, a class from 0 to 9;
/// * `t`: float32 `[n]`, a random walk of 1 to 512 steps, median 24 (ragged).
///
/// Written like `numpy.savez`: stored, dated 1980-01-01.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NpzSpec {
    /// Number of files.
    pub count: u64,
    /// Determines every byte.
    pub seed: u64,
}

impl Default for NpzSpec {
    /// 1,000 files.
    fn default() -> Self {
        Self { count: 1000, seed: 0 }
    }
}

/// Writes the corpus of `spec` into `dir`. A `Config` error if the folder holds other files.
pub fn npz(dir: &Path, spec: &NpzSpec, run: &Run<'_>) -> Result<Written> {
    write::write(dir, spec, run)
}

impl FileGenerator for NpzSpec {
    fn files(&self) -> u64 {
        self.count
    }

    fn name(&self, index: u64) -> String {
        format!("{:03}/{:06}.npz", index / PER_FOLDER, index + 1)
    }

    fn fill(&self, index: u64, out: &mut Vec<u8>) -> Result<()> {
        let mut rng = Rng::new(self.seed, 3, index);
        let class = rng.below(10);
        let mut archive = Archive::new(out);
        archive.add("x", "<f4", "(16, 16)", &floats(bump(&mut rng, class)));
        archive.add("y", "<i8", "()", &i64::from(class).to_le_bytes());
        let walk = walk(&mut rng);
        archive.add("t", "<f4", &format!("({},)", walk.len()), &floats(walk));
        archive.finish();
        Ok(())
    }
}

fn floats(values: Vec<f32>) -> Vec<u8> {
    values.into_iter().flat_map(f32::to_le_bytes).collect()
}

/// 16 × 16 values from 0 to 1: a bump at the class's position, plus noise.
fn bump(rng: &mut Rng, class: u32) -> Vec<f32> {
    let (cx, cy) = (class as i32 % 4 * 4 + 2, class as i32 / 4 * 5 + 2);
    let height = |i: i32| {
        let (dx, dy) = (i % 16 - cx, i / 16 - cy);
        let noise = rng.below(1024) as f32 / 8192.0;
        noise + 0.875 / (1 + dx * dx + dy * dy) as f32
    };
    (0..256).map(height).collect()
}

/// A random walk of log-normal length.
fn walk(rng: &mut Rng) -> Vec<f32> {
    let length = (24.0 * exp2(rng.normal() * 1.2)).clamp(1.0, 512.0) as usize;
    let mut at = 0_i32;
    let step = |_| {
        at += rng.below(129) as i32 - 64;
        at as f32 / 64.0
    };
    (0..length).map(step).collect()
}
