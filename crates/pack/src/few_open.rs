//! Many inputs of which few are open at a time.

use packhorse_core::{Error, FileStat, Input, InputRange, Kind, Result, Store};
use std::collections::VecDeque;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The most files that are open at a time, besides those being read.
const MOST: usize = 64;

type OpenFile = (PathBuf, Arc<dyn Input>);

/// Opens files, and keeps the 64 open that were opened last.
#[derive(Clone)]
pub(crate) struct FewOpen {
    store: Arc<dyn Store>,
    open: Arc<Mutex<VecDeque<OpenFile>>>,
}

impl FewOpen {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, open: Arc::default() }
    }

    /// The file `path`, which is opened again when it is read after many others.
    pub(crate) fn input(&self, path: &Path) -> Result<Box<dyn Input>> {
        self.kept(path, self.store.open(path)?)
    }

    fn kept(&self, path: &Path, input: Box<dyn Input>) -> Result<Box<dyn Input>> {
        let (name, len, stat) = (input.name().to_owned(), input.len(), input.stat()?);
        let kept = ReopenedInput { files: self.clone(), path: path.to_owned(), name, len, stat };
        self.keep(path, input.into());
        Ok(Box::new(kept))
    }

    fn keep(&self, path: &Path, input: Arc<dyn Input>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.push_back((path.to_owned(), input));
        if open.len() > MOST {
            open.pop_front();
        }
    }
}

struct ReopenedInput {
    files: FewOpen,
    path: PathBuf,
    name: String,
    len: Option<u64>,
    /// Of the file that was opened first.
    stat: Option<FileStat>,
}

impl ReopenedInput {
    fn opened(&self) -> Result<Arc<dyn Input>> {
        let open = self.files.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, input)) = open.iter().find(|(path, _)| *path == self.path) {
            return Ok(input.clone());
        }
        drop(open);
        let input: Arc<dyn Input> = self.files.store.open(&self.path)?.into();
        if input.stat()? != self.stat {
            return Err(Error::new(Kind::Changed, "was changed while it was read").in_input(&self.name));
        }
        self.files.keep(&self.path, input.clone());
        Ok(input)
    }
}

impl Input for ReopenedInput {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> Option<u64> {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.opened()?.read_at(offset, buf)
    }

    fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
        let len = self.len.ok_or_else(|| Error::unsupported("has no known length").in_input(&self.name))?;
        Ok(Box::new(InputRange { input: self, offset: 0, len }))
    }

    fn sibling(&self, name: &str) -> Result<Option<Box<dyn Input>>> {
        let found = self.opened()?.sibling(name)?;
        found.map(|input| self.files.kept(&self.path.with_file_name(name), input)).transpose()
    }

    fn stat(&self) -> Result<Option<FileStat>> {
        self.opened()?.stat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_storage::Stores;

    /// The files in `dir` that are open.
    fn open_in(dir: &Path) -> usize {
        let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        open.filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|file| file.starts_with(dir))).count()
    }

    #[test]
    fn few_of_many_files_are_open_and_a_changed_one_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = |i: usize| dir.path().join(format!("{i}.idx"));
        for i in 0..4 * MOST {
            std::fs::write(path(i), i.to_string()).unwrap();
            std::fs::write(path(i).with_extension("bin"), format!("bin {i}")).unwrap();
        }
        let files = FewOpen::new(Arc::new(Stores::default()));
        let inputs: Vec<_> = (0..4 * MOST).map(|i| files.input(&path(i)).unwrap()).collect();
        let bins: Vec<_> = (0..).zip(&inputs).map(|(i, input)| input.sibling(&format!("{i}.bin")).unwrap()).collect();
        for (i, (input, bin)) in inputs.iter().zip(&bins).enumerate() {
            assert_eq!(input.read_all(10).unwrap(), i.to_string().as_bytes());
            assert_eq!(bin.as_ref().unwrap().read_all(10).unwrap(), format!("bin {i}").as_bytes());
        }
        assert_eq!(open_in(dir.path()), MOST);
        assert!(inputs[1].sibling("none").unwrap().is_none());
        std::fs::write(path(2), "another").unwrap();
        assert_eq!(inputs[2].read_at(0, &mut [0]).unwrap_err().kind(), Kind::Changed);
    }
}
