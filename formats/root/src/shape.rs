//! Derives the encoding of objects from the file's class descriptions: classes, and nested collections and maps.
//! Reads no objects.

use crate::element::NumberType;
use crate::interpret::packed;
use crate::streamer::{self, Described, Streamers, code};
use crate::typename::Type;
use packhorse_core::{DataType, FieldType};
use std::sync::Arc;

/// The encoding of a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    Number(NumberType),
    /// The length of an array of the same object.
    Counter(NumberType),
    /// A string with a length of one byte or five.
    Text,
    /// A `char*` with a length of four bytes.
    LongText,
    /// A header (byte count and version), then a value.
    Headed(Box<Shape>),
    /// A count, then the values.
    List(Box<Shape>),
    /// A count, then one byte per bit.
    Bits,
    /// Keys and values.
    Map(Box<Shape>, Box<Shape>),
    /// A fixed number of values.
    Array(usize, Box<Shape>),
    /// A marker byte, then as many numbers as the counter member says.
    Pointed(Arc<str>, NumberType),
    /// As many numbers as the counter member says.
    Counted(Arc<str>, NumberType),
    /// A `TObject`, which is skipped.
    Object,
    /// A `TRef`: the unique ID of the referenced object.
    Reference,
    Record(Arc<ClassShape>),
}

/// A class in the version of the file.
#[derive(Debug, PartialEq)]
pub(crate) struct ClassShape {
    pub(crate) class: String,
    pub(crate) version: i32,
    pub(crate) checksum: u32,
    pub(crate) members: Vec<ClassMember>,
}

/// A member or base class of a class.
#[derive(Debug, PartialEq)]
pub(crate) struct ClassMember {
    pub(crate) name: Arc<str>,
    pub(crate) shape: Shape,
    pub(crate) is_base: bool,
}

/// A number or text inside a shape, which becomes a column.
#[derive(Clone, Debug)]
pub(crate) struct ShapeLeaf {
    /// The names of the members down to it, each after a dot.
    pub(crate) name: String,
    /// The indices of the members down to it.
    pub(crate) path: Vec<usize>,
    /// The lists around it, outermost first, with their lengths if fixed.
    pub(crate) lists: Vec<Option<usize>>,
    /// `None` for text.
    pub(crate) element: Option<NumberType>,
}

/// The deepest nesting of classes, and the most members of all of them.
const DEPTH: usize = 16;
const MEMBERS: usize = 4096;
/// The most values of a fixed array.
const VALUES: usize = 1 << 28;
/// Classes of ROOT with custom streamers.
const CUSTOM: [&str; 7] = ["TArray", "TClonesArray", "TDatime", "THashList", "TList", "TMap", "TObjArray"];

/// The shape of the type `of`.
pub(crate) fn of_type(of: &Type, streamers: &Streamers) -> Result<Shape, String> {
    Compiler { streamers, members: 0, depth: 0 }.value(of)
}

struct Compiler<'a> {
    streamers: &'a Streamers,
    members: usize,
    depth: usize,
}

