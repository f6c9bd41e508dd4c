//! A folder with everything that a Linux file system allows, and the expected outcome of each entry.

use nix::sys::stat::Mode;
use packhorse_core::Cancel;
use packhorse_synth::{ImagesSpec, Run, images};
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The expected outcome of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Packed under `key` and `field`, byte for byte.
    Packed {
        /// The sample's key.
        key: String,
        /// The field.
        field: String,
    },
    /// Packed unchanged; an image check reports a `Content` error that contains `fault`.
    BadPicture {
        /// The sample's key.
        key: String,
        /// The field.
        field: String,
        /// A part of the message.
        fault: &'static str,
    },
    /// Ignored without an error.
    PassedOver,
    /// A `Content` error whose message contains this.
    Fault(&'static str),
}

/// One entry of a hostile folder.
#[derive(Clone, Debug)]
pub struct HostileEntry {
    /// The index of its root.
    pub root: usize,
    /// Its path relative to the root.
    pub path: PathBuf,
    /// Its expected outcome.
    pub outcome: Outcome,
    /// The bytes that a reader gets from it.
    pub bytes: Vec<u8>,
}

/// Two folders, `first` and `second`, to be packed together into a tar format with names of at most 100 bytes.
/// Removed when dropped.
pub struct HostileFolder {
    dir: TempDir,
    entries: Vec<HostileEntry>,
    locked: Vec<PathBuf>,
}

