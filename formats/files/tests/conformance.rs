//! The format passes the conformance suite.

use packhorse_files::Files;
use packhorse_testkit::conformance::{Cuts, Suite, sample};

#[test]
fn files_conform() {
    Suite::new(&Files)
        .cuts(Cuts::AreOtherFiles)
        .known("dress/0001.seg.PNG", "pixels", vec![sample("dress/0001", &[("seg.png", b"pixels")])])
        .known("empty.txt", "", vec![sample("empty", &[("txt", b"")])])
        .run();
}
