//! Reads the members of any tar: plain, PAX and GNU names, prefix fields.

use crate::pax::Pax;
use crate::tar_header::{BLOCK, BLOCK_U64, TarHeader, padded};
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

    pub(crate) fn is_folder(&self) -> bool {
        self.kind == b'5'
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

/// How an archive ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With a block of zeros, starting at this offset.
    Marked(u64),
    /// At the end of the file, between two members: it may be cut there.
    Bare(u64),
}

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
            let data = self.at + BLOCK_U64;
            match header.kind {
                // Solaris used X before POSIX defined x.
                b'x' | b'X' => extra.pax(Pax::parse(&self.small(data, header.size)?)?)?,
                b'L' => extra.long_name(&self.small(data, header.size)?)?,
                b'g' => {
                    extra.dialect.pax = true;
                    Pax::check_global(&self.small(data, header.size)?)?;
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
        match self.bytes.fill(self.at, &mut block)? {
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
            if self.bytes.fill(self.at + BLOCK_U64, &mut block)? == BLOCK && block.iter().any(|b| *b != 0) {
                let message = format!(
                    "continues after a single block of zeros at byte {}, where readers stop; write the tar again",
                    self.at
                );
                return Err(Error::content(message));
            }
            self.ending = Some(Ending::Marked(self.at));
        }
        Ok(header)
    }

    fn cut(&self) -> Error {
        Error::cut_short(format!("the tar ends within a member (after byte {})", self.at))
    }

    fn small(&mut self, at: u64, size: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.limits.header(size)?];
        match self.bytes.fill(at, &mut bytes)? {
            n if n == bytes.len() => Ok(bytes),
            _ => Err(self.cut()),
        }
    }

    /// Checks that `member`, which must be the last one that `next` returned, is complete. A stream must be read to its
    /// end for that.
    pub(crate) fn pass(&mut self, member: &TarMember) -> Result<()> {
        match &mut self.bytes {
            Bytes::File { .. } => Ok(()),
            Bytes::Stream { stream, at } => skip_to(stream.as_mut(), at, member.data.saturating_add(member.size)),
        }
    }

    /// The data of `member`, which must be the last one that `next` returned.
    pub(crate) fn data(&mut self, member: &TarMember) -> Result<Vec<u8>> {
        let size = self.limits.blob(member.size)?;
        let bytes = self.bytes.read(member.data, size)?;
        if bytes.len() == size { Ok(bytes) } else { Err(self.cut()) }
    }
}

/// Random access to a file through a window, or forward access to a stream.
enum Bytes<'a> {
    File { input: &'a dyn Input, len: u64, window: Vec<u8>, at: u64 },
    Stream { stream: Box<dyn Read + Send + 'a>, at: u64 },
}

/// Bytes of one read of headers: those of small members are close together.
const WINDOW: u64 = 4096;

impl<'a> Bytes<'a> {
    fn new(input: &'a dyn Input) -> Result<Self> {
        Ok(match input.len() {
            Some(len) => Bytes::File { input, len, window: Vec::new(), at: 0 },
            None => Bytes::Stream { stream: input.stream()?, at: 0 },
        })
    }

    fn len(&self) -> Option<u64> {
        match self {
            Bytes::File { len, .. } => Some(*len),
            Bytes::Stream { .. } => None,
        }
    }

    /// Fills `buf` from `offset` up to the end; returns the number of bytes.
    fn fill(&mut self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        match self {
            Bytes::File { input, len, window, at } => {
                let left = len.saturating_sub(offset);
                let n = usize::try_from(left).map_or(buf.len(), |left| left.min(buf.len()));
                let buf = buf.get_mut(..n).unwrap_or_default();
                if n as u64 > WINDOW {
                    input.read_at(offset, buf)?;
                    return Ok(n);
                }
                if offset < *at || offset + n as u64 > *at + window.len() as u64 {
                    window.resize(left.min(WINDOW) as usize, 0);
                    input.read_at(offset, window)?;
                    *at = offset;
                }
                let from = (offset - *at) as usize;
                buf.copy_from_slice(window.get(from..from + n).unwrap_or_default());
                Ok(n)
            }
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
            Bytes::File { input, len: end, .. } => {
                let left = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX);
                bytes.resize(len.min(left), 0);
                input.read_at(offset, &mut bytes)?;
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

fn skip_to(stream: &mut dyn Read, at: &mut u64, offset: u64) -> Result<()> {
    let skip = offset.checked_sub(*at).ok_or_else(|| Error::bug("a tar stream was read backwards"))?;
    let skipped = std::io::copy(&mut stream.take(skip), &mut std::io::sink()).context("read")?;
    *at += skipped;
    match skipped == skip {
        true => Ok(()),
        false => Err(Error::cut_short(format!("the tar ends within a member (after byte {at})"))),
    }
}
