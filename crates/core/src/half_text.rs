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
    if half.to_f64().fract() == 0.0 {
        return half.to_f64();
    }
    let digits = (0..6).filter_map(|digits| format!("{:.*e}", digits, half.to_f64()).parse::<f64>().ok());
    let mut same = digits.filter(|number| Half::from_f64(*number) == half);
    same.next().unwrap_or(half.to_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_have_the_fewest_digits() {
        for (number, text) in
            [(4.8, "4.8"), (0.1, "0.1"), (65504.0, "65504.0"), (-0.0, "-0.0"), (6e-8, "6e-8"), (1.0 / 3.0, "0.3333")]
        {
            assert_eq!(format!("{:?}", shortest_half(Half::from_f64(number))), text);
        }
        assert!(shortest_half(Half::from_f64(f64::NAN)).is_nan());
    }
}
