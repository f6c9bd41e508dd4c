//! Derives from a branch's metadata how its baskets are decoded. Reads no basket.

use crate::element::{NumberEncoding, NumberType};
use crate::objects::{Framing, Objects};
use crate::range::Range;
use crate::shape::{self, Shape};
use crate::streamer::Streamers;
use crate::tree::{Branch, TTree, TreeLeaf};
use crate::typename::Type;
use packhorse_core::{DataType, FieldType};
use std::sync::Arc;

/// The encoding of an entry in a basket.
#[derive(Clone, Debug)]
pub(crate) enum EntryLayout {
    /// `len` numbers at byte `offset` of an entry of `stride` bytes.
    Flat { element: NumberType, len: usize, offset: usize, stride: usize },
    /// Numbers up to the entry's end, after a marker byte if it is a pointer to an array.
    Counted { element: NumberType, inner: Vec<usize>, marker: bool },
    /// The `fBits` of `TObject`s: four bytes each, and two more if the object is referenced; a list of them, or one.
    Bits { list: bool },
    /// A `std::vector` of numbers: byte count, version, length, numbers.
    Vector { element: NumberType },
    /// A string, after a header of this many bytes.
    Text { header: usize },
    /// Objects, maps, nested collections, collections in split collections.
    Objects(Objects),
}

/// A column of a branch, or of a leaf of a branch.
#[derive(Clone, Debug)]
pub(crate) struct BranchColumn {
    pub(crate) name: String,
    pub(crate) branch: usize,
    pub(crate) layout: EntryLayout,
    pub(crate) holds: FieldType,
    /// The branch with the number of values per entry, if there is one and it can be read.
    pub(crate) counter: Option<Counter>,
}

/// A branch that holds the number of values per entry of another branch.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    pub(crate) branch: usize,
    pub(crate) element: NumberType,
}

impl Counter {
    /// The counter of `branch`, if it has one that holds integers for all entries.
    pub(crate) fn of(tree: &TTree, branch: &Branch) -> Option<Self> {
        let [leaf] = branch.leaves.as_slice() else { return None };
        let number = leaf.counter?;
        let counter = tree.branches.get(number).filter(|counter| readable(tree, counter).is_ok())?;
        let [leaf] = counter.leaves.as_slice() else { return None };
        let element = match leaf.kind.as_str() {
            "TLeafElement" if MASTERS.contains(&counter.role) => NumberType::of_code(INT),
            "TLeafElement" => NumberType::of_code(leaf.code),
            kind => NumberType::of_leaf(kind, leaf.unsigned),
        };
        let whole =
            |element: &NumberType| element.data_type.is_integer() && matches!(element.stored, NumberEncoding::Plain(_));
        Some(Self { branch: number, element: element.filter(whole)? })
    }
}

/// The C++ type of a branch, as far as the file describes it, and its columns, or why it can't be read.
pub(crate) struct Interpreted {
    pub(crate) type_name: String,
    pub(crate) columns: Result<Vec<BranchColumn>, String>,
}

const CLONES_MASTER: i64 = 3;
/// Branches that hold the size of a split collection.
const MASTERS: [i64; 2] = [CLONES_MASTER, 4];
/// ROOT's type codes of `int`, and of the bits of a `TObject`.
const INT: i64 = 3;
const BITS: i64 = 15;
const IN_COLLECTION: [i64; 2] = [31, 41];
const TSTRING: i64 = 65;
/// ROOT's type codes of objects, strings and collections stored in the entry itself.
const OBJECTS: [i64; 10] = [-1, 0, 7, 61, 62, 65, 81, 82, 300, 365];
/// The most values in an entry, and the most dimensions, of a fixed array.
const VALUES: usize = 1 << 28;
const DIMENSIONS: usize = 8;

/// Type and columns of branch `number` of `tree`; `None` if it only contains other branches.
pub(crate) fn interpret(tree: &TTree, number: usize, streamers: &Streamers) -> Option<Interpreted> {
    let branch = tree.branches.get(number)?;
    let counts = branch.role == CLONES_MASTER || branch.class == "TClonesArray";
    if branch.has_children && !counts {
        return None;
    }
    let member = MemberDescription::of(branch, streamers);
    let type_name = member.type_name.clone();
    let columns = match readable(tree, branch) {
        Err(reason) => Err(reason),
        Ok(()) if branch.has_children => {
            NumberType::of_code(INT).ok_or_else(String::new).map(|count| vec![flat(branch, number, count, &[])])
        }
        Ok(()) => columns(branch, number, &member, streamers),
    };
    let counter = Counter::of(tree, branch);
    let counted = |column: BranchColumn| BranchColumn { counter: counter.clone(), ..column };
    let columns = columns.map(|columns| columns.into_iter().map(counted).collect());
    Some(Interpreted { type_name, columns })
}

