//! Which of a few datasets is furthest behind its share: [`Lead`](crate::lead::Lead)'s rule for one block.
//!
//! All errors are computed at every sample, and what follows from them is computed for all datasets alike, in whole
//! registers: the one that leads is raised by what the comparison itself says, so that the next sample's errors wait
//! neither for its number nor for a store of one place.

/// The state of a blend of at most `N` datasets, a power of two.
pub(crate) struct Few<const N: usize> {
    weights: [f64; N],
    /// Samples given; infinite behind the last dataset.
    given: [f64; N],
    /// Of each dataset its number plus 2·`N`, so that a sum of some says whether it is one, and which.
    marks: [f64; N],
}

impl<const N: usize> Few<N> {
    /// The weights are finite and not negative.
    pub(crate) fn new(weights: &[f64]) -> Self {
        let mut few = Self { weights: [0.0; N], given: [f64::INFINITY; N], marks: [0.0; N] };
        few.weights.iter_mut().zip(weights).for_each(|(place, weight)| *place = *weight);
        few.given.iter_mut().zip(weights).for_each(|(place, _)| *place = 0.0);
        few.marks.iter_mut().enumerate().for_each(|(at, mark)| *mark = (2 * N + at) as f64);
        few
    }

    /// The dataset with the greatest error at `y`, the first of several, and how many samples it had given;
    /// it has given one more then.
    #[inline(always)]
    pub(crate) fn next(&mut self, y: f64) -> (usize, f64) {
        let mut errors = self.weights;
        for (error, given) in errors.iter_mut().zip(&self.given) {
            *error = *error * y - given;
        }
        // Not `f64::max`, which minds NaN and is more than one instruction.
        let most = joined(errors, |a, b| if a > b { a } else { b });
        let leads = errors.map(|error| if error >= most { 1.0 } else { 0.0 });
        let mut marks = leads;
        for (lead, mark) in marks.iter_mut().zip(&self.marks) {
            *lead *= mark;
        }
        let sum = joined(marks, |a, b| a + b) as u32 as usize;
        if sum >= 4 * N {
            return self.first(&leads);
        }
        let found = sum % N;
        let had = self.given[found];
        for (given, lead) in self.given.iter_mut().zip(&leads) {
            *given += lead;
        }
        (found, had)
    }

    /// The first of several that lead.
    #[inline(never)]
    fn first(&mut self, leads: &[f64; N]) -> (usize, f64) {
        let found = leads.iter().position(|lead| *lead > 0.0).unwrap_or_default();
        let had = self.given[found];
        // Whole registers again: one number stored alone would hold up the next look at all of them.
        for (given, mark) in self.given.iter_mut().zip(&self.marks) {
            *given += if *mark == (2 * N + found) as f64 { 1.0 } else { 0.0 };
        }
        (found, had)
    }
}

/// All values joined, by halves.
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
