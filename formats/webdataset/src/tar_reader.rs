//! Reads the members of any tar: plain, PAX and GNU names, prefix fields.

use crate::pax::Pax;
use crate::tar_header::{BLOCK, BLOCK_U64, LABEL, TarHeader, padded};
use packhorse_core::{Context, Error, Input, Kind, Limits, Result, read_full};
use std::io::Read;

/// A member of a tar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TarMember {
    pub(crate) name: Vec<u8>,
    /// The type flag of the header: `0` and NUL are regular files.
    pub(crate) kind: u8,
    /// The offset of the first header that is its own: global ones are not.
    pub(crate) start: u64,
    /// The offset of its data.
    pub(crate) data: u64,
    pub(crate) size: u64,
    /// Whether it is a sparse file, stored without its holes.
    pub(crate) sparse: bool,
    /// The header extensions it uses.
    pub(crate) dialect: Dialect,
}

impl TarMember {
    pub(crate) fn is_regular(&self) -> bool {
        matches!(self.kind, b'0' | 0 | b'7') && !self.sparse
    }

    /// Whether it is a folder, or the label of a volume.
    pub(crate) fn is_passed_over(&self) -> bool {
        matches!(self.kind, b'5' | LABEL)
    }

    /// The offset of the next header.
    pub(crate) fn end(&self) -> u64 {
        self.data.saturating_add(padded(self.size))
    }
}

/// The extensions beyond a plain header that describe a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dialect {
    pub(crate) pax: bool,
    /// A PAX header of this member, not a global one.
    pub(crate) pax_own: bool,
    pub(crate) pax_path: bool,
    pub(crate) gnu_long_name: bool,
    pub(crate) prefix: bool,
    pub(crate) not_ustar: bool,
}

/// The extension headers before a member. If two of them set the same thing, GNU tar uses the last and Python the
/// first: such members are refused.
#[derive(Default)]
struct Extra {
    dialect: Dialect,
    name: Option<Vec<u8>>,
    size: Option<u64>,
    sparse: bool,
}

impl Extra {
    fn pax(&mut self, pax: Pax) -> Result<()> {
        if std::mem::replace(&mut self.dialect.pax_own, true) {
            return Err(ambiguous("two PAX headers"));
        }
        (self.dialect.pax, self.dialect.pax_path) = (true, pax.path.is_some());
        if self.dialect.gnu_long_name && pax.path.is_some() {
            return Err(ambiguous("a GNU long name and a PAX path"));
        }
        (self.name, self.size, self.sparse) = (pax.path.or(self.name.take()), pax.size, pax.sparse);
        Ok(())
    }

    fn long_name(&mut self, bytes: &[u8]) -> Result<()> {
        if std::mem::replace(&mut self.dialect.gnu_long_name, true) {
            return Err(ambiguous("two GNU long names"));
        }
        if self.dialect.pax_path {
            return Err(ambiguous("a GNU long name and a PAX path"));
        }
        let name = bytes.split(|b| *b == 0).next().filter(|name| !name.is_empty());
        self.name = Some(name.ok_or_else(|| ambiguous("an empty GNU long name"))?.to_vec());
        Ok(())
    }

