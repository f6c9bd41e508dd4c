//! Fields of inputs that packhorse can't read and omits.

use super::TableInput;
use packhorse_core::{Event, Observer, Omission, counted};
use packhorse_dataset::{OmissionRecord, PathText};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Every omission with the number of inputs that have it, and the first of these by name.
#[derive(Debug, Default)]
pub(super) struct Omitted(BTreeMap<Omission, (u64, PathBuf)>);

/// The most omissions named in the warning; the plan and the manifest list all.
const SHOWN: usize = 5;

impl Omitted {
    /// Adds the omissions of the input `path`, relative to its root.
    pub(super) fn add(&mut self, omissions: &[Omission], path: &Path) {
        for omission in omissions {
            let (inputs, first) = self.0.entry(omission.clone()).or_insert_with(|| (0, path.to_owned()));
            *inputs += 1;
            if path < first.as_path() {
                *first = path.to_owned();
            }
        }
    }

    /// Those that no input delivers: values of fields that are empty in some inputs only are null there.
    pub(super) fn of_all(&self, tables: &[TableInput]) -> Self {
        let has = |table: &TableInput, name: &str| table.schema.column_with_name(name).is_some();
        let lost = |omission: &Omission| !omission.empty || !tables.iter().any(|table| has(table, &omission.field));
        Self(self.0.iter().filter(|(omission, _)| lost(omission)).map(|(o, seen)| (o.clone(), seen.clone())).collect())
    }

    pub(super) fn records(&self) -> Vec<OmissionRecord> {
        let record = |(omission, (inputs, first)): (&Omission, &(u64, PathBuf))| OmissionRecord {
            field: omission.field.clone(),
            reason: omission.reason.clone(),
            inputs: *inputs,
            first: PathText::from(first.as_os_str()),
        };
        self.0.iter().map(record).collect()
    }

    /// Warns once, with the first few omissions by reason and their number.
    pub(super) fn report(&self, observer: &dyn Observer) {
        let Some((_, first)) = self.0.values().next() else { return };
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for Omission { field, reason, .. } in self.0.keys().take(SHOWN) {
            match reasons.iter_mut().find(|(other, _)| other == reason) {
                Some((_, fields)) => fields.push(field),
                None => reasons.push((reason, vec![field])),
            }
        }
        let named = reasons.iter().map(|(reason, fields)| format!("{} ({reason})", fields.join(", ")));
        let named = named.collect::<Vec<_>>().join("; ");
        let more = match self.0.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more, which dataset.json lists"),
        };
        let fields = counted(self.0.len() as u64, "field");
        let text = format!("left out {fields}, such as in {}: {named}{more}", first.display());
        observer.event(&Event::Warning(&text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    struct Heard(Mutex<Vec<String>>);

    impl Observer for Heard {
        fn event(&self, event: &Event<'_>) {
            if let Event::Warning(text) = event {
                self.0.lock().unwrap().push((*text).to_owned());
            }
        }
    }

    #[test]
    fn every_omission_is_counted_and_one_warning_names_the_first() {
        let omission = |field: String| Omission { field, reason: "map<int,int>".into(), empty: false };
        let (many, one): (Vec<_>, _) = ((0..7).map(|i| omission(format!("f{i}"))).collect(), [omission("f0".into())]);
        let (heard, mut omitted) = (Heard(Mutex::default()), Omitted::default());
        omitted.report(&heard);
        omitted.add(&many, Path::new("b.root"));
        omitted.add(&one, Path::new("a.root"));
        omitted.report(&heard);
        let records = omitted.records();
        assert_eq!((records.len(), records[0].inputs, records[1].inputs), (7, 2, 1));
        assert_eq!(records[0].first, PathText::from(Path::new("a.root").as_os_str()));
        let said = heard.0.into_inner().unwrap();
        assert_eq!(said.len(), 1);
        for part in ["7 fields", "a.root", "f0, f1, f2, f3, f4 (map<int,int>) and 2 more", "dataset.json"] {
            assert!(said[0].contains(part), "no {part} in {said:?}");
        }
    }
}
