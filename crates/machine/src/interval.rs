//! The result of several rounds.

/// The median of some rounds, with the lowest and the highest of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    /// The middle one; of an even number the mean of the two in the middle.
    pub median: f64,
    /// The lowest.
    pub min: f64,
    /// The highest.
    pub max: f64,
    /// How many rounds there were.
    pub rounds: usize,
}

impl Interval {
    /// Of these rounds, in any order; zeros if there are none.
    pub fn of(mut rounds: Vec<f64>) -> Self {
        rounds.sort_by(f64::total_cmp);
        let at = |index: usize| rounds.get(index).copied().unwrap_or(0.0);
        let (last, middle) = (rounds.len().saturating_sub(1), rounds.len() / 2);
        Self { median: f64::midpoint(at(last / 2), at(middle)), min: at(0), max: at(last), rounds: rounds.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_lies_in_the_middle() {
        let of = |rounds: &[f64]| Interval::of(rounds.to_vec());
        assert_eq!(of(&[3.0, 1.0, 2.0]), Interval { median: 2.0, min: 1.0, max: 3.0, rounds: 3 });
        assert_eq!(of(&[4.0, 1.0, 3.0, 2.0]), Interval { median: 2.5, min: 1.0, max: 4.0, rounds: 4 });
        assert_eq!(of(&[4.0]), Interval { median: 4.0, min: 4.0, max: 4.0, rounds: 1 });
        assert_eq!(of(&[]), Interval::default());
    }
}
