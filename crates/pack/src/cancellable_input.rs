//! Inputs whose reads end after a request to stop.

use packhorse_core::{Cancel, Input, Result};
use std::io::Read;

/// An input, with its siblings, whose reads fail with `Cancelled` after a request to stop. Formats need no check of
/// their own.
pub(crate) struct CancellableInput {
    input: Box<dyn Input>,
    cancel: Cancel,
}

impl CancellableInput {
    pub(crate) fn new(input: Box<dyn Input>, cancel: &Cancel) -> Self {
        Self { input, cancel: cancel.clone() }
    }
}

impl Input for CancellableInput {
    packhorse_core::forward_input!(input: name len stat local_path);

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.cancel.check()?;
        self.input.read_at(offset, buf)
    }

    fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
        Ok(Box::new(CancellableStream { stream: self.input.stream()?, cancel: &self.cancel }))
    }

    fn sibling(&self, name: &str) -> Result<Option<Box<dyn Input>>> {
        let found = self.input.sibling(name)?;
        Ok(found.map(|input| Box::new(Self::new(input, &self.cancel)) as Box<dyn Input>))
    }
}

struct CancellableStream<'a> {
    stream: Box<dyn Read + Send + 'a>,
    cancel: &'a Cancel,
}

impl Read for CancellableStream<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        self.cancel.check()?;
        self.stream.read(buf)
    }
}
