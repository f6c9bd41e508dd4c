//! Numbers and names of registered filters.
//!
//! From [the HDF Group's list](https://github.com/HDFGroup/hdf5_plugins/blob/master/docs/RegisteredFilterPlugins.md).

/// Blosc2, the only plugin used for writing.
pub(crate) const BLOSC2: u16 = 32026;

/// Number and name, sorted by number.
const NAMES: [(u16, &str); 42] = [
    (1, "gzip"),
    (2, "shuffle"),
    (3, "fletcher32"),
    (4, "szip"),
    (5, "nbit"),
    (6, "scaleoffset"),
    (257, "hzip"),
    (258, "fpzip"),
    (305, "lzo"),
    (307, "bzip2"),
    (32000, "lzf"),
    (32001, "blosc"),
    (32002, "mafisc"),
    (32003, "snappy"),
    (32004, "lz4"),
    (32005, "apax"),
    (32006, "cbf"),
    (32007, "jpeg-xr"),
    (32008, "bitshuffle"),
    (32009, "spdp"),
    (32010, "lpc-rice"),
    (32011, "ccsds-123"),
    (32012, "jpeg-ls"),
    (32013, "zfp"),
    (32014, "fpzip"),
    (32015, "zstd"),
    (32016, "b3d"),
    (32017, "sz"),
    (32018, "fcidecomp"),
    (32019, "jpeg"),
    (32020, "vbz"),
    (32021, "fapec"),
    (32022, "bitgroom"),
    (32023, "granular bitround"),
    (32024, "sz3"),
    (32025, "delta-rice"),
    (32026, "blosc2"),
    (32027, "flac"),
    (32028, "sperr"),
    (32029, "terse/prolix"),
    (32030, "ffmpeg"),
    (32033, "htj2k"),
];

/// The name of the filter `id`, if it is registered.
pub(crate) fn name(id: u16) -> Option<&'static str> {
    NAMES.iter().find(|(number, _)| *number == id).map(|(_, name)| *name)
}

/// Whether the Python package `hdf5plugin` has the plugin of filter `id`.
#[cfg_attr(not(feature = "hdf5-plugins"), expect(dead_code, reason = "used with plugins only"))]
pub(crate) fn in_wheel(id: u16) -> bool {
    matches!(id, 32001 | 32013 | 32017 | 32018 | 32024 | 32026 | 32028 | 32033)
}
