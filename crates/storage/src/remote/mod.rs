//! Remote files for reading: S3 objects and files on web servers.
//!
//! Both use HTTP in the same way: bounded ranges, each with its own retry budget ([`fetch`]), and every response is
//! checked against the request and against the version of the file that was opened ([`reply`]). A body is never
//! assumed to have the right length. `object_store` finds S3 credentials, signs requests and parses listings
//! ([`s3`]); it does not send the requests that read files.
//!
//! The interface is synchronous; inside, a tokio runtime has two threads ([`link`]).

mod budget;

mod failure;
mod fetch;
mod input;
mod link;
mod object;
mod pieces;
mod profile;
mod remotes;
mod reply;
mod s3;
mod service;
mod store;
mod version;
mod wire;

pub(crate) use remotes::Remotes;
