//! The conformance suite, with tars of several dialects.

use packhorse_testkit::conformance::{Suite, sample};
use packhorse_testkit::hostile::tar::{Member, archive};
use packhorse_webdataset::WebDataset;

#[test]
fn webdataset_conforms() {
    let plain = [
        Member::file("a.jpg", "one"),
        Member::file("a.cls", "0"),
        Member::file("b.seg.png", ""),
        Member::file("b.jpg", [7; 1025]),
    ];
    let samples =
        vec![sample("a", &[("jpg", b"one"), ("cls", b"0")]), sample("b", &[("seg.png", b""), ("jpg", &[7; 1025])])];
    let foreign = [
        Member::of_kind(b'5', "d/", ""),
        Member::pax(&[("path", b"d/a.jpg"), ("mtime", b"1.5")]),
        Member::file("d/PaxHeader.jpg", "one"),
        Member::gnu_name(format!("{}/b.jpg", "d".repeat(90))),
        Member::file("d".repeat(90), "two"),
        Member::file("c.JPG", "three").with_prefix("pre/fix"),
        Member::of_kind(b'2', "link.jpg", ""),
    ];
    let foreign_samples = vec![
        sample("d/a", &[("jpg", b"one")]),
        sample(&format!("{}/b", "d".repeat(90)), &[("jpg", b"two")]),
        sample("pre/fix/c", &[("jpg", b"three")]),
    ];
    Suite::new(&WebDataset)
        .known("plain.tar", archive(&plain), samples)
        .known("foreign.tar", archive(&foreign), foreign_samples)
        .known("empty.tar", archive(&[]), Vec::new())
        .run();
}
