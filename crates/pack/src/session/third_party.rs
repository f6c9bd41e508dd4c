//! The verbs about shards that others wrote.

use super::Session;
use crate::adopt::{Adopted, adopt};
use crate::index::{Indexed, index};
use crate::named_shards::ThirdParty;
use packhorse_core::Result;
use std::path::{Path, PathBuf};

impl Session {
    /// Writes the indexes of other readers beside third-party shards: `wanted` is a list as of the setting `index`
    /// (`wids,dali,energon`). `shards`: files, patterns (`*.tar`, `x-{000..127}.tar`), and folders, which are searched with
    /// all folders below. The shards themselves are not changed.
    ///
    /// The files are those that packing writes, and go where the shards are: files of one shard beside it, those of all
    /// shards into the folder that holds all. Each shard is read once, its headers only (with `wids:md5` every byte): what was
    /// found is kept in `.packhorse-index`, and used again while the shard has the same length and modification time.
    ///
    /// Shards may be in a bucket or on a web server. A web server can't be written to: see [`Session::index_into`].
    ///
    /// Errors: `Content` or `Unsupported` for a bad shard, unless [`Session::on_error`] leaves it out; `Config` for files
    /// of another program in the way, unless they are [replaced](Session::replacing).
    ///
    /// ```no_run
    /// use packhorse_core::{Registry, Result};
    /// use packhorse_pack::Session;
    ///
    /// fn index(registry: Registry) -> Result<()> {
    ///     let indexed = Session::new(registry).index(["third-party/*.tar"], "wids,energon")?;
    ///     println!("{} samples", indexed.samples);
    ///     Ok(())
    /// }
    /// ```
    pub fn index<P: AsRef<Path>>(&self, shards: impl IntoIterator<Item = P>, wanted: &str) -> Result<Indexed> {
        index(&self.third_party(), &paths(shards), wanted, None)
    }

    /// As [`Session::index`], and writes the same files into the folder `out`, which may be in a bucket. Readers look for them
    /// beside the shards: copy them there, or link the shards into `out`.
    pub fn index_into<P: AsRef<Path>>(
        &self,
        shards: impl IntoIterator<Item = P>,
        wanted: &str,
        out: impl AsRef<Path>,
    ) -> Result<Indexed> {
        index(&self.third_party(), &paths(shards), wanted, Some(out.as_ref()))
    }

    /// Makes a sealed dataset of third-party shards in the folder where they are. They are read once, and are neither changed
    /// nor copied: `dataset.json`, the plan, and the member index and receipt of each shard are written beside them.
    /// `shards` are named as for [`Session::index`], and must lie in one folder, which may be in a bucket.
    ///
    /// Shards are read in parallel. After an interruption the same call resumes; shards that were read are not read again unless
    /// they changed. A damaged shard can't be packed again: [`Session::repair`] says so.
    ///
    /// Errors: `Content` or `Unsupported` for a bad shard, unless [`Session::on_error`] leaves it out; `Content` for two samples
    /// of one key; `Config` for a folder that holds a dataset, and for shards in several folders; `Unsupported` on a web server.
    pub fn adopt<P: AsRef<Path>>(&self, shards: impl IntoIterator<Item = P>) -> Result<Adopted> {
        adopt(&self.third_party(), &paths(shards))
    }

    fn third_party(&self) -> ThirdParty<'_> {
        ThirdParty {
            registry: &self.registry,
            store: &self.store,
            observer: &*self.observer,
            cancel: &self.cancel,
            limits: self.bounds(),
            jobs: self.jobs,
            io_threads: self.io_threads,
            on_error: self.on_error,
            replaces: self.replaces,
        }
    }
}

fn paths<P: AsRef<Path>>(shards: impl IntoIterator<Item = P>) -> Vec<PathBuf> {
    shards.into_iter().map(|path| path.as_ref().to_owned()).collect()
}