impl Compiler<'_> {
    fn value(&mut self, of: &Type) -> Result<Shape, String> {
        Ok(match of {
            Type::Number(element) => Shape::Number(element.clone()),
            Type::Text | Type::StdText => Shape::Text,
            Type::LongText => Shape::LongText,
            Type::Bits => Shape::Bits,
            Type::List(inner) if matches!(**inner, Type::Map(..)) => return Err("a collection of maps".to_owned()),
            Type::List(inner) => Shape::List(Box::new(self.value(inner)?)),
            Type::Map(key, value) => Shape::Map(Box::new(self.side(key)?), Box::new(self.side(value)?)),
            Type::Class(name) => self.class(name)?,
        })
    }

    /// The keys or values of a map: strings and collections share one header.
    fn side(&mut self, of: &Type) -> Result<Shape, String> {
        match of {
            Type::Map(..) => Err("a map of maps".to_owned()),
            Type::StdText | Type::List(_) | Type::Bits => Ok(Shape::Headed(Box::new(self.value(of)?))),
            _ => self.value(of),
        }
    }

    fn class(&mut self, name: &str) -> Result<Shape, String> {
        if CUSTOM.iter().any(|class| name == *class || *class == "TArray" && name.starts_with(class)) {
            return Err(format!("an object of class {name}"));
        }
        let tobject = || ClassMember { name: "TObject".into(), shape: Shape::Object, is_base: true };
        let member = |name: &str, shape| ClassMember { name: name.into(), shape, is_base: false };
        let int = || Shape::Number(NumberType::int());
        let (version, members) = match name {
            "TObject" => return Ok(Shape::Object),
            "TRef" => return Ok(Shape::Reference),
            "TNamed" => (1, vec![tobject(), member("fName", Shape::Text), member("fTitle", Shape::Text)]),
            "TRefArray" => {
                // Lower bound and process ID are between size and values.
                let (lower, process) = (member("", int()), member("", Shape::Number(NumberType::short())));
                let size = member("fSize", Shape::Counter(NumberType::int()));
                let refs = member("refs", Shape::Counted("fSize".into(), NumberType::int()));
                (1, vec![tobject(), member("fName", Shape::Text), size, lower, process, refs])
            }
            _ => return self.described(name),
        };
        Ok(Shape::Record(Arc::new(ClassShape { class: name.to_owned(), version, checksum: 0, members })))
    }

    fn described(&mut self, name: &str) -> Result<Shape, String> {
        let found = self.streamers.newest(&name.replace(' ', ""));
        let (version, Described { checksum, elements }) =
            found.ok_or_else(|| format!("an object of class {name}, which the file does not describe"))?;
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(format!("classes nested more than {DEPTH} deep"));
        }
        let mut members = Vec::new();
        for element in elements.iter() {
            self.members += 1;
            if self.members > MEMBERS {
                return Err(format!("an object of more than {MEMBERS} members"));
            }
            members.push(self.member(element, name)?);
        }
        self.depth -= 1;
        Ok(Shape::Record(Arc::new(ClassShape { class: name.to_owned(), version, checksum: *checksum, members })))
    }

    fn member(&mut self, element: &streamer::StreamerElement, class: &str) -> Result<ClassMember, String> {
        let within = |reason: String| format!("an object of class {class} with a member {}: {reason}", element.name);
        let shape = self.shape(element).map_err(within)?;
        Ok(ClassMember { name: element.name.clone(), shape, is_base: element.type_name == "BASE" })
    }

    fn shape(&mut self, element: &streamer::StreamerElement) -> Result<Shape, String> {
        let refused = || Err(format!("of type {}", element.type_name));
        let fixed = (code::FIXED..code::POINTER).contains(&element.code) || matches!(element.code, 81 | 82 | 85);
        let one = if fixed { element.code - code::FIXED } else { element.code };
        let shape = match one {
            code::BASE => self.class(&element.name)?,
            code::COUNTER => Shape::Counter(NumberType::of_code(6).ok_or_else(String::new)?),
            code::CHARS => Shape::LongText,
            code::BITS => return refused(),
            9 | 19 => Shape::Number(packed(&element.title, one == 19)?),
            1..code::FIXED => match NumberType::of_code(i64::from(one)) {
                Some(number) => Shape::Number(number),
                None => return refused(),
            },
            41..=59 => match NumberType::of_code(i64::from(one - code::POINTER)) {
                Some(number) => Shape::Pointed(element.counter.as_str().into(), number),
                None => return refused(),
            },
            code::OBJECT | code::ANY => match Type::parse(&element.type_name) {
                Some(Type::Class(name)) => self.class(&name)?,
                _ => return refused(),
            },
            code::STRING => Shape::Text,
            code::TOBJECT => Shape::Object,
            code::TNAMED => self.class("TNamed")?,
            code::STL_STRING => Shape::Headed(Box::new(Shape::Text)),
            code::STL | code::STREAMER => match Type::parse(&element.type_name) {
                Some(Type::StdText) => Shape::Headed(Box::new(Shape::Text)),
                Some(found @ (Type::List(_) | Type::Map(..) | Type::Bits)) => {
                    Shape::Headed(Box::new(self.value(&found)?))
                }
                _ => return refused(),
            },
            _ => return refused(),
        };
        if !fixed {
            return if element.array > 1 { refused() } else { Ok(shape) };
        }
        array(shape, &element.dimensions, element.array).ok_or_else(|| format!("an array of {}", element.type_name))
    }
}

