//! Textures with the spectrum of photographs. Owns the fractal noise; knows no scene.

use super::plane::Plane;
use crate::rng::Rng;

/// A square of YCbCr with the chroma at half the side.
pub(super) struct Texture {
    pub(super) planes: [Plane; 3],
}

impl Texture {
    /// Fractal detail, darker towards the bottom, over two blended colours.
    pub(super) fn new(rng: &mut Rng, side: usize) -> Self {
        let mut detail = fractal(rng, side, 96, 5);
        for (y, line) in detail.lines_mut().enumerate() {
            let light = 256 - y * 64 / side;
            line.iter_mut().for_each(|v| *v = ((usize::from(*v) * 3 / 4 + 40) * light / 256) as u8);
        }
        let blend = fractal(rng, side / 2, 80, 2);
        let [cb, cr] = [0, 1].map(|_| {
            let (a, b) = (rng.within(90, 166), rng.within(90, 166));
            blend.map(|share| ((a * (255 - u32::from(share)) + b * u32::from(share)) / 255) as u8)
        });
        Self { planes: [detail, cb, cr] }
    }
}

/// Value noise: each octave has half the cell size and amplitude, starting at `cell` pixels.
fn fractal(rng: &mut Rng, side: usize, cell: usize, octaves: u32) -> Plane {
    let mut sum = Plane::new(side, side);
    for octave in 0..octaves {
        add_noise(rng, &mut sum, cell >> octave, 128 >> octave);
    }
    sum
}

/// Adds smooth noise from 0 to `height` between lattice points `cell` pixels apart.
fn add_noise(rng: &mut Rng, sum: &mut Plane, cell: usize, height: u32) {
    let points = sum.width() / cell + 2;
    let lattice: Vec<u32> = (0..points * points).map(|_| rng.below(height + 1)).collect();
    let weights: Vec<u32> = (0..cell as u32).map(|i| smooth(i * 256 / cell as u32)).collect();
    let rows: Vec<&[u32]> = lattice.chunks_exact(points).collect();
    for (y, line) in sum.lines_mut().enumerate() {
        let (down, pair) = (weights[y % cell], &rows[y / cell..][..2]);
        let column: Vec<u32> = pair[0].iter().zip(pair[1]).map(|(a, b)| a * (256 - down) + b * down).collect();
        for (cells, ends) in line.chunks_mut(cell).zip(column.windows(2)) {
            for (value, right) in cells.iter_mut().zip(&weights) {
                *value += ((ends[0] * (256 - right) + ends[1] * right) >> 16) as u8;
            }
        }
    }
}

/// 3t² − 2t³ in 1/256.
fn smooth(t: u32) -> u32 {
    t * t * (768 - 2 * t) / 65_536
}
