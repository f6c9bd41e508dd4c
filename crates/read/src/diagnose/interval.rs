//! Medians of a few measurements, and how sure they are.

/// The median of several measurements, and an interval that has the true one in about 95 % of cases: of three measurements in
/// 75 %.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    /// The median.
    pub median: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// Of these measurements, by order statistics (Conover, Practical Nonparametric Statistics, 3.2); zeros without any.
    pub(crate) fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let n = sorted.len() as f64;
        let out = ((n - 1.96 * n.sqrt()) / 2.0).floor().max(0.0) as usize;
        let at = |number: usize| sorted.get(number).copied().unwrap_or_default();
        Self { median: median(&sorted), low: at(out), high: at(sorted.len().saturating_sub(1 + out)) }
    }

    /// The interval of the reciprocal: steps per second from seconds per step.
    pub fn inverse(self) -> Self {
        let of = |value: f64| 1.0 / value.max(1e-9);
        Self { median: of(self.median), low: of(self.high), high: of(self.low) }
    }
}

/// The median of sorted values; 0 without any.
fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    let at = |number: usize| sorted.get(number).copied().unwrap_or_default();
    if sorted.len().is_multiple_of(2) { (at(middle.wrapping_sub(1)) + at(middle)) / 2.0 } else { at(middle) }
}

/// The median of values in any order.
pub(super) fn median_of(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    median(&values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_give_their_whole_range_and_many_less() {
        let of = |values: &[f64]| Interval::of(values);
        assert_eq!(of(&[3.0, 1.0, 2.0]), Interval { median: 2.0, low: 1.0, high: 3.0 });
        assert_eq!(of(&[4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert_eq!(of(&[]), Interval::default());
        let many: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(of(&many), Interval { median: 49.5, low: 40.0, high: 59.0 });
        assert_eq!(of(&[0.5, 0.25]).inverse(), Interval { median: 1.0 / 0.375, low: 2.0, high: 4.0 });
    }
}
