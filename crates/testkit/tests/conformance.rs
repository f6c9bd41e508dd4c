//! The suite detects broken formats: each variant that violates one rule fails, the original passes.
#![expect(clippy::unwrap_used, clippy::panic, reason = "errors fail the test")]

use packhorse_core::{
    ArchiveMember, Blocks, Extent, Format, FormatInfo, Input, Limits, Options, Outlet, Result, Rows, SchemaRef,
    ShardSummary, ShardWriter, Sink, Source, Table, TableInfo,
};
use packhorse_testkit::conformance::Suite;
use packhorse_webdataset::WebDataset;
use std::io::Write;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Breach {
    None,
    TakesAnyOption,
    ListsOneByteOff,
    IgnoresTheRange,
    SwallowsErrors,
    Panics,
    Allocates,
    MiscountsSamples,
    ForgetsAMember,
    WritesAByteAPush,
}

/// A format that violates one rule.
struct Broken(Breach);

impl Format for Broken {
    fn info(&self) -> &'static FormatInfo {
        WebDataset.info()
    }

    fn source(&self, options: &Options, limits: Limits) -> Result<Box<dyn Source>> {
        let none = Options::new();
        let inner = WebDataset.source(if self.0 == Breach::TakesAnyOption { &none } else { options }, limits)?;
        Ok(Box::new(BrokenSource(inner, self.0)))
    }

    fn sink(&self, options: &Options) -> Result<Box<dyn Sink>> {
        Ok(Box::new(BrokenSink(WebDataset.sink(options)?, self.0)))
    }
}

struct BrokenSource(Box<dyn Source>, Breach);

impl Source for BrokenSource {
    fn lists(&self) -> bool {
        self.0.lists()
    }

    fn list(&self, input: &dyn Input, each: &mut dyn FnMut(ArchiveMember<'_>) -> Result<()>) -> Result<()> {
        let off = u64::from(self.1 == Breach::ListsOneByteOff);
        self.0.list(input, &mut |ArchiveMember { name, extent }| {
            each(ArchiveMember { name, extent: extent.map(|e| Extent { offset: e.offset - off, len: e.len }) })
        })
    }

    fn open<'a>(&self, input: Arc<dyn Input + 'a>) -> Result<Box<dyn Table + 'a>> {
        Ok(Box::new(BrokenTable(self.0.open(input)?, self.1)))
    }
}

struct BrokenTable<'a>(Box<dyn Table + 'a>, Breach);

impl Table for BrokenTable<'_> {
    fn info(&self) -> Result<TableInfo> {
        self.0.info()
    }

    fn rows(&self, items: Range<u64>) -> Result<Blocks<'_>> {
        let first = if self.1 == Breach::IgnoresTheRange { 0 } else { items.start };
        let breach = self.1;
        Ok(Box::new(self.0.rows(first..items.end)?.filter(move |rows| match (breach, rows) {
            (Breach::SwallowsErrors, Err(_)) => false,
            (Breach::Panics, Err(e)) => panic!("{e}"),
            (Breach::Allocates, Err(_)) => Vec::<u8>::new().try_reserve(3 << 30).map_err(|e| panic!("{e}")).is_ok(),
            _ => true,
        })))
    }
}

struct BrokenSink(Box<dyn Sink>, Breach);

impl Sink for BrokenSink {
    fn suffix(&self) -> &'static str {
        self.0.suffix()
    }

    fn accept(&self, schema: &SchemaRef) -> Result<()> {
        self.0.accept(schema)
    }

    fn admit(&self, key: &str, field: &str, bytes: u64) -> Result<()> {
        self.0.admit(key, field, bytes)
    }

    fn size_of(&self, bytes: u64) -> u64 {
        self.0.size_of(bytes)
    }

    fn create(&self, schema: &SchemaRef, out: &mut dyn Outlet) -> Result<Box<dyn ShardWriter>> {
        let log = out.stream(".log")?;
        Ok(Box::new(BrokenWriter(self.0.create(schema, out)?, self.1, log)))
    }
}

struct BrokenWriter(Box<dyn ShardWriter>, Breach, Box<dyn Write + Send>);

impl ShardWriter for BrokenWriter {
    fn push(&mut self, rows: &Rows) -> Result<()> {
        if self.1 == Breach::WritesAByteAPush {
            self.2.write_all(b"+").unwrap();
        }
        self.0.push(rows)
    }

    fn finish(self: Box<Self>) -> Result<ShardSummary> {
        let mut summary = self.0.finish()?;
        summary.samples += u64::from(self.1 == Breach::MiscountsSamples);
        if let (Breach::ForgetsAMember, Some(members)) = (self.1, &mut summary.members) {
            members.push_sample("one too many");
        }
        Ok(summary)
    }
}

fn passes(breach: Breach) -> bool {
    catch_unwind(AssertUnwindSafe(|| Suite::new(&Broken(breach)).run())).is_ok()
}

#[test]
fn each_violation_is_detected() {
    assert!(passes(Breach::None));
    for breach in [
        Breach::TakesAnyOption,
        Breach::ListsOneByteOff,
        Breach::IgnoresTheRange,
        Breach::SwallowsErrors,
        Breach::Panics,
        Breach::Allocates,
        Breach::MiscountsSamples,
        Breach::ForgetsAMember,
        Breach::WritesAByteAPush,
    ] {
        assert!(!passes(breach), "not detected: {breach:?}");
    }
}