/// Whether the baskets hold all entries of the tree.
fn readable(tree: &TTree, branch: &Branch) -> Result<(), String> {
    if let Some(fault) = &branch.fault {
        return Err(fault.clone());
    }
    if branch.entries != tree.entries {
        return Err(format!("it has {} entries, but the tree has {}", branch.entries, tree.entries));
    }
    let held = branch.baskets.last().map_or(0, |last| last.first.saturating_add(last.entries));
    match held < tree.entries {
        true => Err(format!("its baskets hold {held} of {} entries", tree.entries)),
        false => Ok(()),
    }
}

/// The description of a branch by the class that it is a member of.
struct MemberDescription {
    type_name: String,
    /// The member's title (its comment), if the file describes it.
    title: Option<String>,
    /// Whether the branch is the object itself instead of a member.
    whole: bool,
}

impl MemberDescription {
    fn of(branch: &Branch, streamers: &Streamers) -> Self {
        if branch.parent.is_none() && !branch.class.is_empty() {
            return Self { type_name: branch.class.clone(), title: None, whole: true };
        }
        let name = clean(&branch.name);
        let classes = [(&branch.class, branch.class_version), (&branch.parent_class, None)];
        let member = |(class, version): (&String, _)| streamers.member(&class.replace(' ', ""), version, name);
        let found = classes.into_iter().find_map(member);
        if let Some(member) = found {
            // The name of a base class is its type.
            let type_name = if member.type_name == "BASE" { name } else { &member.type_name };
            return Self { type_name: type_name.to_owned(), title: Some(member.title.clone()), whole: false };
        }
        let leaves: Vec<&str> = branch.leaves.iter().map(|leaf| leaf.kind.as_str()).collect();
        Self { type_name: leaves.join(","), title: None, whole: false }
    }
}

/// The member's own name, without parent branches and dimensions.
fn clean(name: &str) -> &str {
    let name = name.split_once('[').map_or(name, |(name, _)| name);
    name.rsplit_once('.').map_or(name, |(_, name)| name)
}

fn columns(
    branch: &Branch,
    number: usize,
    member: &MemberDescription,
    streamers: &Streamers,
) -> Result<Vec<BranchColumn>, String> {
    let [leaf] = branch.leaves.as_slice() else {
        return match branch.leaves.as_slice() {
            [] => Err("it has no leaf".to_owned()),
            leaves => leaf_list(branch, number, leaves),
        };
    };
    if let Some(element) = number_of(leaf, member)? {
        return numbers(branch, number, leaf, element).map(|column| vec![column]);
    }
    let counted = leaf.counted && !(41..60).contains(&leaf.code);
    match IN_COLLECTION.contains(&branch.role) || counted {
        true => objects(branch, number, leaf, member, Framing::Many, streamers),
        false => object(branch, number, leaf, member, streamers),
    }
}

fn numbers(branch: &Branch, number: usize, leaf: &TreeLeaf, element: NumberType) -> Result<BranchColumn, String> {
    let in_collection = IN_COLLECTION.contains(&branch.role);
    let dimensions = dimensions(leaf)?;
    if leaf.kind == "TLeafElement" && leaf.code == BITS && dimensions.is_empty() {
        return Ok(bits(branch, number, element, leaf.counted));
    }
    if leaf.counted {
        return Ok(counted(branch, number, element, dimensions, false));
    }
    match in_collection {
        true => Err("in a collection without a counter".to_owned()),
        false => Ok(flat(branch, number, element, &dimensions)),
    }
}

