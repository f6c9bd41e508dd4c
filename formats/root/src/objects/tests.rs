//! Decodes handwritten objects.

use super::*;
use crate::shape::ClassMember;

fn member(name: &str, shape: Shape) -> ClassMember {
    ClassMember { name: name.into(), shape, is_base: false }
}

fn number() -> Shape {
    Shape::Number(NumberType::short())
}

/// The column of leaf `number` of `shape`.
fn read(frame: Framing, shape: Shape, number: usize, entry: &[u8]) -> Result<ArrayRef> {
    let mut leaf = shape.leaves().swap_remove(number);
    if frame == Framing::Many {
        leaf.lists.insert(0, None);
    }
    let objects = Objects { frame, shape: Arc::new(shape), leaf };
    let mut reading = ObjectColumnBuilder::new(&objects);
    reading.entry(entry)?;
    let (ends, values) = reading.finish();
    let values = match values {
        Values::Text(text) => text,
        Values::Numbers(bytes) => {
            let len = bytes.len() / 2;
            packhorse_core::array_of(&NumberType::short().data_type, bytes.into(), len)?
        }
    };
    ends.into_iter().rev().try_fold(values, |values, ends| ends.wrap(values))
}

fn shown(array: Result<ArrayRef>) -> String {
    match array {
        Ok(array) => format!("{array:?}").split_whitespace().collect(),
        Err(error) => error.message().to_owned(),
    }
}

fn point() -> Shape {
    let base = ClassMember { name: "TObject".into(), shape: Shape::Object, is_base: true };
    let members = vec![base, member("x", number()), member("y", number())];
    Shape::Record(Arc::new(ClassShape { class: "P".to_owned(), version: 3, checksum: 77, members }))
}

#[test]
fn byte_counts_are_checked_for_referenced_objects_too() {
    let plain = [&[0x40, 0, 0, 16, 0, 3][..], &[0, 1, 0, 0, 0, 5, 3, 0, 0, 0], &[0, 8, 0, 9]].concat();
    let referenced = [&[0x40, 0, 0, 18, 0, 3][..], &[0, 1, 0, 0, 0, 5, 3, 0, 0, 0x10, 0, 0], &[0, 8, 0, 9]].concat();
    for bytes in [&plain, &referenced] {
        assert!(shown(read(Framing::One, point(), 1, bytes)).contains("[9,]"));
    }
    let both = [plain.clone(), referenced].concat();
    assert!(shown(read(Framing::Many, point(), 0, &both)).contains("[8,8,]"));
    let mut longer = plain.clone();
    longer[3] += 1;
    longer.push(0);
    assert_eq!(shown(read(Framing::One, point(), 0, &longer)), "an object of class P does not match its byte count");
    let mut newer = plain.clone();
    newer[5] = 4;
    assert_eq!(shown(read(Framing::One, point(), 0, &newer)), "an object of class P in version 4");
    let bare = [&[0, 1, 0, 0, 0, 5, 3, 0, 0, 0][..], &[0, 8, 0, 9]].concat();
    assert!(shown(read(Framing::Bare, point(), 0, &bare)).contains("[8,]"));
    assert_eq!(shown(read(Framing::Bare, point(), 0, &[&bare[..], &[1]].concat())), "1 bytes after an object");
}

#[test]
fn classes_without_versions_have_a_checksum() {
    let of = |sum| [&[0x40, 0, 0, 20, 0, 0, 0, 0, 0, sum][..], &[0, 1, 0, 0, 0, 5, 3, 0, 0, 0], &[0, 8, 0, 9]].concat();
    assert!(shown(read(Framing::One, point(), 0, &of(77))).contains("[8,]"));
    assert_eq!(shown(read(Framing::One, point(), 0, &of(78))), "an object of class P in version 0");
}

#[test]
fn member_wise_maps_and_collections() {
    let words = || Shape::Headed(Box::new(Shape::List(Box::new(number()))));
    let map = || Shape::Headed(Box::new(Shape::Map(Box::new(number()), Box::new(words()))));
    let values = [0x40, 0, 0, 16, 0, 9, 0, 0, 0, 1, 0, 5, 0, 0, 0, 2, 0, 6, 0, 7];
    let pairs = [&[0x40, 0, 0, 36, 0x40, 9, 0, 0, 1, 2, 3, 4, 0, 0, 0, 2][..], &[0, 1, 0, 2], &values].concat();
    assert!(shown(read(Framing::One, map(), 0, &pairs)).contains("[1,2,]"));
    let lists = shown(read(Framing::One, map(), 1, &pairs));
    assert!(lists.contains("[5,]") && lists.contains("[6,7,]"), "{lists}");
    let list = Shape::Headed(Box::new(Shape::List(Box::new(point()))));
    let objects = [[0, 1, 0, 0, 0, 5, 3, 0, 0, 0], [0, 1, 0, 0, 0, 6, 3, 0, 0, 0]].concat();
    let head = [0x40, 0, 0, 36, 0x40, 9, 0, 3, 0, 0, 0, 2];
    let bytes = [&head[..], &objects, &[0, 1, 0, 2, 0, 3, 0, 4]].concat();
    assert!(shown(read(Framing::One, list, 1, &bytes)).contains("[3,4,]"));
    let plain = Shape::Headed(Box::new(Shape::List(Box::new(number()))));
    assert_eq!(shown(read(Framing::One, plain, 0, &bytes)), "a collection stored member-wise");
}

#[test]
fn counted_arrays_have_the_length_of_their_counter() {
    let shape = || {
        let members = vec![
            member("n", Shape::Counter(NumberType::int())),
            member("v", Shape::Pointed("n".into(), NumberType::short())),
        ];
        Shape::Record(Arc::new(ClassShape { class: "C".to_owned(), version: 1, checksum: 0, members }))
    };
    assert!(shown(read(Framing::Bare, shape(), 1, &[0, 0, 0, 2, 1, 0, 8, 0, 9])).contains("[8,9,]"));
    assert!(shown(read(Framing::Bare, shape(), 1, &[0, 0, 0, 0, 0])).contains("[]"));
    assert!(read(Framing::Bare, shape(), 1, &[0, 0, 0, 3, 1, 0, 8, 0, 9]).is_err());
    assert!(read(Framing::Bare, shape(), 1, &[0xff, 0xff, 0xff, 0xff, 1]).is_err());
}