    fn member(mut self, header: TarHeader, start: u64, data: u64) -> Result<TarMember> {
        self.dialect.prefix = !header.prefix.is_empty();
        if self.dialect.prefix && !header.is_ustar() {
            return Err(ambiguous("a prefix in a header that is not POSIX's"));
        }
        self.dialect.not_ustar = header.magic != *b"ustar\x0000";
        let plain = matches!(header.kind, b'0' | 0 | b'7');
        let renamed = self.name.is_some();
        let name = self.name.unwrap_or_else(|| header.full_name());
        let size = match header.kind {
            // A hard link repeats the size of its target.
            b'1' => 0,
            b'2'..=b'6' if header.size > 0 || self.size.is_some_and(|size| size > 0) => {
                return Err(ambiguous("a size though it is not a file").in_sample(name.escape_ascii()));
            }
            b'2'..=b'6' => 0,
            _ => self.size.unwrap_or(header.size),
        };
        let mut kind = header.kind;
        if plain && name.ends_with(b"/") || renamed && kind == 0 && header.name.ends_with(b"/") {
            // Tars before POSIX marked folders by a slash.
            if renamed || size > 0 {
                return Err(ambiguous("the name of a folder and the type of a file").in_sample(name.escape_ascii()));
            }
            kind = b'5';
        }
        let sparse = self.sparse || kind == b'S';
        Ok(TarMember { name, kind, start, data, size, sparse, dialect: self.dialect })
    }
}

fn ambiguous(what: &str) -> Error {
    Error::content(format!("has a member with {what}, which readers interpret differently; write the tar again"))
}

/// Reads the headers of `input` in order, by position if possible, else as a stream.
pub(crate) struct TarReader<'a> {
    bytes: Bytes<'a>,
    at: u64,
    limits: Limits,
    /// How the archive ended; set once `next` has returned `None`.
    pub(crate) ending: Option<Ending>,
}

/// How the first bytes say that a file is compressed, and what its name should end with.
fn compressed(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    let known: [(&[u8], _); 4] = [
        (b"\x1f\x8b\x08", ("gzip", "gz")),
        (b"\x28\xb5\x2f\xfd", ("zstd", "zst")),
        (b"\xfd7zXZ\0", ("xz", "xz")),
        (b"BZh9", ("bzip2", "bz2")),
    ];
    known.iter().find(|(start, _)| bytes.starts_with(start)).map(|(_, names)| *names)
}

/// How an archive ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With a block of zeros, starting at this offset.
    Marked(u64),
    /// With a marker as above that bytes other than zeros follow: readers don't see them.
    Followed(u64),
    /// At the end of the file, between two members: it may be cut there.
    Bare(u64),
}

/// The most bytes behind the marker in which members of another archive are looked for.
const TAIL: u64 = 64 << 20;

impl<'a> TarReader<'a> {
    pub(crate) fn new(input: &'a dyn Input, limits: Limits) -> Result<Self> {
        Ok(Self { bytes: Bytes::new(input)?, at: 0, limits, ending: None })
    }

