//! One channel of an image. Owns its lines; knows no colour.

/// Bytes, row-major.
#[derive(Clone, Debug)]
pub(super) struct Plane {
    width: usize,
    bytes: Vec<u8>,
}

impl Plane {
    /// All zero. Neither side is 0.
    pub(super) fn new(width: usize, height: usize) -> Self {
        Self { width, bytes: vec![0; width * height] }
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    pub(super) fn lines_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.bytes.chunks_exact_mut(self.width)
    }

    /// Line `y`; empty past the end.
    pub(super) fn line(&self, y: usize) -> &[u8] {
        self.bytes.get(y * self.width..(y + 1) * self.width).unwrap_or_default()
    }

    pub(super) fn map(&self, f: impl Fn(u8) -> u8) -> Self {
        Self { width: self.width, bytes: self.bytes.iter().map(|v| f(*v)).collect() }
    }

    /// The part of `width` × `height` at (`left`, `top`), which must lie inside.
    pub(super) fn crop(&self, left: usize, top: usize, width: usize, height: usize) -> Self {
        let mut bytes = Vec::with_capacity(width * height);
        for y in top..top + height {
            bytes.extend_from_slice(self.line(y).get(left..left + width).unwrap_or_default());
        }
        Self { width, bytes }
    }

    pub(super) fn mirror(&mut self) {
        self.lines_mut().for_each(<[u8]>::reverse);
    }

    /// Blends `share` / 256 of `value` into the ellipse around `centre`.
    pub(super) fn paint(&mut self, centre: (u32, u32), radii: (u32, u32), value: u32, share: u32) {
        let ((cx, cy), (rx, ry)) = (centre, radii);
        let (first, wide) = (cy.saturating_sub(ry), self.width as u32);
        for (y, line) in self.lines_mut().enumerate().skip(first as usize).take((cy + ry - first) as usize) {
            let dy = cy.abs_diff(y as u32);
            let half = rx * (ry * ry - dy * dy).isqrt() / ry;
            let span = cx.saturating_sub(half).min(wide) as usize..(cx + half).min(wide) as usize;
            for v in line.get_mut(span).unwrap_or_default() {
                *v = ((u32::from(*v) * (256 - share) + value * share) >> 8) as u8;
            }
        }
    }
}
