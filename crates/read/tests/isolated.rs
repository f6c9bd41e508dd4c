//! Isolated reading does not wait for rayon's global pool, which stands still here as it does in a forked process.
#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use packhorse_core::{Options, Registry, Result};
use packhorse_order::Rank;
use packhorse_read::*;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

const ROWS: usize = 1000;
const COLUMNS: usize = 4000;

/// A `.npy` of 16 MB, large enough that all cores are to read it.
fn write(path: &Path) {
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({ROWS}, {COLUMNS}), }}");
    header.push_str(&" ".repeat(63 - (10 + header.len()) % 64));
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend((0..ROWS * COLUMNS).flat_map(|i| (i as f32).to_le_bytes()));
    std::fs::write(path, bytes).unwrap();
}

fn open(path: &Path) -> Result<Dataset> {
    let mut rows = Options::new();
    rows.set("rows", "true");
    let options = OpenOptions { threads: 1, format: Some("npz".into()), options: rows, ..OpenOptions::default() };
    Dataset::open(&Registry::new().with(packhorse_npz::Npz), Arc::new(packhorse_storage::Local), path, &options)
}

/// Everything that reads, on threads of loaders and on this one.
fn read_all(path: &Path, isolated: bool) {
    let dataset = if isolated { packhorse_read::isolated(|| open(path)).unwrap() } else { open(path) }.unwrap();
    let read = ReadOptions { isolated, ..ReadOptions::default() };
    for (threads, readers) in [(0, 0), (2, 0), (2, 2)] {
        let options = LoaderOptions { threads, readers, read: read.clone(), ..LoaderOptions::new(100) };
        let mut loader = Loader::new(dataset.clone(), &[], &options, Host::default()).unwrap();
        let rows: usize = loader.by_ref().map(|batch| batch.unwrap().rows()).sum();
        assert_eq!((rows, loader.at(3, Rank::default()).unwrap().rows()), (ROWS, 100));
    }
    let options = LoaderOptions { read: read.clone(), ..LoaderOptions::new(2) };
    let decoder = BatchDecoder::new(&dataset, &[], &options).unwrap();
    let batch = decoder.decode(&[999, 0], 0).unwrap();
    let name = batch.layout().fields()[0].name.clone();
    assert_eq!(batch.field(&name).unwrap()[..4], ((999 * COLUMNS) as f32).to_le_bytes());
    let columns = vec![Column::from(name.as_str())];
    let (mut wants, mut block) = (Wants::default(), SampleBlock::default());
    Reader::new(dataset, columns, read).read([5, 6].into_iter(), &mut wants, &mut block).unwrap();
    assert!(block.value(1, 0).is_some());
}

#[test]
fn isolated_reading_does_not_use_the_global_pool() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.npy");
    write(&path);
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global().unwrap();
    let (go, wait) = channel::<()>();
    rayon::spawn(move || {
        let _ = wait.recv();
    });
    read_all(&path, true);

    // Without, reading ends only after the pool does its work again.
    let (done, end) = channel();
    let reading = std::thread::spawn(move || {
        read_all(&path, false);
        done.send(()).unwrap();
    });
    assert_eq!(end.recv_timeout(Duration::from_millis(200)), Err(RecvTimeoutError::Timeout));
    drop(go);
    reading.join().unwrap();
    assert_eq!(end.recv(), Ok(()));
}
