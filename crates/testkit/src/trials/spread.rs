//! A median, and how sure it is.

use serde::{Deserialize, Serialize};

/// The median of some measurements, and the interval of order statistics around it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The one in the middle; the mean of two where there is none.
    pub median: f64,
    /// The lower end of the interval that holds the true median in 95 of 100 cases, whatever the distribution; of fewer than six
    /// measurements the least.
    pub low: f64,
    /// Its upper end, or the largest.
    pub high: f64,
}

impl Spread {
    /// Of measurements in any order; 0 of none.
    pub fn of(measured: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = measured.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let Some(last) = sorted.len().checked_sub(1) else { return Self::default() };
        let outside = outside(sorted.len());
        let middle = (sorted[last / 2] + sorted[last.div_ceil(2)]) / 2.0;
        Self { median: middle, low: sorted[outside], high: sorted[last - outside] }
    }

    /// How many times as fast, of a ratio of times.
    #[must_use]
    pub fn inverse(&self) -> Self {
        Self { median: 1.0 / self.median, low: 1.0 / self.high, high: 1.0 / self.low }
    }
}

/// How many of so many measurements lie outside of the interval on each side: the true median is below the k-th of n with the
/// probability that fewer than k of n fair coins show heads.
fn outside(count: usize) -> usize {
    let (mut ways, mut below, mut outside) = (1.0, 0.0, 0);
    for k in 0..count / 2 {
        below += ways / 2f64.powi(count as i32);
        if 2.0 * below > 0.05 {
            break;
        }
        outside = k;
        ways *= (count - k) as f64 / (k + 1) as f64;
    }
    outside
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_the_sign_test() {
        // D. B. Owen, Handbook of Statistical Tables, 1962: the ranks of 95 % intervals of a median, from 1.
        for (count, rank) in [(1, 1), (5, 1), (6, 1), (8, 1), (9, 2), (12, 3), (15, 4), (20, 6), (25, 8), (50, 18)] {
            assert_eq!(outside(count) + 1, rank, "of {count}");
        }
    }

    #[test]
    fn a_median_is_in_the_middle() {
        let spread = Spread::of([3.0, 1.0, 2.0]);
        assert_eq!(spread, Spread { median: 2.0, low: 1.0, high: 3.0 });
        assert_eq!(Spread::of([1.0, 4.0]).median, 2.5);
        assert_eq!(Spread::of((0..9).rev().map(f64::from)), Spread { median: 4.0, low: 1.0, high: 7.0 });
        assert_eq!(spread.inverse(), Spread { median: 0.5, low: 1.0 / 3.0, high: 1.0 });
        assert_eq!(Spread::of([]), Spread::default());
    }
}
