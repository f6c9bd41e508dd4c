//! The sink's settings.

use crate::plugin;
use crate::registry::BLOSC2;
use packhorse_core::{Options, Result};

/// How chunks of numbers are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    /// No compression; the dataset is contiguous.
    None,
    /// Deflate at this level, HDF5's filter 1; every reader has it.
    Gzip(i32),
    /// Zstandard at this level, the registered filter 32015.
    Zstd(i32),
    /// LZF, 32000; every h5py has it.
    Lzf,
    /// LZ4, 32004.
    Lz4,
    /// Blosc2, 32026, by its plugin, with this codec and level.
    Blosc2(Blosc2, i32),
}

/// A codec of Blosc2; the value is Blosc2's own number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blosc2 {
    Lz4 = 1,
    Zstd = 5,
}

/// Whether the bytes of elements are grouped by significance before compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShuffleMode {
    /// Whichever makes the first chunks smaller.
    Auto,
    On,
    Off,
}

/// Parsed options of the sink.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SinkOptions {
    /// Rows per chunk; `None` to derive them from the size of a sample.
    pub(crate) chunk: Option<u64>,
    pub(crate) filter: Compression,
    pub(crate) shuffle: ShuffleMode,
    /// Blobs as variable-length `u8` instead of values and offsets.
    pub(crate) vlen: bool,
}

impl SinkOptions {
    pub(crate) fn parse(options: &Options) -> Result<Self> {
        options.only(&["chunk", "filter", "level", "shuffle", "vlen"])?;
        Ok(Self {
            chunk: chunk(options)?,
            filter: filter(options)?,
            shuffle: options.choose("shuffle", &SHUFFLES)?,
            vlen: options.switch("vlen")?,
        })
    }
}

const SHUFFLES: [(&str, ShuffleMode); 3] =
    [("auto", ShuffleMode::Auto), ("on", ShuffleMode::On), ("off", ShuffleMode::Off)];

fn chunk(options: &Options) -> Result<Option<u64>> {
    match options.get("chunk") {
        Some("auto") => Ok(None),
        _ => options.positive("chunk"),
    }
}

fn filter(options: &Options) -> Result<Compression> {
    let level = |default: i32, highest: i32| match options.parse("level", default)? {
        level if (1..=highest).contains(&level) => Ok(level),
        level => Err(Options::refuse("level", format_args!("{level} is not between 1 and {highest}"))),
    };
    match options.get("filter").unwrap_or("gzip") {
        "gzip" => Ok(Compression::Gzip(level(4, 9)?)),
        "zstd" => Ok(Compression::Zstd(level(3, 22)?)),
        "blosc2" => blosc2(Blosc2::Zstd, level(5, 9)?),
        "blosc2-lz4" => blosc2(Blosc2::Lz4, level(5, 9)?),
        plain @ ("lzf" | "lz4" | "none") if options.get("level").is_some() => {
            Err(Options::refuse("level", format_args!("filter {plain} has no levels")))
        }
        "lzf" => Ok(Compression::Lzf),
        "lz4" => Ok(Compression::Lz4),
        "none" => Ok(Compression::None),
        other => {
            let known = "gzip, zstd, lzf, lz4, blosc2, blosc2-lz4, none";
            Err(Options::refuse("filter", format_args!("\"{other}\" is not one of {known}")))
        }
    }
}

fn blosc2(coder: Blosc2, level: i32) -> Result<Compression> {
    match plugin::find(BLOSC2) {
        Some(_) => Ok(Compression::Blosc2(coder, level)),
        None => Err(Options::refuse("filter", "blosc2 needs its plugin").hint(plugin::install(BLOSC2))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<SinkOptions> {
        SinkOptions::parse(&pairs.iter().copied().collect())
    }

    #[test]
    fn defaults_and_values() {
        let plain = parse(&[]).unwrap();
        assert_eq!(
            (plain.chunk, plain.filter, plain.shuffle, plain.vlen),
            (None, Compression::Gzip(4), ShuffleMode::Auto, false)
        );
        let set =
            parse(&[("chunk", "7"), ("filter", "zstd"), ("level", "9"), ("shuffle", "off"), ("vlen", "on")]).unwrap();
        assert_eq!(
            (set.chunk, set.filter, set.shuffle, set.vlen),
            (Some(7), Compression::Zstd(9), ShuffleMode::Off, true)
        );
    }

    #[test]
    fn invalid_values_are_refused() {
        for pair in
            [("chunk", "0"), ("filter", "lzo"), ("level", "10"), ("shuffle", "yes"), ("vlen", "1"), ("chnk", "1")]
        {
            assert_eq!(parse(&[pair]).unwrap_err().kind(), packhorse_core::Kind::Config, "{pair:?}");
        }
        for plain in ["none", "lzf", "lz4"] {
            assert!(parse(&[("filter", plain)]).is_ok());
            assert!(parse(&[("filter", plain), ("level", "1")]).is_err());
        }
    }
}
