//! From member to member through anybody's tar: plain, PAX and GNU names, prefix fields.

use crate::header::{BLOCK, BLOCK_U64, Header, padded};
use packhorse_core::{Context, Error, Input, Limits, Result};
use std::io::Read;

/// One member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: Vec<u8>,
    /// What the header says it is: `0` and NUL are regular files.
    pub(crate) kind: u8,
    /// Where its first header starts.
    pub(crate) start: u64,
    /// Where its bytes start.
    pub(crate) data: u64,
    pub(crate) size: u64,
    /// How its name and size were written.
    pub(crate) dialect: Dialect,
}

impl Member {
    pub(crate) fn is_regular(&self) -> bool {
        matches!(self.kind, b'0' | 0 | b'7')
    }

    /// Where the next header starts.
    pub(crate) fn end(&self) -> u64 {
        self.data.saturating_add(padded(self.size))
    }
}

/// What beyond a plain header describes a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dialect {
    pub(crate) pax: bool,
    pub(crate) pax_path: bool,
    pub(crate) gnu_long_name: bool,
    pub(crate) prefix: bool,
    pub(crate) not_ustar: bool,
}

/// Walks the headers of `input`, by position where it can be read so, else as a stream.
pub(crate) struct Walk<'a> {
    bytes: Bytes<'a>,
    at: u64,
    limits: Limits,
    /// How the archive ended: set when `next` returned `None`.
    pub(crate) ending: Option<Ending>,
}

/// How an archive ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With a block of zeros, starting at this offset.
    Marked(u64),
    /// At the end of the file, between two members: it may have been cut there.
    Bare(u64),
}

impl<'a> Walk<'a> {
    pub(crate) fn new(input: &'a dyn Input, limits: Limits) -> Result<Self> {
        Ok(Self { bytes: Bytes::new(input)?, at: 0, limits, ending: None })
    }

    /// The next member of any kind, or `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Member>> {
        // A stream can't show its end twice.
        if self.ending.is_some() {
            return Ok(None);
        }
        let start = self.at;
        let mut dialect = Dialect::default();
        let (mut long_name, mut size) = (None, None);
        loop {
            let Some(header) = self.header()? else {
                return if self.at == start { Ok(None) } else { Err(self.cut()) };
            };
            let data = self.at + BLOCK_U64;
            match header.kind {
                b'x' => {
                    dialect.pax = true;
                    let pax = Pax::parse(&self.small(data, header.size)?)?;
                    dialect.pax_path |= pax.path.is_some();
                    long_name = pax.path.or(long_name);
                    size = pax.size.or(size);
                }
                b'L' => {
                    dialect.gnu_long_name = true;
                    let name = self.small(data, header.size)?;
                    long_name = Some(name.split(|b| *b == 0).next().unwrap_or_default().to_vec());
                }
                b'g' => dialect.pax = true,
                b'K' => {}
                kind => {
                    dialect.prefix = !header.prefix.is_empty();
                    dialect.not_ustar = header.magic != *b"ustar\x0000";
                    let name = long_name.unwrap_or_else(|| header.full_name());
                    let size = if matches!(kind, b'1'..=b'6') { 0 } else { size.unwrap_or(header.size) };
                    let member = Member { name, kind, start, data, size, dialect };
                    return self.advance(member).map(Some);
                }
            }
            self.at = data.saturating_add(padded(header.size));
        }
    }

    fn advance(&mut self, member: Member) -> Result<Member> {
        self.at = member.end();
        match self.bytes.len() {
            Some(len) if member.data.saturating_add(member.size) > len => {
                Err(self.cut().in_sample(member.name.escape_ascii()))
            }
            _ => Ok(member),
        }
    }

    /// The header at the present place; `None` at the end of the archive.
    fn header(&mut self) -> Result<Option<Header>> {
        let mut block = [0; BLOCK];
        match self.bytes.fill(self.at, &mut block)? {
            0 => {
                self.ending = Some(Ending::Bare(self.at));
                return Ok(None);
            }
            BLOCK => {}
            _ => return Err(self.cut()),
        }
        let header = Header::decode(&block).map_err(|e| {
            let message = format!("{} (at byte {})", e.message(), self.at);
            Error::content(message)
        })?;
        if header.is_none() {
            self.ending = Some(Ending::Marked(self.at));
        }
        Ok(header)
    }

    fn cut(&self) -> Error {
        Error::content(format!("is cut short: the tar ends within a member (after byte {})", self.at))
    }

    fn small(&mut self, at: u64, size: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.limits.header(size)?];
        match self.bytes.fill(at, &mut bytes)? {
            n if n == bytes.len() => Ok(bytes),
            _ => Err(self.cut()),
        }
    }

    /// Makes sure that `member`, which must be the one that `next` returned last, is whole: a stream
    /// tells only when it was read.
    pub(crate) fn pass(&mut self, member: &Member) -> Result<()> {
        match &mut self.bytes {
            Bytes::File { .. } => Ok(()),
            Bytes::Stream { stream, at } => skip_to(stream.as_mut(), at, member.data.saturating_add(member.size)),
        }
    }

    /// The bytes of `member`, which must be the one that `next` returned last.
    pub(crate) fn data(&mut self, member: &Member) -> Result<Vec<u8>> {
        let size = self.limits.blob(member.size)?;
        let bytes = self.bytes.read(member.data, size)?;
        if bytes.len() == size { Ok(bytes) } else { Err(self.cut()) }
    }
}

