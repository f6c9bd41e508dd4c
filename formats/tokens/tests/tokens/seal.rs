//! The companions of a dataset.

use crate::common::sink;
use packhorse_core::{Members, Sealed, ShardSummary};
use packhorse_testkit::memory::MemoryOutlet;
use std::collections::BTreeMap;

fn sealed(splits: bool) -> BTreeMap<String, Vec<u8>> {
    let shard = |i: u64| ShardSummary {
        name: format!("part-{i:06}"),
        split: splits.then(|| if i < 2 { "train" } else { "valid" }.to_owned()),
        counts: [("tokens".to_owned(), i * 1000)].into(),
        ..ShardSummary::default()
    };
    let shards: Vec<ShardSummary> = (0..4).map(shard).collect();
    let members = |_: usize| Ok(Members::default());
    let mut outlet = MemoryOutlet::new();
    let dataset = Sealed { name: "corpus", root_digest: "", shards: &shards, members: &members };
    sink(&[]).seal(&dataset, &mut outlet).unwrap();
    outlet.files()
}

#[test]
fn megatrons_list_of_shards() {
    let text = |text: &str| text.as_bytes().to_vec();
    let all = "1000 part-000001\n2000 part-000002\n3000 part-000003\n";
    assert_eq!(sealed(false), [("data-path.txt".to_owned(), text(all))].into());
    let split = [
        ("data-path.train.txt".to_owned(), text("1000 part-000001\n")),
        ("data-path.valid.txt".to_owned(), text("2000 part-000002\n3000 part-000003\n")),
    ];
    assert_eq!(sealed(true), split.into());
}