    /// The next member of any kind, or `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<TarMember>> {
        // A stream can't be read again at its end.
        if self.ending.is_some() {
            return Ok(None);
        }
        let start = self.at;
        let mut own = start;
        let mut extra = Extra::default();
        loop {
            let Some(header) = self.header()? else {
                return if self.at == start { Ok(None) } else { Err(self.cut()) };
            };
            let mut data = self.at + BLOCK_U64;
            let (mut extended, mut block) = (header.extended, [0; BLOCK]);
            while extended {
                if self.bytes.fill(data, &mut block)? < BLOCK {
                    return Err(self.cut());
                }
                extended = block[504] != 0;
                data += BLOCK_U64;
            }
            match header.kind {
                // Solaris used X before POSIX defined x.
                b'x' | b'X' => extra.pax(Pax::parse(&self.pax(data, header.size)?)?)?,
                b'L' => {
                    let size = self.limits.header(header.size)?;
                    extra.long_name(&self.exactly(data, size)?)?;
                }
                b'g' => {
                    extra.dialect.pax = true;
                    Pax::check_global(&self.pax(data, header.size)?)?;
                }
                b'K' => {}
                _ => return self.advance(extra.member(header, own, data)?).map(Some),
            }
            let after = data.saturating_add(padded(header.size));
            if header.kind == b'g' && own == self.at {
                own = after;
            }
            self.at = after;
        }
    }

    fn advance(&mut self, member: TarMember) -> Result<TarMember> {
        self.at = member.end();
        match self.bytes.len() {
            Some(len) if member.data.saturating_add(member.size) > len => {
                Err(self.cut().in_sample(member.name.escape_ascii()))
            }
            _ => Ok(member),
        }
    }

    /// The header at the current position; `None` at the end of the archive.
    fn header(&mut self) -> Result<Option<TarHeader>> {
        let mut block = [0; BLOCK];
        let read = self.bytes.fill(self.at, &mut block)?;
        if let (0, Some((how, end))) = (self.at, compressed(&block)) {
            let error = Error::content(format!("is compressed ({how}), which its name does not say"));
            return Err(error.hint(format!("rename it, so that it ends with .tar.{end}")));
        }
        match read {
            0 => {
                self.ending = Some(Ending::Bare(self.at));
                return Ok(None);
            }
            BLOCK => {}
            _ => return Err(self.cut()),
        }
        let header = TarHeader::decode(&block)
            .map_err(|e| e.with_kind(Kind::Content).remark(format_args!("at byte {}", self.at)))?;
        if header.is_none() {
            let second = self.bytes.fill(self.at + BLOCK_U64, &mut block)? == BLOCK;
            if second && block.iter().any(|b| *b != 0) {
                let message = format!(
                    "continues after a single block of zeros at byte {}, where readers stop; write the tar again",
                    self.at
                );
                return Err(Error::content(message));
            }
            let is_followed = second && self.has_more(self.at + 2 * BLOCK_U64)?;
            self.ending = Some(if is_followed { Ending::Followed(self.at) } else { Ending::Marked(self.at) });
        }
        Ok(header)
    }

    /// Whether other bytes than zeros follow `from`. Archives are filled up to 10 KiB as a rule; more than [`TAIL`] is not looked at.
    fn has_more(&mut self, from: u64) -> Result<bool> {
        let mut bytes = vec![0; 16 << 10];
        let mut at = from;
        while at < from + TAIL {
            let n = self.bytes.fill(at, &mut bytes)?;
            if bytes.iter().take(n).any(|byte| *byte != 0) {
                return Ok(true);
            }
            if n < bytes.len() {
                break;
            }
            at += n as u64;
        }
        Ok(false)
    }

    fn cut(&self) -> Error {
        Error::cut_short(format!("the tar ends within a member (after byte {})", self.at))
    }

    /// `size` bytes from `at`. Memory grows with the bytes that are there, not with `size`.
    fn exactly(&mut self, at: u64, size: usize) -> Result<Vec<u8>> {
        let bytes = self.bytes.read(at, size)?;
        if bytes.len() == size { Ok(bytes) } else { Err(self.cut()) }
    }

    /// The content of a PAX header at `at`, which may hold attributes of any size.
    fn pax(&mut self, at: u64, size: u64) -> Result<Vec<u8>> {
        let size = self.limits.blob(size)?;
        self.exactly(at, size)
    }

    /// Checks that `member`, which must be the last one that `next` returned, is complete. A stream must be read to its
    /// end for that.
    pub(crate) fn pass(&mut self, member: &TarMember) -> Result<()> {
        match &mut self.bytes {
            Bytes::File(_) => Ok(()),
            Bytes::Stream { stream, at } => skip_to(stream.as_mut(), at, member.data.saturating_add(member.size)),
        }
    }

    /// The data of `member`, which must be the last one that `next` returned.
    pub(crate) fn data(&mut self, member: &TarMember) -> Result<Vec<u8>> {
        let size = self.limits.blob(member.size)?;
        self.exactly(member.data, size)
    }
}

