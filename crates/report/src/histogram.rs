//! Histograms of measured values.

use crate::chart::{Chart, number};

/// Bars of a histogram.
const BARS: usize = 24;

/// So many times larger than the smallest value the largest may be before the bars widen by a factor.
const WIDE: f64 = 50.0;

/// Values of one kind, one for each sample that has one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Measure {
    values: Vec<f64>,
}

impl Measure {
    pub(crate) fn push(&mut self, value: f64) {
        if value.is_finite() {
            self.values.push(value);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// The value below which this share of the values lies.
    pub(crate) fn quantile(&self, share: f64) -> Option<f64> {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get((share * sorted.len().saturating_sub(1) as f64).round() as usize).copied()
    }

    /// How many values lie between edges. Values of wide spread have bars that widen by a factor; a few integers have a bar
    /// each.
    pub(crate) fn histogram(&self, title: String) -> Option<Chart> {
        let (low, high) = (self.quantile(0.0)?, self.quantile(1.0)?);
        let edges = edges(low, high, self.values.iter().all(|value| value.fract() == 0.0));
        let mut counts = vec![0.0; edges.len().saturating_sub(1)];
        for value in &self.values {
            let at = edges.partition_point(|edge| edge <= value).saturating_sub(1).min(counts.len().saturating_sub(1));
            if let Some(count) = counts.get_mut(at) {
                *count += 1.0;
            }
        }
        let labels = edges.iter().take(counts.len()).map(|edge| number(*edge)).collect();
        Some(Chart { title, labels, series: vec![("samples".to_owned(), counts)], upright: true })
    }
}

/// The edges of the bars, ascending: one more than bars.
fn edges(low: f64, high: f64, integers: bool) -> Vec<f64> {
    let span = high - low;
    if integers && span < BARS as f64 {
        return (0..=span as usize + 1).map(|at| low + at as f64).collect();
    }
    let share = |at: usize| at as f64 / BARS as f64;
    match low > 0.0 && high / low > WIDE {
        true => (0..=BARS).map(|at| low * (high / low).powf(share(at))).collect(),
        false => (0..=BARS).map(|at| low + span * share(at)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(values: &[f64]) -> (Vec<String>, Vec<f64>) {
        let mut measure = Measure::default();
        values.iter().for_each(|value| measure.push(*value));
        let chart = measure.histogram(String::new()).unwrap();
        (chart.labels, chart.series[0].1.clone())
    }

    #[test]
    fn every_value_is_in_one_bar() {
        for values in [vec![5.0], vec![0.5; 9], vec![1.0, 2.0, 2.0, 9.0], vec![0.001, 1.0, 1e9], vec![-3.0, 4.5]] {
            let (labels, counts) = counts(&values);
            assert_eq!(counts.iter().sum::<f64>(), values.len() as f64, "{values:?}");
            assert_eq!(labels.len(), counts.len());
        }
    }

    #[test]
    fn few_integers_have_a_bar_each() {
        let (labels, counts) = counts(&[3.0, 5.0, 5.0]);
        assert_eq!((labels, counts), (vec!["3".into(), "4".into(), "5".into()], vec![1.0, 0.0, 2.0]));
    }

    #[test]
    fn quantiles() {
        let mut measure = Measure::default();
        assert_eq!(measure.quantile(0.5), None);
        [4.0, 1.0, 3.0, f64::NAN, 2.0, 5.0].into_iter().for_each(|value| measure.push(value));
        assert_eq!([0.0, 0.5, 1.0].map(|share| measure.quantile(share).unwrap()), [1.0, 3.0, 5.0]);
        assert_eq!(measure.len(), 5);
    }
}
