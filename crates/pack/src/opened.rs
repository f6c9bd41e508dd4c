//! Inputs that are open, with what was parsed of them. Knows neither paths nor plans.

use packhorse_core::{Error, Input, Kind, Result, Source, Table};
use packhorse_storage::Inside;
use std::sync::{Arc, Mutex, PoisonError};

/// An open file, shared by all who read it.
pub(crate) struct Archive {
    pub(crate) input: Arc<dyn Input>,
    /// Its rows, from when they are first read on.
    table: Mutex<Option<Arc<dyn Table>>>,
}

impl Archive {
    pub(crate) fn new(input: Box<dyn Input>) -> Self {
        Self { input: Arc::from(input), table: Mutex::default() }
    }

    /// Its rows as `source` reads them: parsed by the first thread that wants them, while others wait.
    fn table(&self, source: &dyn Source) -> Result<Arc<dyn Table>> {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = &*table {
            return Ok(Arc::clone(table));
        }
        let opened: Arc<dyn Table> = source.open(Arc::clone(&self.input))?.into();
        Ok(Arc::clone(table.insert(opened)))
    }
}

/// An input of typed rows that is open.
pub(crate) enum Opened {
    /// It may be so for several.
    Archive(Arc<Archive>),
    /// Compressed text, for one.
    Inside(Arc<Inside>),
}

impl Opened {
    /// Its bytes.
    pub(crate) fn input(&self) -> &dyn Input {
        match self {
            Opened::Archive(archive) => &*archive.input,
            Opened::Inside(inside) => &**inside,
        }
    }

    /// Its rows as `source` reads them. All who share the input name the same source.
    pub(crate) fn table(&self, source: &dyn Source) -> Result<Arc<dyn Table>> {
        match self {
            Opened::Archive(archive) => archive.table(source),
            Opened::Inside(inside) => Ok(source.open(inside.clone())?.into()),
        }
    }
}

/// Why an archive can't be opened, for each thread that wants it.
#[derive(Clone)]
pub(crate) struct Failure {
    kind: Kind,
    message: String,
    input: Option<String>,
    /// What the system said: it decides whose fault it is, and whether one more try may help.
    errno: Option<i32>,
}

impl Failure {
    pub(crate) fn of(error: &Error) -> Self {
        let input = error.input().map(str::to_owned);
        Self { kind: error.kind(), message: error.message().to_owned(), input, errno: error.errno() }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn error(&self) -> Error {
        let error = self.input.iter().fold(Error::new(self.kind, &self.message), |e, input| e.in_input(input));
        self.errno.into_iter().fold(error, |e, errno| e.caused_by(std::io::Error::from_raw_os_error(errno)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::{Blocks, MemoryInput, TableInfo};
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
                _ => Ok(Box::new(Empty)),
            }
        }
    }

    #[test]
    fn an_input_is_parsed_once_for_all_threads_and_again_after_an_error() {
        let source = Counting::default();
        let archive = Arc::new(Archive::new(Box::new(MemoryInput::new("a", ""))));
        let opened = || Opened::Archive(Arc::clone(&archive));
        assert!(opened().table(&source).is_err());
        std::thread::scope(|threads| {
            for _ in 0..8 {
                threads.spawn(|| opened().table(&source).unwrap());
            }
        });
        assert_eq!(source.0.load(Ordering::Relaxed), 2);
    }
}