/// The number type of a leaf; `None` if it is not a number.
fn number_of(leaf: &TreeLeaf, member: &MemberDescription) -> Result<Option<NumberType>, String> {
    let code = if (21..40).contains(&leaf.code) { leaf.code - 20 } else { leaf.code };
    match (leaf.kind.as_str(), code) {
        ("TLeafD32", _) => packed(&leaf.title, false).map(Some),
        ("TLeafF16", _) => packed(&leaf.title, true).map(Some),
        ("TLeafElement", 9 | 19) => match &member.title {
            Some(title) => packed(title, code == 19).map(Some),
            None => Err(format!("the file does not describe the range of {}", member.type_name)),
        },
        ("TLeafElement", code) => Ok(NumberType::of_code(code)),
        (kind, _) => Ok(NumberType::of_leaf(kind, leaf.unsigned)),
    }
}

/// `Double32_t` and `Float16_t`, whose encoding depends on the range in the title.
pub(crate) fn packed(title: &str, half: bool) -> Result<NumberType, String> {
    let data_type = if half { DataType::Float32 } else { DataType::Float64 };
    let stored = match Range::of_title(title) {
        Range::Given(low, high, bits) if low < high => {
            NumberEncoding::Range { low, step: (high - low) / (1u64 << bits) as f64 }
        }
        // For the range [0, 0], a small number of bits is that of the mantissa.
        Range::Given(0.0, 0.0, bits @ 2..15) => NumberEncoding::Truncated(u32::try_from(bits).unwrap_or(2)),
        Range::Given(0.0, 0.0, _) | Range::None if half => NumberEncoding::Truncated(12),
        Range::Given(0.0, 0.0, _) | Range::None => NumberEncoding::Widened,
        Range::Given(..) => return Err(format!("its range {title} is empty")),
    };
    Ok(NumberType { data_type, stored })
}

/// The fixed dimensions in a leaf's title, `x[n][2][3]`, whose product must be the leaf's length.
fn dimensions(leaf: &TreeLeaf) -> Result<Vec<usize>, String> {
    let parts = leaf.title.split('[').skip(1).filter_map(|part| part.split_once(']')).map(|(inside, _)| inside);
    let fixed = parts.filter(|inside| inside.starts_with(|c: char| ('1'..='9').contains(&c)));
    let mut found: Vec<usize> = fixed.filter_map(|n| n.parse().ok()).collect();
    // Brackets may hold a range instead.
    if found.is_empty() && leaf.len > 1 && leaf.title.contains('[') {
        found.extend(usize::try_from(leaf.len));
    }
    let product = found.iter().try_fold(1usize, |product, n| product.checked_mul(*n));
    let fits = product.is_some_and(|n| n <= VALUES && n as i64 == leaf.len) && found.len() <= DIMENSIONS;
    fits.then_some(found).ok_or_else(|| format!("its title {} does not match its {} values", leaf.title, leaf.len))
}

/// A string, a collection or an object.
fn object(
    branch: &Branch,
    number: usize,
    leaf: &TreeLeaf,
    member: &MemberDescription,
    streamers: &Streamers,
) -> Result<Vec<BranchColumn>, String> {
    let column =
        |layout, holds| vec![BranchColumn { name: branch.path.clone(), branch: number, layout, holds, counter: None }];
    if leaf.kind == "TLeafC" || branch.streamer_type == TSTRING {
        return Ok(column(EntryLayout::Text { header: 0 }, FieldType::Text));
    }
    if leaf.kind != "TLeafElement" {
        return Err(format!("a leaf of class {}", leaf.kind));
    }
    if (41..60).contains(&leaf.code) {
        let element = NumberType::of_code(leaf.code - 40).ok_or_else(|| format!("a pointer, {}", member.type_name))?;
        return Ok(vec![counted(branch, number, element, Vec::new(), true)]);
    }
    match Type::parse(&member.type_name) {
        Some(Type::Text | Type::StdText) if leaf.len <= 1 => {
            Ok(column(EntryLayout::Text { header: if member.whole { 0 } else { 6 } }, FieldType::Text))
        }
        Some(Type::List(inner)) if leaf.len <= 1 && matches!(*inner, Type::Number(_)) => match *inner {
            Type::Number(element) => {
                let holds = FieldType::List { element: element.data_type.clone(), depth: 1 };
                Ok(column(EntryLayout::Vector { element }, holds))
            }
            _ => Err(String::new()),
        },
        // ROOT writes whole objects of splittable classes without a header.
        Some(Type::Class(_)) if member.whole && branch.role == 0 => {
            objects(branch, number, leaf, member, Framing::Bare, streamers)
        }
        _ => objects(branch, number, leaf, member, Framing::One, streamers),
    }
}

