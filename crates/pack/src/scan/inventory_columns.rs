//! The columns of an inventory, by the names that services give them.

use packhorse_core::{Error, Result};

/// Which columns of a table matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    pub(super) key: usize,
    pub(super) size: usize,
    pub(super) time: usize,
    pub(super) bucket: Option<usize>,
    /// Whether this is the version of the object that counts, whether it was deleted, the time of a snapshot, and whether it is a
    /// folder.
    latest: Option<usize>,
    deleted: Option<usize>,
    snapshot: Option<usize>,
    folder: Option<usize>,
}

impl Columns {
    pub(super) fn of<'n>(names: impl Iterator<Item = &'n str> + Clone) -> Result<Self> {
        // Of their words alone: `Content-Length`, `last_modified_date`. Two underscores begin names that tables give columns themselves.
        let plain = |name: &str| match name.starts_with("__") {
            true => String::new(),
            false => name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase(),
        };
        let find = |known: &[&str]| known.iter().find_map(|known| names.clone().position(|name| plain(name) == *known));
        let need = |what: &str, known: &[&str]| {
            find(known).ok_or_else(|| {
                let there: Vec<&str> = names.clone().collect();
                let message = format!(
                    "has no column of {what}; call it {}. Its columns are {}",
                    known.first().unwrap_or(&""),
                    there.join(", ")
                );
                Error::config(message)
            })
        };
        Ok(Self {
            key: need("keys", &["key", "path", "name", "objectname", "file"])?,
            size: need("sizes", &["size", "contentlength", "length", "bytes"])?,
            time: need("times", &["lastmodifieddate", "lastmodified", "updated", "mtime", "modified", "time"])?,
            bucket: find(&["bucket"]),
            latest: find(&["islatest", "iscurrentversion"]),
            deleted: find(&["isdeletemarker", "deleted"]),
            snapshot: find(&["snapshot"]),
            folder: find(&["hdiisfolder"]),
        })
    }
}

impl Columns {
    /// The positions of all columns, sorted.
    pub(super) fn all(&self) -> Vec<usize> {
        let Self { key, size, time, bucket, latest, deleted, snapshot, folder } = *self;
        let optional = [bucket, latest, deleted, snapshot, folder];
        let mut all: Vec<usize> = [key, size, time].into_iter().chain(optional.into_iter().flatten()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The same columns, by their positions among these.
    pub(super) fn among(&self, all: &[usize]) -> Self {
        let place = |column: usize| all.iter().position(|other| *other == column).unwrap_or_default();
        Self {
            key: place(self.key),
            size: place(self.size),
            time: place(self.time),
            bucket: self.bucket.map(place),
            latest: self.latest.map(place),
            deleted: self.deleted.map(place),
            snapshot: self.snapshot.map(place),
            folder: self.folder.map(place),
        }
    }

    /// Whether a row is an older version, deleted, a snapshot or a folder. `word` gives the text of a column, if there is one.
    pub(super) fn leave_out<'w>(&self, word: impl Fn(Option<usize>) -> Option<&'w [u8]>) -> bool {
        let is =
            |column: Option<usize>, wanted: &[u8]| word(column).is_some_and(|found| found.eq_ignore_ascii_case(wanted));
        is(self.latest, b"false")
            || is(self.deleted, b"true")
            || is(self.folder, b"true")
            || word(self.snapshot).is_some_and(|found| !found.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::Kind;

    #[test]
    fn columns_by_the_names_of_services() {
        let of = |names: &str| Columns::of(names.split(','));
        let s3 = of("Bucket,Key,VersionId,IsLatest,IsDeleteMarker,Size,LastModifiedDate").unwrap();
        assert_eq!((s3.key, s3.size, s3.time, s3.bucket, s3.latest, s3.deleted), (1, 5, 6, Some(0), Some(3), Some(4)));
        let google = of("project,bucket,name,size,updated").unwrap();
        assert_eq!((google.key, google.size, google.time), (2, 3, 4));
        let azure = of("Name,Content-Length,Last-Modified,BlobType").unwrap();
        assert_eq!((azure.key, azure.size, azure.time), (0, 1, 2));
        let error = of("key,when").unwrap_err();
        assert_eq!(error.kind(), Kind::Config);
        assert!(error.message().contains("no column of sizes; call it size. Its columns are key, when"), "{error}");
    }
}
