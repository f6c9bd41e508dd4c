//! Selects, of at most 32 datasets, the one that is furthest behind its share: the rule of
//! [`BlendScheduler`](crate::blend_scheduler::BlendScheduler) for one block.
//!
//! All errors are computed for every sample, in whole registers. The comparison mask itself increments the count of the
//! leading dataset, so the next sample's errors depend neither on its number nor on a scalar store.

use wide::f64x2;

/// The state of a blend of at most `P` pairs of datasets, a power of two.
pub(crate) struct SmallBlendScheduler<const P: usize> {
    weights: [f64x2; P],
    /// Samples given; infinite past the last dataset.
    given: [f64x2; P],
    /// The number of each dataset plus 4·`P`: the sum over the leading datasets tells whether there is one, and which.
    marks: [f64x2; P],
}

impl<const P: usize> SmallBlendScheduler<P> {
    /// The weights are finite and not negative.
    pub(crate) fn new(weights: &[f64]) -> Self {
        let pairs = |value: &dyn Fn(usize) -> f64| {
            let mut at = 0;
            [(); P].map(|()| {
                at += 2;
                f64x2::new([value(at - 2), value(at - 1)])
            })
        };
        Self {
            weights: pairs(&|at| weights.get(at).copied().unwrap_or_default()),
            given: pairs(&|at| if at < weights.len() { 0.0 } else { f64::INFINITY }),
            marks: pairs(&|at| (4 * P + at) as f64),
        }
    }

    /// The first dataset with the greatest error at `y`, and how many samples it had given before; counts this sample.
    #[inline(always)]
    pub(crate) fn next(&mut self, y: f64) -> (usize, f64) {
        let mut errors = self.weights;
        for (error, given) in errors.iter_mut().zip(&self.given) {
            *error = *error * f64x2::splat(y) - *given;
        }
        let [a, b] = joined(errors, f64x2::fast_max).to_array();
        let most = f64x2::splat(if a > b { a } else { b });
        let mut leads = errors;
        leads.iter_mut().for_each(|error| *error = error.simd_ge(most));
        let mut marks = leads;
        for (lead, mark) in marks.iter_mut().zip(&self.marks) {
            *lead &= *mark;
        }
        let sum = joined(marks, |a, b| a + b).reduce_add() as u32 as usize;
        if sum >= 8 * P {
            return self.first(&marks);
        }
        let found = sum % (2 * P);
        let had = self.given[found / 2].as_array()[found % 2];
        for (given, lead) in self.given.iter_mut().zip(&leads) {
            *given += *lead & f64x2::ONE;
        }
        (found, had)
    }

    /// The first of several leading datasets, whose marks are not zero.
    #[inline(never)]
    fn first(&mut self, marks: &[f64x2; P]) -> (usize, f64) {
        let mut all = marks.iter().flat_map(|pair| pair.to_array());
        let found = all.position(|mark| mark > 0.0).unwrap_or_default();
        let had = self.given[found / 2].as_array()[found % 2];
        // Whole registers: a single scalar store would stall the next vector load.
        for (given, mark) in self.given.iter_mut().zip(&self.marks) {
            *given += mark.simd_eq(f64x2::splat((4 * P + found) as f64)) & f64x2::ONE;
        }
        (found, had)
    }
}

/// Reduces all values by halves.
#[inline(always)]
fn joined<T: Copy, const N: usize>(mut values: [T; N], join: impl Fn(T, T) -> T) -> T {
    let mut count = N;
    while count > 1 {
        count /= 2;
        for at in 0..count {
            values[at] = join(values[at], values[at + count]);
        }
    }
    values[0]
}
