//! Remote files: objects in buckets, which are read and written, and files on web servers, which are read.
//!
//! Both use HTTP in the same way: bounded ranges, each with its own retry budget ([`fetch`]), and every response is
//! checked against the request and against the version of the file that was opened ([`reply`]). A body is never
//! assumed to have the right length. Objects are written in parts ([`upload`], [`uploads`]). `object_store` finds
//! credentials, signs requests and parses listings ([`bucket`]); it does not send the requests that concern objects. What
//! differs between services is in [`s3`], [`gcs`] and [`azure`].
//!
//! The interface is synchronous; inside, a tokio runtime has two threads ([`link`]).

mod azure;
mod bucket;
mod budget;
mod failure;
mod fetch;
mod gcs;
mod input;
mod link;
mod object;
mod outage;
mod pieces;
mod profile;
mod remotes;
mod reply;
mod s3;
mod service;
mod store;
mod upload;
mod uploads;
mod version;
mod wire;

pub(crate) use remotes::Remotes;
