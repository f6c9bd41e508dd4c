//! numpy's sum of float64, and the weights divided by it.

/// `numpy.sum` of a contiguous float64 array: eight running sums per block of at most 128 values, and blocks summed
/// pairwise.
pub fn pairwise_sum(values: &[f64]) -> f64 {
    match values.len() {
        0..8 => values.iter().fold(0.0, |sum, value| sum + value),
        8..=128 => block_sum(values),
        many => {
            let half = many / 2;
            let (left, right) = values.split_at(half - half % 8);
            pairwise_sum(left) + pairwise_sum(right)
        }
    }
}

fn block_sum(values: &[f64]) -> f64 {
    let (eights, rest) = values.as_chunks::<8>();
    let mut sums = [0.0; 8];
    if let Some((first, others)) = eights.split_first() {
        sums = *first;
        for eight in others {
            for (sum, value) in sums.iter_mut().zip(eight) {
                *sum += value;
            }
        }
    }
    let [a, b, c, d, e, f, g, h] = sums;
    rest.iter().fold(((a + b) + (c + d)) + ((e + f) + (g + h)), |sum, value| sum + value)
}

/// The weights divided by their [`pairwise_sum`], as Megatron's `normalize` does.
pub fn normalized(weights: &[f64]) -> Vec<f64> {
    let sum = pairwise_sum(weights);
    weights.iter().map(|weight| weight / sum).collect()
}