/// Random access to a file through a window, or forward access to a stream.
enum Bytes<'a> {
    File(Window<'a>),
    Stream { stream: Box<dyn Read + Send + 'a>, at: u64 },
}

impl<'a> Bytes<'a> {
    fn new(input: &'a dyn Input) -> Result<Self> {
        Ok(match input.len() {
            Some(len) => Bytes::File(Window { input, len, bytes: Vec::new(), at: 0 }),
            None => Bytes::Stream { stream: input.stream()?, at: 0 },
        })
    }

    fn len(&self) -> Option<u64> {
        match self {
            Bytes::File(window) => Some(window.len),
            Bytes::Stream { .. } => None,
        }
    }

    /// Fills `buf` from `offset` up to the end; returns the number of bytes.
    fn fill(&mut self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        match self {
            Bytes::File(window) => window.fill(offset, buf),
            Bytes::Stream { stream, at } => {
                skip_to(stream.as_mut(), at, offset)?;
                let n = read_full(stream.as_mut(), buf)?;
                *at += n as u64;
                Ok(n)
            }
        }
    }

    /// At most `len` bytes from `offset`. Memory grows with the bytes read, not with `len`.
    fn read(&mut self, offset: u64, len: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        match self {
            Bytes::File(window) => {
                bytes.resize(len.min(usize::try_from(window.left(offset)).unwrap_or(usize::MAX)), 0);
                window.fill(offset, &mut bytes)?;
            }
            Bytes::Stream { stream, at } => {
                skip_to(stream.as_mut(), at, offset)?;
                let n = stream.as_mut().take(len as u64).read_to_end(&mut bytes).context("read")?;
                *at += n as u64;
            }
        }
        Ok(bytes)
    }
}

/// The first read of a window: one header, and those of small members behind it.
const SMALL: u64 = 4 << 10;
/// The longest read of a window.
const LARGE: u64 = 128 << 10;

/// The bytes of a file around the header that was read last. Where members are small, most of its bytes are wanted one after
/// the other and each read is twice as long as the one before; past a large member it starts again with a short one.
struct Window<'a> {
    input: &'a dyn Input,
    /// That of the file.
    len: u64,
    bytes: Vec<u8>,
    /// Where `bytes` start.
    at: u64,
}

impl Window<'_> {
    /// The bytes from `offset` to the end of the file.
    fn left(&self, offset: u64) -> u64 {
        self.len.saturating_sub(offset)
    }

    /// Fills `buf` from `offset` up to the end; returns the number of bytes.
    fn fill(&mut self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let n = usize::try_from(self.left(offset)).map_or(buf.len(), |left| left.min(buf.len()));
        let buf = buf.get_mut(..n).unwrap_or_default();
        if self.get(offset, n).is_none() {
            let size = self.next_size(offset);
            if n as u64 > size {
                self.input.read_at(offset, buf)?;
                return Ok(n);
            }
            self.bytes.resize(self.left(offset).min(size) as usize, 0);
            self.at = offset;
            if let Err(e) = self.input.read_at(offset, &mut self.bytes) {
                self.bytes.clear();
                return Err(e);
            }
        }
        buf.copy_from_slice(self.get(offset, n).ok_or_else(|| Error::bug("a window without the bytes read"))?);
        Ok(n)
    }

    fn get(&self, offset: u64, n: usize) -> Option<&[u8]> {
        let from = usize::try_from(offset.checked_sub(self.at)?).ok()?;
        self.bytes.get(from..from.checked_add(n)?)
    }

    /// How much to read from `offset`.
    fn next_size(&self, offset: u64) -> u64 {
        let size = self.bytes.len() as u64;
        match offset.checked_sub(self.at) {
            Some(passed) if size > 0 && passed <= size + size / 4 => (size * 2).clamp(SMALL, LARGE),
            _ => SMALL,
        }
    }
}