/// An array of `shape` with `dimensions`, whose product must be `len`.
pub(crate) fn array(shape: Shape, dimensions: &[usize], len: usize) -> Option<Shape> {
    let product = dimensions.iter().try_fold(1usize, |product, n| product.checked_mul(*n));
    if product != Some(len) || !(1..=VALUES).contains(&len) {
        return None;
    }
    Some(dimensions.iter().rev().fold(shape, |shape, n| Shape::Array(*n, Box::new(shape))))
}

impl Shape {
    /// Whether it contains objects, maps or bits, whose encoding may differ from the description.
    pub(crate) fn has_objects(&self) -> bool {
        match self {
            Shape::Record(_) | Shape::Map(..) | Shape::Object | Shape::Reference | Shape::Bits => true,
            Shape::Headed(inner) | Shape::List(inner) | Shape::Array(_, inner) => inner.has_objects(),
            _ => false,
        }
    }

    /// The leaves, each of which becomes a column.
    pub(crate) fn leaves(&self) -> Vec<ShapeLeaf> {
        let mut found = Vec::new();
        self.collect(
            &mut ShapeLeaf { name: String::new(), path: Vec::new(), lists: Vec::new(), element: None },
            &mut found,
        );
        found
    }

    fn collect(&self, at: &mut ShapeLeaf, out: &mut Vec<ShapeLeaf>) {
        let leaf = |element: Option<&NumberType>, list: bool| {
            let lists = at.lists.iter().copied().chain(list.then_some(None)).collect();
            ShapeLeaf { lists, element: element.cloned(), ..at.clone() }
        };
        match self {
            Shape::Number(element) | Shape::Counter(element) => out.push(leaf(Some(element), false)),
            Shape::Pointed(_, element) | Shape::Counted(_, element) => out.push(leaf(Some(element), true)),
            Shape::Bits => out.push(leaf(Some(&NumberType::bool()), true)),
            Shape::Text | Shape::LongText => out.push(leaf(None, false)),
            Shape::Reference => {
                out.push(ShapeLeaf { name: format!("{}.ref", at.name), ..leaf(Some(&NumberType::unsigned()), false) });
            }
            Shape::Headed(inner) => inner.collect(at, out),
            Shape::List(inner) => within(at, Some(None), |at| inner.collect(at, out)),
            Shape::Array(len, inner) => within(at, Some(Some(*len)), |at| inner.collect(at, out)),
            Shape::Map(key, value) => within(at, Some(None), |at| {
                for (number, (name, side)) in [("first", key), ("second", value)].into_iter().enumerate() {
                    at.member(number, Some(name), |at| side.collect(at, out));
                }
            }),
            Shape::Record(record) => {
                for (number, member) in record.members.iter().enumerate() {
                    let name = (!member.is_base).then_some(&*member.name);
                    // Members without a name are skipped.
                    if name != Some("") {
                        at.member(number, name, |at| member.shape.collect(at, out));
                    }
                }
            }
            Shape::Object => {}
        }
    }
}

/// Calls `then` with one more list around the leaf.
fn within(at: &mut ShapeLeaf, list: Option<Option<usize>>, then: impl FnOnce(&mut ShapeLeaf)) {
    at.lists.extend(list);
    then(at);
    at.lists.pop();
}

impl ShapeLeaf {
    /// Calls `then` with the member `number` appended to the path.
    fn member(&mut self, number: usize, name: Option<&str>, then: impl FnOnce(&mut Self)) {
        let len = self.name.len();
        if let Some(name) = name {
            self.name.push('.');
            self.name.push_str(name);
        }
        self.path.push(number);
        then(self);
        self.path.pop();
        self.name.truncate(len);
    }

    /// Whether it is a tensor: a number, with at least one list around it, all of fixed length.
    pub(crate) fn is_tensor(&self) -> bool {
        self.element.is_some() && !self.lists.is_empty() && self.lists.iter().all(Option::is_some)
    }

    /// The column type.
    pub(crate) fn holds(&self) -> FieldType {
        let element = self.element.as_ref().map_or(DataType::Utf8View, |element| element.data_type.clone());
        match (&self.element, self.lists.len()) {
            (Some(_), 0) => FieldType::Scalar(element),
            (None, 0) => FieldType::Text,
            (Some(_), _) if self.is_tensor() => {
                FieldType::Tensor { element, shape: self.lists.iter().copied().flatten().collect() }
            }
            (_, depth) => FieldType::List { element, depth },
        }
    }
}
