//! Finds the rows of a run that can't be read, by reading parts of it again, so that they alone are left out. Knows nothing of what
//! rows hold.

use packhorse_core::{Error, Result, Table};

/// Bad rows, one after another, from which on the next good one is sought by steps that double: a damaged page or chunk holds many.
const NEIGHBOURS: u64 = 32;

/// Reads that may fail in a run, each of which decodes a part of it again; after them the rest of the run is bad.
const FAILURES: u32 = 1024;

/// The next rows to read of a run in which some are bad.
pub(crate) struct BadRows {
    /// Where the run ends.
    end: u64,
    /// Where the rows end that are read now.
    pub(crate) until: u64,
    /// How many are read, unless the run ends before.
    size: u64,
    /// A bad row lies before this one; 0 if that is not known.
    before: u64,
    /// Bad rows found, one after another, and the row behind them.
    neighbours: u64,
    behind: u64,
    failures: u32,
}

impl BadRows {
    /// Of a run that ends at `end`, all of which is read first.
    pub(crate) fn new(end: u64) -> Self {
        Self { end, until: end, size: u64::MAX, before: 0, neighbours: 0, behind: 0, failures: 0 }
    }

    /// The rows up to `at` were read.
    pub(crate) fn passed(&mut self, at: u64) {
        let size = if at < self.before { (self.before - at) / 2 } else { self.size.saturating_mul(2) };
        self.read(at, size);
    }

    /// Reading failed, behind row `at` or at it. Returns how many rows from it on are bad; 0 if less must be read to tell.
    ///
    /// Errors: those of other reads that `skips` does not take for bad rows.
    pub(crate) fn failed(&mut self, at: u64, table: &dyn Table, skips: &dyn Fn(&Error) -> bool) -> Result<u64> {
        self.failures += 1;
        let tried = self.until.saturating_sub(at);
        if tried == 0 {
            self.passed(at);
            return Ok(0);
        }
        if self.failures >= FAILURES {
            return Ok(self.end - at);
        }
        if tried > 1 {
            // Behind rows that were read with others, the bad row is likely near.
            let all = self.until == self.end && self.before == 0;
            self.before = if all { 0 } else { self.until };
            self.read(at, if all { 1 } else { tried / 2 });
            return Ok(0);
        }
        self.neighbours = if at == self.behind { self.neighbours + 1 } else { 1 };
        let next = if self.neighbours < NEIGHBOURS { at + 1 } else { self.next_good(at, table, skips)? };
        (self.before, self.behind) = (0, next);
        self.read(next, u64::MAX);
        Ok(next - at)
    }

    fn read(&mut self, at: u64, size: u64) {
        self.size = size.max(1);
        self.until = at.saturating_add(self.size).min(self.end);
    }

    /// The next good row behind the bad row `bad`, if there are no bad ones behind good ones between; else the end.
    fn next_good(&self, mut bad: u64, table: &dyn Table, skips: &dyn Fn(&Error) -> bool) -> Result<u64> {
        let is_good = |row: u64| match table.rows(row..row + 1).and_then(|mut rows| rows.next().transpose()) {
            Ok(rows) => Ok(rows.is_some()),
            Err(e) if skips(&e) => Ok(false),
            Err(e) => Err(e),
        };
        let (mut step, mut good) = (NEIGHBOURS, self.end);
        while bad + step < self.end {
            if is_good(bad + step)? {
                good = bad + step;
                break;
            }
            bad += step;
            step *= 2;
        }
        while good - bad > 1 {
            let middle = bad + (good - bad) / 2;
            if is_good(middle)? { good = middle } else { bad = middle }
        }
        Ok(good)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Int64Array;
    use packhorse_core::{Blocks, DataType, Field, Kind, Rows, Schema, TableInfo};
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::ops::Range;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Rows in blocks of some size, at the places that a format has or from where reading begins; a bad row costs its block.
    struct Numbers {
        block: u64,
        aligned: bool,
        bad: BTreeSet<u64>,
        reads: AtomicUsize,
    }

    impl Table for Numbers {
        fn info(&self) -> Result<TableInfo> {
            Err(Error::unsupported("not asked for"))
        }

        fn rows(&self, items: Range<u64>) -> Result<Blocks<'_>> {
            self.reads.fetch_add(1, Ordering::Relaxed);
            let mut at = items.start;
            let mut ended = false;
            Ok(Box::new(std::iter::from_fn(move || {
                if at >= items.end || ended {
                    return None;
                }
                let next = if self.aligned { (at / self.block + 1) * self.block } else { at + self.block };
                let block = at..next.min(items.end);
                at = block.end;
                ended = self.bad.range(block.clone()).next().is_some();
                if ended { Some(Err(Error::content("bad"))) } else { Some(Ok(rows(block))) }
            })))
        }
    }

