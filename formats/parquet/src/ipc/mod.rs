//! Arrow IPC: the file format and the stream format.

mod guard;
mod layout;
mod parts;
mod sink;
mod source;

pub(crate) use sink::IpcSink;
pub(crate) use source::IpcSource;
