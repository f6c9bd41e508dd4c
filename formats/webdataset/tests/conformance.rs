//! The conformance suite, with tars of several dialects.

use packhorse_testkit::conformance::{Suite, sample};
use packhorse_testkit::hostile::tar::{TarMember, archive};
use packhorse_webdataset::WebDataset;

#[test]
fn webdataset_conforms() {
    let plain = [
        TarMember::file("a.jpg", "one"),
        TarMember::file("a.cls", "0"),
        TarMember::file("b.seg.png", ""),
        TarMember::file("b.jpg", [7; 1025]),
    ];
    let samples =
        vec![sample("a", &[("jpg", b"one"), ("cls", b"0")]), sample("b", &[("seg.png", b""), ("jpg", &[7; 1025])])];
    let foreign = [
        TarMember::of_kind(b'5', "d/", ""),
        TarMember::pax(&[("path", b"d/a.jpg"), ("mtime", b"1.5")]),
        TarMember::file("d/PaxHeader.jpg", "one"),
        TarMember::gnu_name(format!("{}/b.jpg", "d".repeat(90))),
        TarMember::file("d".repeat(90), "two"),
        TarMember::file("c.JPG", "three").with_prefix("pre/fix"),
        TarMember::of_kind(b'2', "link.jpg", ""),
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