impl HostileFolder {
    /// Builds it.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        // Another user may read it.
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        let mut folder = Self { dir, entries: Vec::new(), locked: Vec::new() };
        for root in folder.roots() {
            fs::create_dir(root).unwrap();
        }
        let photo = photo();
        folder.names(&photo);
        folder.long_names(&photo);
        folder.doubles(&photo);
        folder.contents(&photo);
        folder.links(&photo);
        folder.special();
        folder.forbidden(&photo);
        folder
    }

    /// The inputs to pack, in this order.
    pub fn roots(&self) -> [PathBuf; 2] {
        ["first", "second"].map(|root| self.dir.path().join(root))
    }

    /// The parent of the roots; tests may write their output there.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Every relevant entry with its outcome.
    pub fn entries(&self) -> &[HostileEntry] {
        &self.entries
    }

    fn place(&mut self, root: usize, path: &[u8]) -> PathBuf {
        let full = self.roots()[root].join(OsStr::from_bytes(path));
        fs::create_dir_all(full.parent().unwrap()).unwrap();
        full
    }

    fn note(&mut self, root: usize, path: &[u8], outcome: Outcome, bytes: &[u8]) {
        let path = PathBuf::from(OsStr::from_bytes(path));
        self.entries.push(HostileEntry { root, path, outcome, bytes: bytes.to_vec() });
    }

    /// A file in the first root.
    fn file(&mut self, path: &[u8], bytes: &[u8], outcome: Outcome) {
        fs::write(self.place(0, path), bytes).unwrap();
        self.note(0, path, outcome, bytes);
    }

    fn packed(&mut self, path: &[u8], bytes: &[u8], key: &str, field: &str) {
        self.file(path, bytes, packed(key, field));
    }

    fn names(&mut self, photo: &[u8]) {
        self.packed(b"plain.jpg", photo, "plain", "jpg");
        self.packed(b"\xff\xfe.jpg", photo, "%FF%FE", "jpg");
        self.packed(b"new\nline.jpg", photo, "new%0Aline", "jpg");
        self.packed(b"\x1b[31mred.jpg", photo, "%1B[31mred", "jpg");
        self.packed(b"with space.jpg", photo, "with%20space", "jpg");
        self.packed(b"per%cent.jpg", photo, "per%cent", "jpg");
        self.packed(b"two..dots.jpg", photo, "two", ".dots.jpg");
        self.packed(b"back\\slash*?.jpg", photo, "back\\slash*?", "jpg");
        self.packed(b"-rf.jpg", photo, "-rf", "jpg");
        self.packed(b"v1.2/inside.jpg", photo, "v1%2E2/inside", "jpg");
        self.packed(b"folder.tar/inside.jpg", photo, "folder%2Etar/inside", "jpg");
        self.packed(b"__x__/inside.jpg", photo, "%5F_x__/inside", "jpg");
        self.packed(b"inner/__key__.jpg", photo, "inner/__key__", "jpg");
        self.packed("caf\u{e9}.jpg".as_bytes(), photo, "caf\u{e9}", "jpg");
        self.packed("cafe\u{301}.jpg".as_bytes(), photo, "cafe\u{301}", "jpg");
        self.file(b".hidden.jpg", photo, Outcome::PassedOver);
        self.file(b".hidden/inside.jpg", photo, Outcome::PassedOver);
        self.file(b"README", b"no extension", Outcome::PassedOver);
        self.file(b"\x1b]0;owned\x07", b"no extension", Outcome::PassedOver);
        self.file(b"trailing.", photo, Outcome::PassedOver);
    }

    fn long_names(&mut self, photo: &[u8]) {
        const LONG: Outcome = Outcome::Fault("readers of WebDataset carry at most 100");
        self.file(&[&[b'n'; 251][..], b".jpg"].concat(), photo, LONG);
        self.file(&[&[b'p'; 100][..], &[b'q'; 100], &[b'r'; 100], b"x.jpg"].join(&b'/'), photo, LONG);
        self.file(&[&b"d/".repeat(60)[..], b"deep.jpg"].concat(), photo, LONG);
        let shallow = "e/".repeat(40);
        self.packed(format!("{shallow}x.jpg").as_bytes(), photo, &format!("{shallow}x"), "jpg");
        self.beyond_path_max();
    }

    /// Nested folders deeper than PATH_MAX.
    fn beyond_path_max(&mut self) {
        let script = "mkdir abyss && cd abyss && for i in $(seq 20); do n=$(printf '%0250d' $i) && mkdir $n && cd -P -- ./$n || exit 1; done; : > x.jpg";
        let status = Command::new("bash").arg("-c").arg(script).current_dir(&self.roots()[0]).status().unwrap();
        assert!(status.success(), "folders over 4,096 bytes deep can't be made here");
        self.note(0, b"abyss", Outcome::Fault("File name too long"), b"");
    }

    /// Colliding keys. The first in path order wins; of two names that only escapes make one, the one without escapes.
    fn doubles(&mut self, photo: &[u8]) {
        const TWICE: Outcome = Outcome::Fault("already from");
        const ALIKE: Outcome = Outcome::Fault("though their names differ");
        let other = [photo, b"another"].concat();
        self.packed(b"a.JPG", photo, "a", "jpg");
        self.packed(b"A.jpg", photo, "A", "jpg");
        self.file(b"a.jpg", &other, TWICE);
        self.packed(b"pair x.jpg", photo, "pair%20x", "jpg");
        self.file(b"pair%20x.jpg", &other, ALIKE);
        self.packed(b"%5F_key__.jpg", photo, "%5F_key__", "jpg");
        self.file(b"__key__.jpg", &other, TWICE);
        self.packed(b"two/of us.jpg", photo, "two/of%20us", "jpg");
        self.file(b"two/of%20us.jpg", &other, ALIKE);
        fs::write(self.place(1, b"plain.jpg"), &other).unwrap();
        self.note(1, b"plain.jpg", TWICE, &other);
        // Nothing tells which of the two pictures it belongs to.
        fs::write(self.place(1, b"plain.json"), b"{}").unwrap();
        self.note(1, b"plain.json", Outcome::Fault("could be of two samples"), b"{}");
        // Fields of one sample may lie in different roots.
        self.packed(b"apart.jpg", &other, "apart", "jpg");
        fs::write(self.place(1, b"apart.json"), b"{}").unwrap();
        self.note(1, b"apart.json", packed("apart", "json"), b"{}");
    }

    fn contents(&mut self, photo: &[u8]) {
        self.packed(b"empty.txt", b"", "empty", "txt");
        let cut = photo.get(..photo.len() / 2).unwrap();
        for (path, key, bytes, fault) in [
            (&b"nothing.jpg"[..], "nothing", &b""[..], "is empty"),
            (b"cut.jpg", "cut", cut, "JPEG"),
            (b"text.jpg", "text", b"To whom it may concern", "not a known image"),
            (b"page.jpg", "page", b"<!DOCTYPE html><p>404", "is a web page"),
        ] {
            let (key, field) = (key.to_owned(), "jpg".to_owned());
            self.file(path, bytes, Outcome::BadPicture { key, field, fault });
        }
        self.file(b"no-tar.tar", b"just text", Outcome::Fault("is cut short"));
        self.file(b"noise.tar", &photo.repeat(4), Outcome::Fault("tar header"));
        self.file(b"no-gzip.tar.gz", b"just text", Outcome::Fault("can't be decompressed"));
        // A sparse file of 9 GiB.
        File::create(self.place(0, b"huge.bin")).unwrap().set_len(9 << 30).unwrap();
        self.note(0, b"huge.bin", Outcome::Fault("a member of a tar shard at most"), b"");
    }

    fn links(&mut self, photo: &[u8]) {
        let mut link = |target: &str, path: &[u8], outcome: Outcome, bytes: &[u8]| {
            symlink(target, self.place(0, path)).unwrap();
            self.note(0, path, outcome, bytes);
        };
        link("plain.jpg", b"link.jpg", packed("link", "jpg"), photo);
        link("nowhere.jpg", b"broken.jpg", Outcome::Fault("a symbolic link to a missing file"), b"");
        link("self.jpg", b"self.jpg", Outcome::Fault("Too many levels of symbolic links"), b"");
        link(".", b"here", Outcome::PassedOver, b"");
        link("../..", b"down/down/up", Outcome::PassedOver, b"");
        link("fifo.jpg", b"link-to-fifo.jpg", Outcome::Fault("is a FIFO"), b"");
    }

    fn special(&mut self) {
        nix::unistd::mkfifo(&self.place(0, b"fifo.jpg"), Mode::from_bits_truncate(0o644)).unwrap();
        self.note(0, b"fifo.jpg", Outcome::Fault("is a FIFO"), b"");
        // The socket file stays after the listener is dropped.
        drop(std::os::unix::net::UnixListener::bind(self.place(0, b"socket.jpg")).unwrap());
        self.note(0, b"socket.jpg", Outcome::Fault("a socket"), b"");
    }

    /// Files without read permission.
    fn forbidden(&mut self, photo: &[u8]) {
        let inside = self.place(0, b"locked/inside.jpg");
        fs::write(&inside, photo).unwrap();
        self.note(0, b"locked", Outcome::Fault("Permission denied"), b"");
        self.lock(inside.parent().unwrap());
        self.file(b"unreadable.jpg", photo, Outcome::Fault("Permission denied"));
        self.lock(&self.roots()[0].join("unreadable.jpg"));
    }

    fn lock(&mut self, path: &Path) {
        fs::set_permissions(path, Permissions::from_mode(0o000)).unwrap();
        self.locked.push(path.to_owned());
    }
}

impl Default for HostileFolder {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for HostileFolder {
    fn drop(&mut self) {
        for path in &self.locked {
            let _ = fs::set_permissions(path, Permissions::from_mode(0o755));
        }
    }
}

fn packed(key: &str, field: &str) -> Outcome {
    Outcome::Packed { key: key.to_owned(), field: field.to_owned() }
}

/// A small JPEG.
fn photo() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let spec = ImagesSpec { count: 1, seed: 7, classes: 1, sides: 16..=32 };
    let run = Run { jobs: NonZeroUsize::MIN, cancel: &Cancel::default(), progress: &|_| {} };
    images(dir.path(), &spec, &run).unwrap();
    let class = fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
    fs::read(fs::read_dir(class).unwrap().next().unwrap().unwrap().path()).unwrap()
}
