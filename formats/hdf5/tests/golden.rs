//! Digests of our files. If one changes, raise the format's revision, unless only a compressor's version
//! changed. The bytes must not depend on threads.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod large;

use packhorse_core::{Format, Options, Rows};
use packhorse_hdf5::Hdf5;
use packhorse_testkit::typed;

fn bytes(rows: &Rows, pairs: &[(&str, &str)]) -> Vec<u8> {
    let sink = Hdf5.sink(&pairs.iter().copied().collect::<Options>()).unwrap();
    typed::write(&*sink, rows, &[rows.num_rows()]).remove(".h5").unwrap()
}

/// Of the whole corpus but for `pictures`, which came later.
fn digest(pairs: &[(&str, &str)]) -> String {
    digest_of(pairs, &|name| name != "pictures")
}

fn digest_of(pairs: &[(&str, &str)], takes: &dyn Fn(&str) -> bool) -> String {
    let mut hasher = blake3::Hasher::new();
    for (name, rows) in typed::corpus().into_iter().filter(|(name, _)| takes(name)) {
        hasher.update(name.as_bytes());
        hasher.update(&bytes(&rows, pairs));
    }
    hasher.finalize().to_hex()[..16].to_owned()
}

#[test]
fn digests() {
    assert_eq!(digest_of(&[], &|name| name == "pictures"), "aa03d0ac19a3f13d");
    assert_eq!(digest(&[("filter", "none")]), "f2439910125cd2fb");
    assert_eq!(digest(&[]), "473c28438d5c3f9e");
    assert_eq!(digest(&[("filter", "zstd"), ("vlen", "on"), ("chunk", "4")]), "fdb54d1e3297060f");
    assert_eq!(digest(&[("filter", "lzf")]), "a543694050e5488f");
    assert_eq!(digest(&[("filter", "lz4"), ("shuffle", "on")]), "821ffe0a73a5f8b4");
}

#[test]
fn threads_do_not_matter() {
    for (name, rows, pairs) in large::corpus() {
        let with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            blake3::hash(&pool.install(|| bytes(&rows, pairs)))
        };
        assert_eq!(with(1), with(5), "{name}");
    }
}
