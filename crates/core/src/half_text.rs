//! Numbers of half precision as text.

use arrow_array::types::{ArrowPrimitiveType, Float16Type};

/// A number of half precision.
type Half = <Float16Type as ArrowPrimitiveType>::Native;

/// The number of the fewest digits that is rounded to this one, as NumPy prints it; a whole number as it is.
///
/// ```
/// use arrow_array::types::{ArrowPrimitiveType, Float16Type};
///
/// let tenth = <Float16Type as ArrowPrimitiveType>::Native::from_f32(0.1);
/// assert_eq!((tenth.to_f64(), packhorse_core::shortest_half(tenth)), (0.0999755859375, 0.1));
/// ```
pub fn shortest_half(half: Half) -> f64 {
    let exact = half.to_f64();
    if exact.fract() == 0.0 {
        return exact;
    }
    let decimal = |digits: usize, number: f64| format!("{number:.digits$e}").parse::<f64>().ok();
    // Below a power of two the halves lie closer: the decimal that is rounded to it may be the one above.
    let candidates = (0..6).flat_map(|digits| {
        let step = 10f64.powi(exact.abs().log10().floor() as i32 - digits as i32);
        [exact, exact + exact.signum() * step / 2.0].map(|near| decimal(digits, near))
    });
    let mut same = candidates.flatten().filter(|number| nearest_half(*number) == half);
    same.next().unwrap_or(exact)
}

/// The nearest half, ties to even. The way over the nearest `f32` would round twice, and `from_f64` of a half looks at the upper bits only
/// where processors have no instruction for it: here an inexact `f32` is odd, so that it is never taken for a tie.
pub fn nearest_half(wide: f64) -> Half {
    let near = wide as f32;
    let inexact = f64::from(near) != wide && !wide.is_nan();
    if !inexact || near.to_bits() & 1 == 1 {
        return Half::from_f32(near);
    }
    let towards_zero = f64::from(near).abs() > wide.abs();
    Half::from_f32(f32::from_bits(if towards_zero { near.to_bits() - 1 } else { near.to_bits() + 1 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_have_the_fewest_digits() {
        for (number, text) in [
            (4.8, "4.8"),
            (0.1, "0.1"),
            (65504.0, "65504.0"),
            (-0.0, "-0.0"),
            (6e-8, "6e-8"),
            (1.0 / 3.0, "0.3333"),
            (0.015_625, "0.01563"),
            (-0.015_625, "-0.01563"),
        ] {
            assert_eq!(format!("{:?}", shortest_half(Half::from_f64(number))), text);
        }
        assert!(shortest_half(Half::from_f64(f64::NAN)).is_nan());
        for bits in 0..=u16::MAX {
            let half = Half::from_bits(bits);
            assert!(half.is_nan() || nearest_half(shortest_half(half)) == half, "{bits:04x}");
        }
    }
}
