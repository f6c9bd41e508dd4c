//! An object that is being written: parts are sent while bytes arrive, and the object appears when it is complete.
//!
//! A small object is sent in one request. The first bytes of a patchable one may change to the end, so its first part is
//! sent last. Memory: a part that fills, the first part of a patchable object, and the parts on their way, whose number
//! is bounded over all objects of a [`Link`].

use super::bucket::Part;
use super::link::Link;
use super::object::RemoteObject;
use bytes::Bytes;
use packhorse_core::{Error, Kind, Result, StoreFile};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::task::JoinHandle;

/// The most parts of an object. Azure takes more.
const MOST_PARTS: usize = 10_000;

/// The fewest bytes of a part in S3 and Google Cloud Storage, but for the last.
const SMALLEST: usize = 5 << 20;

/// An object that is being written. Dropped before it is complete, it is aborted.
pub(crate) struct Upload {
    link: Arc<Link>,
    object: RemoteObject,
    /// Bytes of a part.
    size: usize,
    /// Bytes that are not sent yet.
    rest: Vec<u8>,
    patchable: bool,
    /// The first part of a patchable object, once it is full.
    first: Option<Vec<u8>>,
    /// The id of the upload, once it has begun.
    id: Option<Arc<str>>,
    /// The number of the next part.
    next: usize,
    sending: Vec<JoinHandle<()>>,
    sent: Arc<Mutex<Sent>>,
}

/// The outcome of the parts so far.
#[derive(Default)]
struct Sent {
    parts: BTreeMap<usize, Part>,
    failed: Option<Error>,
}

impl Upload {
    pub(crate) fn new(link: Arc<Link>, object: RemoteObject, patchable: bool) -> Self {
        let size = link.options.part.max(SMALLEST);
        Self {
            link,
            object,
            size,
            rest: Vec::new(),
            patchable,
            first: None,
            id: None,
            next: 0,
            sending: Vec::new(),
            sent: Arc::default(),
        }
    }

    /// Sends a full part, or keeps it if its bytes may still change.
    fn full(&mut self) -> Result<()> {
        let bytes = std::mem::take(&mut self.rest);
        let number = self.next;
        self.next += 1;
        if self.patchable && number == 0 {
            self.first = Some(bytes);
            return Ok(());
        }
        self.send(number, bytes)
    }

    /// Sends a part in the background once there is room for one more.
    fn send(&mut self, number: usize, bytes: Vec<u8>) -> Result<()> {
        if number >= MOST_PARTS {
            let message = format!("is larger than {MOST_PARTS} parts of {} bytes, the most of an object", self.size);
            let error = Error::new(Kind::Limit, message).hint("choose a smaller `shard-size`");
            return Err(error.in_input(self.object.name()));
        }
        let id = self.begun()?;
        let room = self.link.sending.clone();
        let room = self.link.wait(async move { room.acquire_owned().await.map_err(|e| Error::bug(e.to_string())) })?;
        let (object, sent) = (self.object.clone(), self.sent.clone());
        self.sending.push(self.link.handle().spawn(async move {
            let bytes = Bytes::from(bytes);
            let done = object.part(&id, number, &bytes).await;
            drop((bytes, room));
            let mut sent = locked(&sent);
            match done {
                Ok(part) => drop(sent.parts.insert(number, part)),
                Err(error) => drop(sent.failed.get_or_insert(error)),
            }
        }));
        self.check()
    }

    /// The error of a part that failed, so that no more are sent.
    fn check(&self) -> Result<()> {
        locked(&self.sent).failed.clone().map_or(Ok(()), Err)
    }

    fn begun(&mut self) -> Result<Arc<str>> {
        if let Some(id) = &self.id {
            return Ok(id.clone());
        }
        let object = self.object.clone();
        let id: Arc<str> = self.link.wait(async move { object.begin().await })?.into();
        Ok(self.id.insert(id).clone())
    }

    /// Sends the remaining bytes, and completes the upload.
    fn complete(&mut self) -> Result<()> {
        if !self.rest.is_empty() {
            let number = self.next;
            self.next += 1;
            let bytes = std::mem::take(&mut self.rest);
            self.send(number, bytes)?;
        }
        if let Some(first) = self.first.take() {
            self.send(0, first)?;
        }
        let sending = std::mem::take(&mut self.sending);
        self.link.wait(async move {
            for part in sending {
                part.await.map_err(|e| Error::bug(format!("a part was not sent: {e}")))?;
            }
            Ok(())
        })?;
        self.check()?;
        let parts: Vec<Part> = std::mem::take(&mut locked(&self.sent).parts).into_values().collect();
        let (object, id) = (self.object.clone(), self.begun()?);
        self.link.wait(async move { object.complete(&id, &parts).await })?;
        self.id = None;
        Ok(())
    }
}

fn locked(sent: &Mutex<Sent>) -> MutexGuard<'_, Sent> {
    sent.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Write for Upload {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        if self.rest.len() == self.size {
            self.full()?;
        }
        let piece = buf.get(..self.size - self.rest.len()).unwrap_or(buf);
        self.rest.extend_from_slice(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl StoreFile for Upload {
    fn write_head(&mut self, head: &[u8]) -> Result<()> {
        let first = self.first.as_mut().unwrap_or(&mut self.rest);
        let old = first.get_mut(..head.len()).filter(|_| self.patchable);
        old.ok_or_else(|| Error::bug("the first bytes of an object that is not patchable"))?.copy_from_slice(head);
        Ok(())
    }

    fn sync_and_close(mut self: Box<Self>) -> Result<()> {
        if self.id.is_some() {
            return self.complete();
        }
        let mut bytes = self.first.take().unwrap_or_default();
        bytes.append(&mut self.rest);
        let object = self.object.clone();
        self.link.wait(async move { object.put(&bytes.into()).await })
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        for part in &self.sending {
            part.abort();
        }
        let object = self.object.clone();
        // If this fails, `packhorse clean` finds the upload.
        let _ = self.link.wait(async move { Ok(object.abort(&id).await) });
    }
}