/// What a PAX extended header says (POSIX.1-2001, pax Extended Header).
#[derive(Default)]
struct Pax {
    path: Option<Vec<u8>>,
    size: Option<u64>,
}

impl Pax {
    fn parse(mut bytes: &[u8]) -> Result<Self> {
        let damaged = || Error::content("has a damaged PAX header");
        let mut pax = Self::default();
        while bytes.first().is_some_and(|b| *b != 0) {
            let digits = bytes.iter().position(|b| *b == b' ').ok_or_else(damaged)?;
            let len = ascii(bytes.get(..digits).unwrap_or_default()).ok_or_else(damaged)?;
            let record = bytes.get(digits + 1..len).and_then(|r| r.strip_suffix(b"\n")).ok_or_else(damaged)?;
            let equals = record.iter().position(|b| *b == b'=').ok_or_else(damaged)?;
            match record.split_at(equals) {
                (b"path", value) => pax.path = Some(value.get(1..).unwrap_or_default().to_vec()),
                (b"size", value) => {
                    pax.size = Some(ascii(value.get(1..).unwrap_or_default()).ok_or_else(damaged)? as u64);
                }
                _ => {}
            }
            bytes = bytes.get(len..).unwrap_or_default();
        }
        Ok(pax)
    }
}

fn ascii(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Bytes by position: through a window over a file, or forward only through a stream.
enum Bytes<'a> {
    File { input: &'a dyn Input, len: u64, window: Vec<u8>, at: u64 },
    Stream { stream: Box<dyn Read + Send + 'a>, at: u64 },
}

/// Small members' headers lie close together: one read sees several of them.
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

    /// Fills `buf` from `offset`, as far as there are bytes; returns how many.
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

    /// At most `len` bytes from `offset`. Memory grows with what is there, not with `len`.
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
                let n = stream.as_mut().take(len as u64).read_to_end(&mut bytes).doing("read")?;
                *at += n as u64;
            }
        }
        Ok(bytes)
    }
}

fn skip_to(stream: &mut dyn Read, at: &mut u64, offset: u64) -> Result<()> {
    let skip = offset.checked_sub(*at).ok_or_else(|| Error::bug("a tar stream was read backwards"))?;
    let skipped = std::io::copy(&mut stream.take(skip), &mut std::io::sink()).doing("read")?;
    *at += skipped;
    match skipped == skip {
        true => Ok(()),
        false => Err(Error::content(format!("is cut short: the tar ends within a member (after byte {at})"))),
    }
}

fn read_full(stream: &mut dyn Read, buf: &mut [u8]) -> Result<usize> {
    let mut done = 0;
    while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match stream.read(rest) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e).doing("read"),
        }
    }
    Ok(done)
}
