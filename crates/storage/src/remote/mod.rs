//! Files that are read over a network: objects in S3, and what web servers give out.
//!
//! Both are HTTP, and are read in one way: bounded ranges, each with tries and times of its own ([`fetch`]), and every
//! answer held against what was asked and what the file was when it was opened ([`reply`]). Nothing here believes that
//! a body is as long as it should be. `object_store` finds S3's credentials, signs requests and reads listings ([`s3`]);
//! it sends none of those that read files.
//!
//! The outside is synchronous; inside are two threads of a tokio runtime ([`link`]).

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
