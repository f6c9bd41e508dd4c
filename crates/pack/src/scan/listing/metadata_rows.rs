//! The rows of the metadata that belong to samples.

use super::{Listing, SampleRef};
use crate::OnError;
use crate::metadata::{Metadata, is_number};
use packhorse_core::{Code, Error, Event, Observer, Result};

impl Listing {
    /// Gives each sample the row of its key, or of the last part of its key. A sample without a row is a bad input;
    /// rows without a sample are a warning.
    pub fn attach_metadata(&mut self, metadata: &Metadata, on_error: OnError, observer: &dyn Observer) -> Result<()> {
        let (mut rows, mut json, mut faults) = (Vec::with_capacity(self.samples()), String::new(), Vec::new());
        for sample in self.iter() {
            let key = sample.key();
            let key = key.trim_end_matches('/').to_owned();
            let base = key.rsplit('/').next().unwrap_or_default();
            let found = row_of(metadata, &sample, &key, base);
            if let Some((_, true)) = found {
                let message = format!("the row {base} of the metadata fits other samples too, in other folders");
                let error = Error::config(message).with_code(Code::KeyTwice).in_sample(&key);
                return Err(error.hint("give whole keys in the table, such as cat/0001 for cat/0001.jpg"));
            }
            let row = found.map(|(row, _)| row).unwrap_or_else(|| {
                let fault = Error::content("has no row in the metadata").with_code(Code::NoMetadata);
                let fault = match sample.table() {
                    None => fault,
                    Some(_) => fault.hint("it holds rows: pack them without `metadata`, and join the table then"),
                };
                faults.push(fault.in_input(sample.first_path().display()).in_sample(&key));
                ""
            });
            rows.push((json.len() as u64, row.len() as u32));
            json.push_str(row);
        }
        let keep: Vec<bool> = rows.iter().map(|(_, len)| *len > 0).collect();
        (self.rows, self.json) = (rows, json);
        self.retain(&keep);
        if let (Some(first), (_, Some(key))) = (faults.first_mut(), metadata.unused()) {
            *first = first.clone().hint(format!("rows of the table are found by keys such as {key}"));
        }
        self.settle(faults, on_error, observer)?;
        if let (n, Some(first)) = metadata.unused() {
            let text = match n {
                1 => format!("1 row of the metadata belongs to no sample, that of {first}"),
                n => format!("{n} rows of the metadata belong to no sample, such as that of {first}"),
            };
            observer.event(&Event::Warning(&text));
        }
        Ok(())
    }
}

/// The row of a sample, and whether it is that of another one too.
fn row_of<'m>(metadata: &'m Metadata, sample: &SampleRef<'_>, key: &str, base: &str) -> Option<(&'m str, bool)> {
    let either = |end: &str| metadata.take(&format!("{key}{end}")).or_else(|| metadata.take(&format!("{base}{end}")));
    // A slice `scan.001` is a file of the sample `scan`.
    let numbers = || sample.fields().filter(|(field, _)| is_number(field));
    let ends = || numbers().map(|(field, _)| format!("%2E{}", field.replace('.', "%2E")));
    metadata.take(key).or_else(|| metadata.take(base)).or_else(|| ends().find_map(|end| either(&end)))
}
