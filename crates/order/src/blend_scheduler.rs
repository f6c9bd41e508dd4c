//! Selects the dataset of a blend that is furthest behind its share: an argmax over all datasets for every sample.
//!
//! The rule is defined by 64-bit floats and their rounding: at `y`, dataset `k` of weight `w[k]` that has given `c[k]`
//! samples has the error `w[k]·y − c[k]`, in two operations, and the first dataset with the greatest error is next.
//! Exact arithmetic would give other results, so the errors are computed, but only where they can matter: datasets are
//! grouped in blocks. The greatest error of a block grows by at most its greatest weight per step, so blocks whose
//! bound is below the best error found are skipped.

/// Datasets per block, a multiple of the lanes of a vector register.
const BLOCK: usize = 16;
/// Blocks whose bounds are compared together.
const GROUP: usize = 8;
/// A bound on the relative rounding error of a bound's largest term: far above the about five roundings it takes.
const SLACK: f64 = 64.0 * f64::EPSILON;

/// Row `i` has 1 at `i` and 0 elsewhere.
const ONE: [[f64; BLOCK]; BLOCK] = {
    let (mut ones, mut at) = ([[0.0; BLOCK]; BLOCK], 0);
    while at < BLOCK {
        ones[at][at] = 1.0;
        at += 1;
    }
    ones
};

/// The state of a blend: how many samples each dataset has given.
pub(crate) struct BlendScheduler {
    weights: Vec<[f64; BLOCK]>,
    /// Samples given; infinite for a dataset that has no more.
    given: Vec<[f64; BLOCK]>,
    bounds: Vec<Bounds>,
    /// The block to try first: the runner-up of the last call.
    guess: usize,
    slack: f64,
}

/// For each block of a group, `level + steepest · y` is an upper bound on its errors at `y`.
struct Bounds {
    level: [f64; GROUP],
    /// The greatest weight of each block.
    steepest: [f64; GROUP],
}

impl BlendScheduler {
    /// `last` is the greatest `y` of all calls; the weights are finite and not negative.
    pub(crate) fn new(weights: &[f64], last: f64) -> Self {
        let blocks = weights.len().div_ceil(BLOCK);
        let spread = |pad: f64, value: &dyn Fn(f64) -> f64| -> Vec<[f64; BLOCK]> {
            let mut values = weights.iter().map(|&weight| value(weight));
            (0..blocks).map(|_| [(); BLOCK].map(|()| values.next().unwrap_or(pad))).collect()
        };
        let (given, weights) = (spread(f64::INFINITY, &|_| 0.0), spread(0.0, &|weight| weight));
        let steepest = weights.iter().map(|block| block.iter().copied().fold(0.0, f64::max));
        let slack = steepest.clone().fold(1.0, f64::max) * last.max(1.0) * SLACK;
        // Padding blocks never match. Other blocks start unbounded, and their first evaluation sets the level.
        let mut real = steepest.map(|steepest| (f64::INFINITY, steepest));
        let bounds = (0..blocks.div_ceil(GROUP)).map(|_| {
            let pairs = [(); GROUP].map(|()| real.next().unwrap_or((f64::NEG_INFINITY, 0.0)));
            Bounds { level: pairs.map(|pair| pair.0), steepest: pairs.map(|pair| pair.1) }
        });
        let bounds = bounds.collect();
        Self { weights, given, bounds, guess: 0, slack }
    }

    /// The first dataset with the greatest error at `y`, and how many samples it had given before; counts this sample.
    /// `y` never decreases from call to call.
    #[inline]
    pub(crate) fn next(&mut self, y: f64) -> (usize, f64) {
        let (block, error) = if self.weights.len() == 1 { (0, None) } else { self.best(y) };
        let errors = self.errors(block, y);
        let error = error.unwrap_or_else(|| top(&errors));
        let flags = errors.map(|this| u8::from(this >= error));
        let found = u128::from_le_bytes(flags).trailing_zeros() as usize / 8 % BLOCK;
        let given = &mut self.given[block];
        let had = given[found];
        // Whole registers: a single scalar store would stall the next vector load of the block.
        for (given, one) in given.iter_mut().zip(&ONE[found]) {
            *given += one;
        }
        (block * BLOCK + found, had)
    }

    /// Excludes a dataset that has no more samples.
    pub(crate) fn spend(&mut self, dataset: usize) {
        self.given[dataset / BLOCK][dataset % BLOCK] = f64::INFINITY;
    }

    /// The first block with the greatest error, and that error.
    fn best(&mut self, y: f64) -> (usize, Option<f64>) {
        let mut block = self.guess;
        let mut error = top(&self.errors(block, y));
        let mut second = (block, f64::NEG_INFINITY);
        for group in 0..self.bounds.len() {
            let bounds = &self.bounds[group];
            let mut now = bounds.level;
            for (now, steepest) in now.iter_mut().zip(&bounds.steepest) {
                *now += steepest * y;
            }
            if highest(&now) < error {
                continue;
            }
            for (at, &now) in now.iter().enumerate() {
                let candidate = group * GROUP + at;
                if now < error || now == f64::NEG_INFINITY || candidate == self.guess {
                    continue;
                }
                let greatest = top(&self.errors(candidate, y));
                let bounds = &mut self.bounds[group];
                bounds.level[at] = greatest - bounds.steepest[at] * y + self.slack;
                if greatest > error || greatest == error && candidate < block {
                    second = (block, error);
                    (block, error) = (candidate, greatest);
                } else if greatest > second.1 {
                    second = (candidate, greatest);
                }
            }
        }
        self.guess = second.0;
        (block, Some(error))
    }

    #[inline]
    fn errors(&self, block: usize, y: f64) -> [f64; BLOCK] {
        let mut errors = self.weights[block];
        for (error, given) in errors.iter_mut().zip(&self.given[block]) {
            *error = *error * y - given;
        }
        errors
    }
}

/// The greatest error of a block.
#[inline]
fn top(errors: &[f64; BLOCK]) -> f64 {
    let (low, high) = errors.split_at(BLOCK / 2);
    let mut eight = [0.0; BLOCK / 2];
    for (place, (a, b)) in eight.iter_mut().zip(low.iter().zip(high)) {
        *place = greater(*a, *b);
    }
    highest(&eight)
}

/// The greatest of eight, by pairwise comparison.
#[inline]
fn highest(&[a, b, c, d, e, f, g, h]: &[f64; 8]) -> f64 {
    let four = [greater(a, e), greater(b, f), greater(c, g), greater(d, h)];
    greater(greater(four[0], four[2]), greater(four[1], four[3]))
}

/// Compiles to one instruction, unlike [`f64::max`], which handles NaN.
#[inline]
fn greater(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}
