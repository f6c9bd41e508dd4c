//! Compressed inputs as streams of their content.

use flate2::bufread::GzDecoder;
use packhorse_core::{Context, Error, Input, Result};
use std::io::{BufRead, BufReader, Read};

/// A whole-file compression, recognized by the file's extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// RFC 1952, any number of members.
    Gzip,
    /// RFC 8878, any number of frames.
    Zstd,
    /// bzip2, any number of streams.
    Bzip2,
    /// [xz](https://tukaani.org/xz/xz-file-format.txt), any number of streams.
    Xz,
}

/// Largest zstd window, as a power of two: what `zstd --long` writes and `zstd -d` accepts by default.
const ZSTD_WINDOW: u32 = 27;

/// Memory limit of an xz stream in KiB: twice that of `xz -9`.
const XZ_MEMORY: u32 = 128 << 10;

impl Compression {
    /// The compression of a file called `name`, and the name of its content (`a.tgz` contains `a.tar`).
    pub fn of(name: &[u8]) -> Option<(Compression, Vec<u8>)> {
        const ENDINGS: [(&[u8], Compression, &[u8]); 10] = [
            (b".tgz", Compression::Gzip, b".tar"),
            (b".tzst", Compression::Zstd, b".tar"),
            (b".tbz", Compression::Bzip2, b".tar"),
            (b".tbz2", Compression::Bzip2, b".tar"),
            (b".txz", Compression::Xz, b".tar"),
            (b".gz", Compression::Gzip, b""),
            (b".zst", Compression::Zstd, b""),
            (b".zstd", Compression::Zstd, b""),
            (b".bz2", Compression::Bzip2, b""),
            (b".xz", Compression::Xz, b""),
        ];
        ENDINGS.iter().find_map(|(ending, compression, inside)| {
            let (stem, tail) = name.split_at_checked(name.len().checked_sub(ending.len())?)?;
            tail.eq_ignore_ascii_case(ending).then(|| (*compression, [stem, inside].concat()))
        })
    }

    /// Decompresses `bytes`, any number of concatenated frames.
    pub(crate) fn reader<'a>(self, bytes: Box<dyn BufRead + Send + 'a>) -> Result<Box<dyn Read + Send + 'a>> {
        Ok(match self {
            Compression::Gzip => Box::new(GzipMembers::Member(Box::new(GzDecoder::new(bytes)))),
            Compression::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(bytes).context("start zstd")?;
                decoder.window_log_max(ZSTD_WINDOW).context("start zstd")?;
                Box::new(decoder)
            }
            Compression::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(bytes)),
            Compression::Xz => Box::new(lzma_rust2::XzReader::new_mem_limit(bytes, true, XZ_MEMORY)),
        })
    }
}

/// Members of gzip, one after another. Zeros behind one, with which tapes and blocked copies pad files, are passed over, as by `gzip`
/// and Python.
enum GzipMembers<R> {
    Member(Box<GzDecoder<R>>),
    Between(R),
    Ended,
}

impl<R: BufRead> Read for GzipMembers<R> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        loop {
            // Errors leave the state as it is, since some reads are tried again.
            let other = match self {
                GzipMembers::Member(member) => {
                    let read = member.read(buf)?;
                    if read > 0 || buf.is_empty() {
                        return Ok(read);
                    }
                    false
                }
                GzipMembers::Between(bytes) => {
                    let next = bytes.fill_buf()?;
                    let (len, zeros) = (next.len(), next.iter().take_while(|byte| **byte == 0).count());
                    bytes.consume(zeros);
                    if len > 0 && zeros == len {
                        continue;
                    }
                    len > 0
                }
                GzipMembers::Ended => return Ok(0),
            };
            *self = match std::mem::replace(self, GzipMembers::Ended) {
                GzipMembers::Member(member) => GzipMembers::Between(member.into_inner()),
                GzipMembers::Between(bytes) if other => GzipMembers::Member(Box::new(GzDecoder::new(bytes))),
                GzipMembers::Between(_) | GzipMembers::Ended => GzipMembers::Ended,
            };
        }
    }
}

/// Compressed bytes per read.
const READ: usize = 128 << 10;

/// The content of `input`: its length is unknown, and it can only be streamed.
pub fn decompressed(input: Box<dyn Input>, compression: Compression) -> Box<dyn Input> {
    Box::new(Decompressed { input, compression })
}

/// The length of the content of `input`, all of which is decompressed for it.
///
/// Errors: content that can't be decompressed, or is not what its checksums say (`Content`).
pub fn decompressed_len(input: Box<dyn Input>, compression: Compression) -> Result<u64> {
    let input = decompressed(input, compression);
    let mut stream = input.stream()?;
    let (mut buf, mut len) = (vec![0; 256 << 10], 0);
    loop {
        match stream.read(&mut buf) {
            Ok(0) => return Ok(len),
            Ok(n) => len += n as u64,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e).context("read").map_err(|e| e.in_input(input.name())),
        }
    }
}