    fn rows(items: Range<u64>) -> Rows {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
        Rows::try_new(schema, vec![Arc::new(Int64Array::from_iter_values(items.map(|n| n as i64)))]).unwrap()
    }

    /// The rows that are left out, and how often the table was read.
    fn left_out(table: &Numbers, items: Range<u64>) -> (Vec<u64>, usize) {
        let (mut at, mut bad_rows, mut left) = (items.start, BadRows::new(items.end), Vec::new());
        while at < items.end {
            let mut failed = false;
            for rows in table.rows(at..bad_rows.until).unwrap() {
                match rows {
                    Ok(rows) => at += rows.num_rows() as u64,
                    Err(_) => failed = true,
                }
            }
            if failed {
                let lost = bad_rows.failed(at, table, &|e| e.kind() == Kind::Content).unwrap();
                left.extend(at..at + lost);
                at += lost;
            } else {
                assert_eq!(at, bad_rows.until);
                bad_rows.passed(at);
            }
        }
        (left, table.reads.load(Ordering::Relaxed))
    }

    proptest! {
        #[test]
        fn bad_rows_alone_are_left_out(
            bad in proptest::collection::btree_set(0u64..3000, 0..40),
            block in 1u64..700,
            aligned: bool,
            start in 0u64..50,
        ) {
            let table = Numbers { block, aligned, bad, reads: AtomicUsize::new(0) };
            let wanted: Vec<u64> = table.bad.range(start..2900).copied().collect();
            let (found, reads) = left_out(&table, start..2900);
            prop_assert_eq!(found, wanted.clone());
            prop_assert!(reads <= 1 + 30 * wanted.len(), "{} reads for {} bad rows", reads, wanted.len());
        }

        #[test]
        fn a_damaged_page_is_left_out_at_once(
            first in 0u64..100_000, length in 1u64..50_000, block in 1u64..5000, aligned: bool,
        ) {
            let last = (first + length).min(100_000);
            let table = Numbers { block, aligned, bad: (first..last).collect(), reads: AtomicUsize::new(0) };
            let (found, reads) = left_out(&table, 0..100_000);
            prop_assert_eq!(found, (first..last).collect::<Vec<u64>>());
            prop_assert!(reads < 200, "{} reads", reads);
        }
    }

    /// A file system that fails has told nothing about rows.
    #[test]
    fn other_errors_are_not_bad_rows() {
        struct Failing;
        impl Table for Failing {
            fn info(&self) -> Result<TableInfo> {
                Err(Error::unsupported("not asked for"))
            }

            fn rows(&self, _: Range<u64>) -> Result<Blocks<'_>> {
                Err(Error::new(Kind::Environment, "no connection"))
            }
        }
        let skips = |e: &Error| e.kind() == Kind::Content;
        let mut bad_rows = BadRows::new(1000);
        let mut at = 0;
        let error = loop {
            match bad_rows.failed(at, &Failing, &skips) {
                Ok(lost) => at += lost,
                Err(error) => break error,
            }
        };
        assert_eq!((error.kind(), at), (Kind::Environment, NEIGHBOURS - 1));
    }

    #[test]
    fn it_ends_where_most_rows_are_bad() {
        let bad = (0..200_000).filter(|row| row % 3 != 0).collect();
        let table = Numbers { block: 100, aligned: true, bad, reads: AtomicUsize::new(0) };
        let (left, reads) = left_out(&table, 0..200_000);
        assert!(reads < 2 * FAILURES as usize + 5000, "{reads} reads");
        assert!(table.bad.iter().all(|row| left.binary_search(row).is_ok()));
    }
}