fn skip_to(stream: &mut dyn Read, at: &mut u64, offset: u64) -> Result<()> {
    let skip = offset.checked_sub(*at).ok_or_else(|| Error::bug("a tar stream was read backwards"))?;
    let skipped = std::io::copy(&mut stream.take(skip), &mut std::io::sink()).context("read")?;
    *at += skipped;
    match skipped == skip {
        true => Ok(()),
        false => Err(Error::cut_short(format!("the tar ends within a member (after byte {at})"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::MemoryInput;
    use std::sync::Mutex;

    /// An input that keeps the ranges that were read.
    struct Watched {
        bytes: MemoryInput,
        reads: Mutex<Vec<(u64, usize)>>,
    }

    impl Input for Watched {
        packhorse_core::forward_input!(bytes: name len stream);

        fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
            self.reads.lock().unwrap().push((offset, buf.len()));
            self.bytes.read_at(offset, buf)
        }
    }

    /// Old GNU tars list the parts of a sparse file in blocks before its data.
    #[test]
    fn old_sparse_members_have_blocks_of_their_own() {
        let mut tar = Vec::new();
        for (name, extended) in [("a", 0), ("b", 3), ("c", 1)] {
            let mut header = crate::tar_header::encode(name, "x", 700);
            header[156] = if extended > 0 { b'S' } else { b'0' };
            header[482] = u8::from(extended > 0);
            header[148..156].fill(b' ');
            let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
            header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
            tar.extend(header);
            for left in (0..extended).rev() {
                let mut block = [7; BLOCK];
                block[504] = u8::from(left > 0);
                tar.extend(block);
            }
            tar.resize(tar.len() + padded(700) as usize, 7);
        }
        tar.resize(tar.len() + 2 * BLOCK, 0);
        let input = MemoryInput::new("t.tar", tar);
        let mut walk = TarReader::new(&input, Limits::default()).unwrap();
        let members: Vec<TarMember> = std::iter::from_fn(|| walk.next().unwrap()).collect();
        let found: Vec<_> = members.iter().map(|member| (member.sparse, member.size)).collect();
        assert_eq!(found, [(false, 700), (true, 700), (true, 700)]);
    }

    fn walked(sizes: &[usize]) -> (Vec<TarMember>, Vec<(u64, usize)>, usize) {
        let mut tar = Vec::new();
        for (n, size) in sizes.iter().enumerate() {
            tar.extend_from_slice(&crate::tar_header::encode(&n.to_string(), "x", *size as u64));
            tar.resize(tar.len() + padded(*size as u64) as usize, 7);
        }
        tar.resize(tar.len() + 2 * BLOCK, 0);
        let len = tar.len();
        let input = Watched { bytes: MemoryInput::new("t.tar", tar), reads: Mutex::default() };
        let mut walk = TarReader::new(&input, Limits::default()).unwrap();
        let members: Vec<TarMember> = std::iter::from_fn(|| walk.next().unwrap()).collect();
        assert!(matches!(walk.ending, Some(Ending::Marked(at)) if at == len as u64 - 1024));
        assert_eq!(
            members.iter().map(|m| m.size).collect::<Vec<_>>(),
            sizes.iter().map(|n| *n as u64).collect::<Vec<_>>()
        );
        let reads = input.reads.lock().unwrap().clone();
        (members, reads, len)
    }

    #[test]
    fn small_members_are_read_in_long_reads_and_large_ones_passed_over() {
        let (_, reads, len) = walked(&[100; 5000]);
        assert!(reads.len() < 50, "{} reads", reads.len());
        assert_eq!(reads.iter().map(|(_, n)| n).sum::<usize>(), len, "each byte is read once");
        let (members, reads, _) = walked(&[1 << 20; 20]);
        assert!(reads.iter().all(|(_, n)| *n as u64 <= SMALL), "{reads:?}");
        assert_eq!(reads.len(), members.len() + 1);
        // A large member in between starts with short reads again.
        let (_, reads, _) = walked(&[&[100; 1000][..], &[5 << 20], &[100; 10]].concat());
        let after = reads.iter().position(|(at, _)| *at > 5 << 20).unwrap();
        assert!(reads[after].1 as u64 <= SMALL && reads[after - 1].1 as u64 > SMALL, "{reads:?}");
    }
}