struct Decompressed {
    input: Box<dyn Input>,
    compression: Compression,
}

impl Input for Decompressed {
    packhorse_core::forward_input!(input: name sibling stat);

    fn len(&self) -> Option<u64> {
        None
    }

    fn read_at(&self, _: u64, _: &mut [u8]) -> Result<()> {
        Err(Error::bug("a compressed input was read out of order").in_input(self.name()))
    }

    fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
        let bytes = BufReader::with_capacity(READ, self.input.stream()?);
        let inner = self.compression.reader(Box::new(bytes))?;
        Ok(Box::new(Blaming { inner, name: self.input.name() }))
    }
}

/// Turns a decoder's errors into `Content` errors that name the file.
struct Blaming<'a> {
    inner: Box<dyn Read + Send + 'a>,
    name: &'a str,
}

impl Read for Blaming<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        self.inner.read(buf).map_err(|e| {
            if e.kind() == std::io::ErrorKind::Interrupted
                || e.raw_os_error().is_some()
                || e.get_ref().is_some_and(|e| e.is::<Error>())
            {
                return e;
            }
            Error::decompress(e).in_input(self.name).into()
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use packhorse_core::{Kind, MemoryInput};
    use std::io::Write;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn bzip2(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn xz(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::with_preset(1)).unwrap();
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        zstd::encode_all(bytes, 1).unwrap()
    }

    pub(crate) type Encoder = fn(&[u8]) -> Vec<u8>;

    pub(crate) const ALL: [(&str, Encoder); 4] = [("a.gz", gzip), ("a.zst", zstd), ("a.bz2", bzip2), ("a.xz", xz)];

    fn open(name: &str, bytes: Vec<u8>) -> Box<dyn Input> {
        let (compression, _) = Compression::of(name.as_bytes()).unwrap();
        decompressed(Box::new(MemoryInput::new(name, bytes)), compression)
    }

    #[test]
    fn extensions_give_compression_and_content_name() {
        assert_eq!(Compression::of(b"x/a.TGZ"), Some((Compression::Gzip, b"x/a.tar".to_vec())));
        assert_eq!(Compression::of(b"a.tar.zst"), Some((Compression::Zstd, b"a.tar".to_vec())));
        assert_eq!(Compression::of(b"a.tbz2"), Some((Compression::Bzip2, b"a.tar".to_vec())));
        assert_eq!(Compression::of(b"a.jsonl.xz"), Some((Compression::Xz, b"a.jsonl".to_vec())));
        assert_eq!(Compression::of(b"a.tar"), None);
        assert_eq!(Compression::of(b"gz"), None);
    }

    #[test]
    fn concatenated_streams_are_one() {
        for (name, encode) in ALL {
            let three = [encode(b"hello "), encode(b""), encode(b"world")].concat();
            assert_eq!(open(name, three).read_all(100).unwrap(), b"hello world", "{name}");
        }
        // Zeros between members and behind them, more than are read at once.
        let zeros = vec![0; 300 << 10];
        let padded = [&gzip(b"hello "), &zeros[..], &gzip(b"world"), &zeros[..7]].concat();
        assert_eq!(open("a.gz", padded.clone()).read_all(100).unwrap(), b"hello world");
        let other = [&padded[..], b"x"].concat();
        assert_eq!(open("a.gz", other).read_all(100).unwrap_err().kind(), Kind::Content);
    }

    #[test]
    fn a_cut_or_flipped_stream_is_bad_content() {
        let bytes: Vec<u8> = (0..5000u32).flat_map(|i| (i * i).to_le_bytes()).collect();
        for (name, encode) in ALL {
            let whole = encode(&bytes);
            for cut in [1, 4, 20, whole.len() / 2, whole.len() - 9, whole.len() - 1] {
                let error = open(name, whole[..cut].to_vec()).read_all(1 << 20).unwrap_err();
                assert_eq!((error.kind(), error.input()), (Kind::Content, Some(name)), "{name} cut at {cut}");
            }
            for at in 0..whole.len().min(300) {
                let mut flipped = whole.clone();
                flipped[at] ^= 1 << (at % 8);
                if let Err(error) = open(name, flipped).read_all(1 << 20) {
                    assert!(matches!(error.kind(), Kind::Content | Kind::Limit), "{name}, byte {at}: {error}");
                }
            }
        }
    }

    #[test]
    fn a_window_that_costs_too_much_is_refused() {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(ZSTD_WINDOW + 1).unwrap();
        encoder.write_all(b"hello").unwrap();
        let error = open("a.zst", encoder.finish().unwrap()).read_all(100).unwrap_err();
        assert_eq!(error.kind(), Kind::Content, "{error}");
        let mut options = lzma_rust2::XzOptions::with_preset(1);
        options.lzma_options.dict_size = 256 << 20;
        let mut encoder = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
        encoder.write_all(b"hello").unwrap();
        let error = open("a.xz", encoder.finish().unwrap()).read_all(100).unwrap_err();
        assert_eq!(error.kind(), Kind::Content, "{error}");
    }
}
