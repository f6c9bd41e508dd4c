//! Open inputs with their parsed metadata. Knows neither paths nor plans.

use packhorse_core::{Input, Result, Source, Table};
use packhorse_storage::Inside;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// An open file, shared by all readers.
pub(crate) struct SharedFile {
    pub(crate) input: Arc<dyn Input>,
    /// Its rows, parsed on first use.
    table: OnceLock<Arc<dyn Table>>,
    parsing: Mutex<()>,
}

impl SharedFile {
    pub(crate) fn new(input: Box<dyn Input>) -> Self {
        Self { input: Arc::from(input), table: OnceLock::new(), parsing: Mutex::default() }
    }

    /// A file whose rows are parsed.
    pub(crate) fn parsed(input: Arc<dyn Input>, table: Arc<dyn Table>) -> Self {
        Self { input, table: table.into(), parsing: Mutex::default() }
    }

    /// Its rows as `source` reads them. The first thread parses while others wait, except those of a pool: parsing may
    /// run tasks on them, so they parse as well, and the first result is kept.
    fn table(&self, source: &dyn Source) -> Result<Arc<dyn Table>> {
        if let Some(table) = self.table.get() {
            return Ok(Arc::clone(table));
        }
        let of_pool = rayon::current_thread_index().is_some();
        let _alone = (!of_pool).then(|| self.parsing.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(table) = self.table.get() {
            return Ok(Arc::clone(table));
        }
        let opened = source.open(Arc::clone(&self.input))?.into();
        Ok(Arc::clone(self.table.get_or_init(|| opened)))
    }
}

/// An open table input.
pub(crate) enum OpenTable {
    /// Shared by several runs.
    SharedFile(Arc<SharedFile>),
    /// Compressed text, read by one run.
    Inside(Arc<Inside>),
}

impl OpenTable {
    /// Its bytes.
    pub(crate) fn input(&self) -> &dyn Input {
        match self {
            OpenTable::SharedFile(file) => &*file.input,
            OpenTable::Inside(inside) => &**inside,
        }
    }

    /// Its rows as `source` reads them. All readers of a shared file must pass the same source.
    pub(crate) fn table(&self, source: &dyn Source) -> Result<Arc<dyn Table>> {
        match self {
            OpenTable::SharedFile(file) => file.table(source),
            OpenTable::Inside(inside) => Ok(source.open(inside.clone())?.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::{Blocks, Error, MemoryInput, TableInfo};
    use std::ops::Range;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Counts how often an input is opened.
    #[derive(Default)]
    struct Counting(AtomicUsize);

    struct Empty;

    impl Table for Empty {
        fn info(&self) -> Result<TableInfo> {
            Err(Error::unsupported("is empty"))
        }

        fn rows(&self, _: Range<u64>) -> Result<Blocks<'_>> {
            Ok(Box::new(std::iter::empty()))
        }
    }

    impl Source for Counting {
        fn open<'a>(&self, _: Arc<dyn Input + 'a>) -> Result<Box<dyn Table + 'a>> {
            match self.0.fetch_add(1, Ordering::Relaxed) {
                0 => Err(Error::content("is damaged, the first time")),
                _ => {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    Ok(Box::new(Empty))
                }
            }
        }
    }

    #[test]
    fn an_input_is_parsed_again_after_an_error_and_then_kept() {
        let source = Counting::default();
        let file = Arc::new(SharedFile::new(Box::new(MemoryInput::new("a", ""))));
        let opened = || OpenTable::SharedFile(Arc::clone(&file));
        assert!(opened().table(&source).is_err());
        std::thread::scope(|threads| {
            for _ in 0..8 {
                threads.spawn(|| opened().table(&source).unwrap());
            }
        });
        assert_eq!(source.0.load(Ordering::Relaxed), 2);
    }

    /// Opens an input by a task of the pool that another opening runs on.
    struct Nested(Arc<SharedFile>, AtomicUsize);

    impl Source for Nested {
        fn open<'a>(&self, _: Arc<dyn Input + 'a>) -> Result<Box<dyn Table + 'a>> {
            if self.1.fetch_add(1, Ordering::Relaxed) == 0 {
                self.0.table(self)?;
            }
            Ok(Box::new(Empty))
        }
    }

    #[test]
    fn opening_may_run_a_task_that_opens_the_same_input() {
        let file = Arc::new(SharedFile::new(Box::new(MemoryInput::new("a", ""))));
        let source = Nested(Arc::clone(&file), AtomicUsize::new(0));
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        pool.install(|| file.table(&source)).unwrap();
    }
}
