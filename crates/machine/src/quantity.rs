//! The quantities to measure. One table has its names, units and descriptions.

/// A limit of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Quantity {
    /// Writing a file in order, each part synced.
    Write,
    /// Reading a file in order, past the page cache.
    ReadCold,
    /// Reading a file in order, from the page cache.
    ReadWarm,
    /// Reads of 4 KiB at random places, past the page cache.
    Random4kCold,
    /// The same, from the page cache.
    Random4kWarm,
    /// Reads of 128 KiB at random places, past the page cache.
    Random128kCold,
    /// The same, from the page cache.
    Random128kWarm,
    /// Reads of 512 bytes every 100 KB, as a walk over the headers of a tar, after the file left the page cache.
    HeadersCold,
    /// The same, from the page cache.
    HeadersWarm,
    /// Opening and closing small files, which the file system has in memory.
    Open,
    /// Copies from memory to memory, with buffers larger than caches.
    Copy,
    /// Decoding JPEGs of 224 x 224 pixels.
    Jpeg224,
    /// Decoding JPEGs of 500 x 500 pixels.
    Jpeg500,
    /// Hashing by BLAKE3, as digests of shards.
    Blake3,
    /// CRC-32C, as checksums of members.
    Crc32c,
    /// Decompressing text by Zstandard, in bytes of text.
    Zstd,
    /// Copies from pinned memory to a GPU.
    ToGpu,
    /// Copies from a GPU to pinned memory.
    FromGpu,
}

/// What a rate counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes a second.
    Bytes,
    /// Reads a second.
    Reads,
    /// Files a second.
    Files,
    /// Pictures a second.
    Pictures,
}

impl Unit {
    /// Its plural.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Bytes => "bytes",
            Unit::Reads => "reads",
            Unit::Files => "files",
            Unit::Pictures => "pictures",
        }
    }
}

use Quantity::*;

const TABLE: [(Quantity, &str, Unit, &str); 18] = [
    (Write, "write", Unit::Bytes, "write in order, with sync"),
    (ReadCold, "read_cold", Unit::Bytes, "read in order, cold"),
    (ReadWarm, "read_warm", Unit::Bytes, "read in order, warm"),
    (Random4kCold, "random_4k_cold", Unit::Reads, "random reads of 4 KiB, cold"),
    (Random4kWarm, "random_4k_warm", Unit::Reads, "random reads of 4 KiB, warm"),
    (Random128kCold, "random_128k_cold", Unit::Reads, "random reads of 128 KiB, cold"),
    (Random128kWarm, "random_128k_warm", Unit::Reads, "random reads of 128 KiB, warm"),
    (HeadersCold, "headers_cold", Unit::Reads, "512 bytes every 100 KB, cold"),
    (HeadersWarm, "headers_warm", Unit::Reads, "512 bytes every 100 KB, warm"),
    (Open, "open", Unit::Files, "open and close small files"),
    (Copy, "copy", Unit::Bytes, "copy memory"),
    (Jpeg224, "jpeg_224", Unit::Pictures, "decode JPEGs of 224 x 224"),
    (Jpeg500, "jpeg_500", Unit::Pictures, "decode JPEGs of 500 x 500"),
    (Blake3, "blake3", Unit::Bytes, "hash, BLAKE3"),
    (Crc32c, "crc32c", Unit::Bytes, "checksum, CRC-32C"),
    (Zstd, "zstd", Unit::Bytes, "decompress text, Zstandard"),
    (ToGpu, "to_gpu", Unit::Bytes, "copy to the GPU, pinned"),
    (FromGpu, "from_gpu", Unit::Bytes, "copy from the GPU, pinned"),
];

impl Quantity {
    /// All of them, in the order of reports.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.0)
    }

    fn facts(self) -> (&'static str, Unit, &'static str) {
        let row = TABLE.iter().find(|row| row.0 == self);
        row.map_or(("", Unit::Bytes, ""), |(_, name, unit, about)| (name, *unit, about))
    }

    /// Its name in documents: lower case and `_`.
    pub fn name(self) -> &'static str {
        self.facts().0
    }

    /// What its rate counts.
    pub fn unit(self) -> Unit {
        self.facts().1
    }

    /// A few words for people.
    pub fn says(self) -> &'static str {
        self.facts().2
    }

    /// Pixels of one picture, for decoding.
    pub fn pixels(self) -> Option<u32> {
        self.side().map(|side| side * side)
    }

    /// Width and height of a picture, for decoding.
    pub(crate) fn side(self) -> Option<u32> {
        match self {
            Jpeg224 => Some(224),
            Jpeg500 => Some(500),
            _ => None,
        }
    }
}
