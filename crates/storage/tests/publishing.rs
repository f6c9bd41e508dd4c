//! Many writers of one name: one of them wins, and its file is whole.

use packhorse_core::Store;
use packhorse_storage::{Local, Staging};
use packhorse_testkit::external::count;
use std::path::PathBuf;
use std::sync::{Arc, Barrier};

const WRITERS: u8 = 16;
const ROUNDS: usize = 100;

#[test]
fn of_sixteen_writers_that_publish_at_once_one_wins_whole() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let store: Arc<dyn Store> = Arc::new(Local);
    for round in 0..ROUNDS {
        let start = Barrier::new(WRITERS.into());
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (store, out, start) = (store.clone(), out.clone(), &start);
                scope.spawn(move || {
                    let staging = Staging::open(store, &out).unwrap();
                    let mut stage = staging.stage("shard").unwrap();
                    // Other lengths, so that a mixture would show.
                    stage.write(".tar", &vec![writer; 40_000 + usize::from(writer)]).unwrap();
                    start.wait();
                    stage.publish().unwrap();
                });
            }
        });
        let bytes = std::fs::read(out.join("shard.tar")).unwrap();
        let writer = bytes[0];
        assert!(writer < WRITERS, "round {round}");
        assert_eq!(bytes, vec![writer; 40_000 + usize::from(writer)], "round {round}");
        let names: Vec<PathBuf> = std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(names, [out.join("shard.tar")], "round {round}");
        std::fs::remove_file(out.join("shard.tar")).unwrap();
    }
    count(ROUNDS, "rounds of sixteen writers");
}
