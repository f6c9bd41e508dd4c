//! Failed system calls: what the operating system said, without its numbers.

use super::{Code, Error, Kind, Result};
use std::io::{self, ErrorKind};

const ENOENT: i32 = 2;
const EIO: i32 = 5;
const EACCES: i32 = 13;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
/// Has an [`ErrorKind`] that is not stable.
const ELOOP: i32 = 40;
const EBADMSG: i32 = 74;
const EUCLEAN: i32 = 117;

impl Error {
    /// An error of a decompressor: bad content, unless a system call failed behind it or memory was not enough.
    pub fn decompress(error: io::Error) -> Self {
        if error.raw_os_error().is_some() {
            return Self::io("read", error);
        }
        // Zstandard has no code of the system for a failed allocation. That of xz says that a window is over our limit.
        if error.to_string().contains("not enough memory") {
            return Self::io("decompress", ErrorKind::OutOfMemory.into())
                .hint("give the job more memory, or fewer `jobs`");
        }
        Self::content(format!("can't be decompressed: {error}"))
    }

    /// A failed system call: `action` says what was being done (`"write"`, `"rename"`).
    pub fn io(action: &str, error: io::Error) -> Self {
        let made = Self::new(Kind::Environment, format!("{action} failed: {error}"));
        let made = match error.kind() {
            ErrorKind::StorageFull => {
                made.with_code(Code::NoSpace).hint("free some space and run the same command again")
            }
            ErrorKind::QuotaExceeded => made
                .with_code(Code::NoSpace)
                .hint("the quota is used up: free some space and run the same command again"),
            ErrorKind::PermissionDenied => made.with_code(Code::NoPermission),
            ErrorKind::ReadOnlyFilesystem => {
                made.with_code(Code::NoPermission).hint("give a folder of a file system that can be written to")
            }
            ErrorKind::FileTooLarge => {
                made.hint("raise the limit of a file's size (`ulimit -f`), or make smaller shards (`shard-size`)")
            }
            _ if matches!(error.raw_os_error(), Some(ENFILE | EMFILE)) => {
                made.hint("raise the limit of open files (`ulimit -n`)")
            }
            _ => made,
        };
        made.caused_by(error)
    }

    /// A thread that the operating system did not start.
    pub fn thread(error: io::Error) -> Self {
        Self::io("start a thread", error).hint("raise the limits (`ulimit -u`, `ulimit -v`)")
    }

    /// What kind of system call's failure is underneath, if one is.
    pub fn io_kind(&self) -> Option<ErrorKind> {
        Some(self.system()?.kind())
    }

    /// The number of the failed system call's error, if there was one.
    pub fn errno(&self) -> Option<i32> {
        self.system()?.raw_os_error()
    }

    fn system(&self) -> Option<&io::Error> {
        std::error::Error::source(self)?.downcast_ref()
    }

    /// Whether a file or folder does not exist.
    pub fn is_not_found(&self) -> bool {
        self.io_kind() == Some(ErrorKind::NotFound)
    }

    /// Whether a file or folder does not exist, or a file is where its folder would be.
    pub fn is_absent(&self) -> bool {
        matches!(self.io_kind(), Some(ErrorKind::NotFound | ErrorKind::NotADirectory))
    }

    /// Whether a file has the name already that a new one was to get.
    pub fn is_taken(&self) -> bool {
        self.io_kind() == Some(ErrorKind::AlreadyExists)
    }

    /// Whether the file system or the quota is full.
    pub fn is_full(&self) -> bool {
        matches!(self.io_kind(), Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded))
    }

    /// The same error with a system call's error for a file that does not exist as its source, in place of any other.
    pub fn not_found(self) -> Self {
        self.caused_by(io::Error::from_raw_os_error(ENOENT))
    }

    /// The same error with a system call's error for a missing permission as its source, in place of any other.
    pub fn denied(self) -> Self {
        self.with_code(Code::NoPermission).caused_by(io::Error::from_raw_os_error(EACCES))
    }

    /// Whether a disk or a file system could not give the bytes of a file: an error of the device, or a checksum of the file
    /// system that is wrong.
    pub fn is_unreadable(&self) -> bool {
        matches!(self.errno(), Some(EIO | EBADMSG | EUCLEAN))
    }

    /// Whether symbolic links lead in a circle.
    pub fn is_loop(&self) -> bool {
        self.errno() == Some(ELOOP)
    }

    /// Whether a permission is missing, or the file system is read-only.
    pub fn is_denied(&self) -> bool {
        matches!(self.io_kind(), Some(ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem))
    }
}

/// The result, or `None` if the file or folder does not exist.
pub fn found<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(e) if e.is_not_found() => Ok(None),
        Err(e) => Err(e),
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        io::Error::other(error)
    }
}

/// Turns errors of `std::io` into ours with a few words on what was being done.
pub trait Context<T> {
    /// An I/O error becomes `Environment`; an [`Error`] that travelled through `std::io` comes back whole.
    fn context(self, action: &str) -> Result<T>;
}

impl<T> Context<T> for io::Result<T> {
    fn context(self, action: &str) -> Result<T> {
        self.map_err(|error| match error.downcast::<Error>() {
            Ok(ours) => ours,
            Err(error) => Error::io(action, error),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_survives_a_trip_through_std_io() {
        let io: io::Error = Error::content("bad").in_field("x").into();
        let back = Err::<(), _>(io).context("write").unwrap_err();
        assert_eq!((back.kind(), back.message(), back.field()), (Kind::Content, "bad", Some("x")));
    }

    #[test]
    fn a_decompressor_without_memory_blames_no_content() {
        for error in [io::Error::other("Allocation error : not enough memory"), io::Error::from_raw_os_error(5)] {
            assert_eq!(Error::decompress(error).kind(), Kind::Environment);
        }
        for error in [io::Error::other("Data corruption detected"), ErrorKind::OutOfMemory.into()] {
            assert_eq!(Error::decompress(error).kind(), Kind::Content);
        }
    }

    #[test]
    fn a_full_disk_says_what_to_do() {
        for number in [28, 122] {
            let error = Error::io("write", io::Error::from_raw_os_error(number));
            assert_eq!((error.kind(), error.code(), error.errno()), (Kind::Environment, Code::NoSpace, Some(number)));
            assert!(error.is_full() && error.hints().unwrap().contains("free some space"));
        }
    }

    #[test]
    fn what_the_system_said_is_asked_by_name() {
        let of = |number| Error::io("open", io::Error::from_raw_os_error(number));
        assert!(of(2).is_not_found() && of(2).is_absent() && !of(2).is_denied());
        assert!(!of(20).is_not_found() && of(20).is_absent());
        assert!([1, 13, 30].iter().all(|number| of(*number).is_denied()));
        assert!(!of(5).is_absent() && !of(5).is_full() && of(5).code() == Code::IoFailed);
        assert!(!Error::content("x").is_not_found());
        // Context does not hide it.
        assert!(of(2).context("the plan").in_input("a").is_not_found());
    }
}
