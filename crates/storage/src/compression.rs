//! Compressed inputs: seen as the stream of bytes inside.

use packhorse_core::{Context, Error, FileStat, Input, Result};
use std::io::Read;

/// How a file is compressed as a whole, told by the end of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// RFC 1952, any number of members.
    Gzip,
    /// RFC 8878, any number of frames.
    Zstd,
}

impl Compression {
    /// The compression that `name` tells of, and the name of what is inside (`a.tgz` holds `a.tar`).
    pub fn of(name: &[u8]) -> Option<(Compression, Vec<u8>)> {
        const ENDINGS: [(&[u8], Compression, &[u8]); 5] = [
            (b".tgz", Compression::Gzip, b".tar"),
            (b".tzst", Compression::Zstd, b".tar"),
            (b".gz", Compression::Gzip, b""),
            (b".zst", Compression::Zstd, b""),
            (b".zstd", Compression::Zstd, b""),
        ];
        ENDINGS.iter().find_map(|(ending, compression, inside)| {
            let (stem, tail) = name.split_at_checked(name.len().checked_sub(ending.len())?)?;
            tail.eq_ignore_ascii_case(ending).then(|| (*compression, [stem, inside].concat()))
        })
    }

    fn reader<'a>(self, inner: Box<dyn Read + Send + 'a>) -> Result<Box<dyn Read + Send + 'a>> {
        Ok(match self {
            Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(inner)),
            Compression::Zstd => Box::new(zstd::stream::read::Decoder::new(inner).doing("start zstd")?),
        })
    }
}

/// `input` as the bytes inside it: its length is unknown, and it can only be streamed.
pub fn decompressed(input: Box<dyn Input>, compression: Compression) -> Box<dyn Input> {
    Box::new(Decompressed { input, compression })
}

struct Decompressed {
    input: Box<dyn Input>,
    compression: Compression,
}

impl Input for Decompressed {
    fn name(&self) -> &str {
        self.input.name()
    }

    fn len(&self) -> Option<u64> {
        None
    }

    fn read_at(&self, _: u64, _: &mut [u8]) -> Result<()> {
        Err(Error::bug("a compressed input was read out of order").in_input(self.name()))
    }

    fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
        let inner = self.compression.reader(self.input.stream()?)?;
        Ok(Box::new(Blaming { inner, name: self.input.name() }))
    }

    fn stat(&self) -> Result<Option<FileStat>> {
        self.input.stat()
    }
}

/// A decoder reports damage as an I/O error: here it becomes bad content that names the file.
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
            Error::content(format!("can't be decompressed: {e}")).in_input(self.name).into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::{Kind, MemoryInput};
    use std::io::Write;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn names_tell_compression_and_what_is_inside() {
        assert_eq!(Compression::of(b"x/a.TGZ"), Some((Compression::Gzip, b"x/a.tar".to_vec())));
        assert_eq!(Compression::of(b"a.tar.zst"), Some((Compression::Zstd, b"a.tar".to_vec())));
        assert_eq!(Compression::of(b"a.tar"), None);
        assert_eq!(Compression::of(b"gz"), None);
    }

    #[test]
    fn concatenated_members_are_one_stream() {
        let both = [gzip(b"hello "), gzip(b"world")].concat();
        let input = decompressed(Box::new(MemoryInput::new("a.gz", both)), Compression::Gzip);
        assert_eq!(input.read_all(100).unwrap(), b"hello world");
    }

    #[test]
    fn a_cut_stream_is_bad_content() {
        for (name, compression, whole) in [
            ("a.gz", Compression::Gzip, gzip(&[7; 5000])),
            ("a.zst", Compression::Zstd, zstd::encode_all(&[7; 5000][..], 1).unwrap()),
        ] {
            let cut = whole[..whole.len() - 4].to_vec();
            let input = decompressed(Box::new(MemoryInput::new(name, cut)), compression);
            let error = input.read_all(1 << 20).unwrap_err();
            assert_eq!((error.kind(), error.input()), (Kind::Content, Some(name)));
        }
    }
}
