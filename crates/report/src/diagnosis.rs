//! A diagnosis of a training loop on a page: what `packhorse diagnose --json` printed.

use crate::chart::{Chart, number};
use crate::page::Page;
use packhorse_core::{Error, Result};
use serde::Deserialize;

/// A diagnosis, for a page.
#[derive(Clone, Debug, Deserialize)]
pub struct DiagnosisResult {
    bottleneck: String,
    notes: Vec<String>,
    cuts: Vec<CutResult>,
    supply: Rate,
    remedies: Vec<RemedyResult>,
}

#[derive(Clone, Debug, Deserialize)]
struct CutResult {
    cut: String,
    says: String,
    steps_per_s: Rate,
}

#[derive(Clone, Debug, Deserialize)]
struct Rate {
    median: f64,
    low: f64,
    high: f64,
}

#[derive(Clone, Debug, Deserialize)]
struct RemedyResult {
    name: String,
    says: String,
    predicted: f64,
    observed: Option<Rate>,
}

impl DiagnosisResult {
    /// Reads what `packhorse diagnose --json` printed.
    ///
    /// Errors (kind `Config`): something else.
    pub fn from_json(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|e| {
            Error::config(format!("is not a diagnosis: {e}")).hint("give what packhorse diagnose --json prints")
        })
    }

    /// The chart of its cuts, and its remedies.
    pub(crate) fn show(&self, page: &mut Page) {
        page.heading("What a training loop waits for");
        page.text(&match self.bottleneck.as_str() {
            "step" => "It is not the data: the loop is as fast as its steps.".to_owned(),
            other => format!("The loop waits for: {other}."),
        });
        self.notes.iter().for_each(|note| page.text(&format!("Also: {note}.")));
        let labels = self.cuts.iter().map(|cut| cut.cut.clone()).chain(["supply".to_owned()]);
        let rates = self.cuts.iter().map(|cut| cut.steps_per_s.median).chain([self.supply.median]);
        page.charts(&[Chart {
            title: "Steps per second, served from memory at one stage after the other".to_owned(),
            labels: labels.collect(),
            series: vec![("steps per second".to_owned(), rates.collect())],
            upright: false,
        }]);
        let range = |rate: &Rate| format!("{} to {}", number(rate.low), number(rate.high));
        let row = |cut: &CutResult| vec![cut.cut.clone(), range(&cut.steps_per_s), cut.says.clone()];
        let mut rows: Vec<_> = self.cuts.iter().map(row).collect();
        rows.push(vec!["supply".to_owned(), range(&self.supply), "the loader, if steps took no time".to_owned()]);
        page.table(&["", "steps/s", "served from"], &rows);
        if !self.remedies.is_empty() {
            let row = |remedy: &RemedyResult| {
                let observed = remedy.observed.as_ref().map_or_else(String::new, |rate| number(rate.median));
                vec![remedy.name.clone(), number(remedy.predicted), observed, remedy.says.clone()]
            };
            let rows: Vec<_> = self.remedies.iter().map(row).collect();
            page.table(&["what helps", "predicted steps/s", "observed", ""], &rows);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diagnosis_is_shown_and_nothing_else_is_one() {
        let rate = r#"{"median": 4.0, "low": 3.5, "high": 4.5}"#;
        let text = format!(
            r#"{{"bottleneck": "decode", "notes": ["<b>"], "supply": {rate}, "cuts": [{{"cut": "device", "says":
            "steps", "steps_per_s": {rate}}}], "remedies": [{{"name": "threads", "says": "more of them", "predicted":
            8.0, "observed": null}}], "more": 1}}"#
        );
        let mut page = Page::new("x");
        DiagnosisResult::from_json(&text).unwrap().show(&mut page);
        let html = page.render();
        for part in
            ["The loop waits for: decode.", "Also: &lt;b&gt;.", "device", "3.50 to 4.50", "more of them", "<svg"]
        {
            assert!(html.contains(part), "no {part}: {html}");
        }
        for wrong in ["", "{}", r#"{"bottleneck": 3}"#] {
            let error = DiagnosisResult::from_json(wrong).unwrap_err();
            assert!(error.to_string().contains("is not a diagnosis"), "{error}");
        }
    }
}