/// The columns of objects and collections, framed as `frame` says.
fn objects(
    branch: &Branch,
    number: usize,
    leaf: &TreeLeaf,
    member: &MemberDescription,
    frame: Framing,
    streamers: &Streamers,
) -> Result<Vec<BranchColumn>, String> {
    let refused = || format!("an object of class {}", member.type_name);
    if !OBJECTS.contains(&leaf.code) || leaf.kind != "TLeafElement" || leaf.code == 0 && !member.whole {
        return Err(refused());
    }
    let of = Type::parse(&member.type_name).ok_or_else(refused)?;
    let mut shape = shape::of_type(&of, streamers)?;
    if matches!(of, Type::StdText | Type::List(_) | Type::Map(..) | Type::Bits) {
        shape = Shape::Headed(Box::new(shape));
    }
    if leaf.len > 1 {
        let dimensions = dimensions(leaf)?;
        let len = dimensions.iter().product();
        let array = shape::array(shape, &dimensions, len).filter(|_| matches!(of, Type::Class(_)));
        shape = array.ok_or_else(|| format!("an array of {}", member.type_name))?;
    }
    let (leaves, shape) = (shape.leaves(), Arc::new(shape));
    if leaves.is_empty() {
        return Err(format!("{} without members", refused()));
    }
    let column = |mut leaf: shape::ShapeLeaf| {
        if frame == Framing::Many {
            leaf.lists.insert(0, None);
        }
        let (name, holds) = (format!("{}{}", branch.path, leaf.name), leaf.holds());
        let layout = EntryLayout::Objects(Objects { frame, shape: shape.clone(), leaf });
        BranchColumn { name, branch: number, layout, holds, counter: None }
    };
    Ok(leaves.into_iter().map(column).collect())
}

/// The columns of a branch with several leaves, named `branch.leaf`.
fn leaf_list(branch: &Branch, number: usize, leaves: &[TreeLeaf]) -> Result<Vec<BranchColumn>, String> {
    let mut parts = Vec::new();
    let mut stride = 0;
    for leaf in leaves {
        let element = NumberType::of_leaf(&leaf.kind, leaf.unsigned).filter(|_| !leaf.counted);
        let element = element.ok_or_else(|| format!("a list of leaves with {} of class {}", leaf.name, leaf.kind))?;
        let shape = dimensions(leaf)?;
        let len = shape.iter().product::<usize>();
        let offset = stride;
        stride += len * element.width();
        parts.push((leaf, element, shape, len, offset));
    }
    let column =
        |(leaf, element, shape, len, offset): (&TreeLeaf, NumberType, Vec<usize>, usize, usize)| BranchColumn {
            name: format!("{}.{}", branch.path, leaf.name),
            branch: number,
            holds: shaped(&element, shape),
            layout: EntryLayout::Flat { element, len, offset, stride },
            counter: None,
        };
    Ok(parts.into_iter().map(column).collect())
}

fn flat(branch: &Branch, number: usize, element: NumberType, shape: &[usize]) -> BranchColumn {
    let len = shape.iter().product::<usize>();
    let stride = len * element.width();
    let holds = shaped(&element, shape.to_vec());
    let layout = EntryLayout::Flat { element, len, offset: 0, stride };
    BranchColumn { name: branch.path.clone(), branch: number, layout, holds, counter: None }
}

fn bits(branch: &Branch, number: usize, element: NumberType, list: bool) -> BranchColumn {
    let holds = match list {
        true => FieldType::List { element: element.data_type, depth: 1 },
        false => FieldType::Scalar(element.data_type),
    };
    BranchColumn { name: branch.path.clone(), branch: number, layout: EntryLayout::Bits { list }, holds, counter: None }
}

fn shaped(element: &NumberType, shape: Vec<usize>) -> FieldType {
    match shape.is_empty() {
        true => FieldType::Scalar(element.data_type.clone()),
        false => FieldType::Tensor { element: element.data_type.clone(), shape },
    }
}

/// Fixed dimensions inside a counted one become lists, since columns can't hold lists of tensors.
fn counted(branch: &Branch, number: usize, element: NumberType, inner: Vec<usize>, marker: bool) -> BranchColumn {
    let holds = FieldType::List { element: element.data_type.clone(), depth: 1 + inner.len() };
    let layout = EntryLayout::Counted { element, inner, marker };
    BranchColumn { name: branch.path.clone(), branch: number, layout, holds, counter: None }
}
