//! Which dataset of a blend is furthest behind its share: an argmax over all of them, at every sample.
//!
//! The rule is one of 64-bit floats, and of their rounding: at `y`, dataset `k` with weight `w[k]` has an error
//! of `w[k]·y − c[k]`, two operations, and the first of the greatest errors counts. No order statistics over
//! exact numbers give the same, so errors are really computed; but only where they can matter. Datasets stand
//! in blocks. A block's greatest error, once known, grows by at most its greatest weight a step, so that a
//! block whose bound is under the best error found need not be looked at.

/// Datasets a block, a multiple of what a vector register holds.
const BLOCK: usize = 16;
/// Rounding errors in a bound are below this many units of its largest term. There are about five.
const SLACK: f64 = 64.0 * f64::EPSILON;

type Block = [f64; BLOCK];

/// The state of a blend: how many samples each dataset has given.
pub(crate) struct Lead {
    weights: Vec<Block>,
    /// Samples given; infinite for a dataset that has no more.
    given: Vec<Block>,
    /// Of each block, the greatest weight.
    steepest: Vec<f64>,
    /// Of each block, `bound + steepest · y` is over its errors at `y`.
    bound: Vec<f64>,
    now: Vec<f64>,
    slack: f64,
}

impl Lead {
    /// `last` is the greatest `y` that will be asked for; the weights are finite and not negative.
    pub(crate) fn new(weights: &[f64], last: f64) -> Self {
        let blocks = |values: &mut dyn Iterator<Item = f64>, pad: f64| -> Vec<Block> {
            let count = weights.len().div_ceil(BLOCK);
            (0..count).map(|_| [(); BLOCK].map(|()| values.next().unwrap_or(pad))).collect()
        };
        let given = blocks(&mut weights.iter().map(|_| 0.0), f64::INFINITY);
        let weights = blocks(&mut weights.iter().copied(), 0.0);
        let steepest: Vec<f64> = weights.iter().map(|block| block.iter().copied().fold(0.0, f64::max)).collect();
        let slack = steepest.iter().copied().fold(1.0, f64::max) * last.max(1.0) * SLACK;
        let bound = vec![f64::INFINITY; weights.len()];
        let now = bound.clone();
        Self { weights, given, steepest, bound, now, slack }
    }

    /// The dataset with the greatest error at `y`, the first of several, and how many samples it had given;
    /// it has given one more then. `y` never falls from call to call.
    #[inline]
    pub(crate) fn next(&mut self, y: f64) -> (usize, f64) {
        let (block, error) = if self.weights.len() == 1 { (0, self.greatest(0, y)) } else { self.best(y) };
        let (weights, given) = (&self.weights[block], &mut self.given[block]);
        let mut found = 0;
        for (at, (weight, given)) in weights.iter().zip(given.iter()).enumerate().rev() {
            found = if weight * y - given == error { at } else { found };
        }
        let given = &mut given[found];
        let had = *given;
        *given += 1.0;
        (block * BLOCK + found, had)
    }

    /// Takes a dataset out: it has no more samples.
    pub(crate) fn spend(&mut self, dataset: usize) {
        self.given[dataset / BLOCK][dataset % BLOCK] = f64::INFINITY;
    }

    /// The block that holds the first of the greatest errors, and that error.
    #[inline]
    fn best(&mut self, y: f64) -> (usize, f64) {
        for ((now, bound), steepest) in self.now.iter_mut().zip(&self.bound).zip(&self.steepest) {
            *now = bound + steepest * y;
        }
        let (mut block, mut error) = (0, f64::NEG_INFINITY);
        loop {
            let (candidate, over) = highest(&self.now);
            if over < error || over == f64::NEG_INFINITY {
                return (block, error);
            }
            let greatest = self.greatest(candidate, y);
            self.bound[candidate] = greatest - self.steepest[candidate] * y + self.slack;
            self.now[candidate] = f64::NEG_INFINITY;
            if greatest > error || greatest == error && candidate < block {
                (block, error) = (candidate, greatest);
            }
        }
    }

    #[inline]
    fn greatest(&self, block: usize, y: f64) -> f64 {
        let mut greatest = [f64::NEG_INFINITY; 4];
        let (weights, given) = (self.weights[block].as_chunks().0, self.given[block].as_chunks().0);
        for (weights, given) in weights.iter().zip(given) {
            let pairs: (&[f64; 4], &[f64; 4]) = (weights, given);
            for (greatest, (weight, given)) in greatest.iter_mut().zip(pairs.0.iter().zip(pairs.1)) {
                let error = weight * y - given;
                *greatest = if error > *greatest { error } else { *greatest };
            }
        }
        let [a, b, c, d] = greatest;
        a.max(b).max(c.max(d))
    }
}

/// The first of the greatest values, and where it is.
#[inline]
fn highest(values: &[f64]) -> (usize, f64) {
    let (mut at, mut most) = (0, f64::NEG_INFINITY);
    for (here, &value) in values.iter().enumerate() {
        if value > most {
            (at, most) = (here, value);
        }
    }
    (at, most)
}
