//! Finds the samples of a file whose groups are samples: each dataset in a group is a value of its sample.

use super::dataset::{described, named};
use super::dataset_walk::DEEPEST;
use super::description::{Described, Description, describe};
use super::element::{Made, field_type};
use super::file::H5File;
use super::foreign::FixedText;
use super::group::{Link, links};
use super::group_attributes::{ATTRIBUTE, AttributeGlobs};
use super::group_search::{SampleObject, Search, Visits, too_deep};
use super::leaf_member::{LeafMember, leaves};
use super::netcdf::dimension;
use super::object_header::ObjectHeader;
use super::path_globs::{PathGlobs, field_name};
use crate::datatype::Datatype;
use packhorse_core::{
    DataType, Error, Field, FieldType, Kind, NUMPY, Omission, Result, common_number, some_of, with_metadata,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

/// The most fields of a file.
const FIELDS: usize = 100_000;
/// The name of the field of a dataset that is a sample itself.
const VALUE: &str = "value";
/// How a file is read whose groups are samples.
pub(crate) struct GroupOptions<'a> {
    /// Globs of the groups.
    pub(crate) groups: &'a [String],
    /// Globs of the datasets in them.
    pub(crate) datasets: &'a [String],
    /// Globs of their attributes, and of those of groups around them; without any, none are read.
    pub(crate) attributes: (&'a [String], &'a [String]),
    pub(crate) types: TypeOptions,
}

/// How datatypes are read.
#[derive(Clone, Copy)]
pub(crate) struct TypeOptions {
    pub(crate) text: FixedText,
    /// Whether PyTables wrote the file.
    pub(crate) pytables: bool,
}

/// The samples of a file and their fields.
pub(crate) struct GroupSamples {
    /// In the order of their paths.
    pub(crate) samples: Vec<GroupSample>,
    /// Those of all samples, one sample after the other, those of one dataset side by side.
    pub(crate) values: Vec<GroupValue>,
    /// Sorted by name.
    pub(crate) fields: Vec<GroupField>,
    pub(crate) omitted: Vec<Omission>,
    /// Whether some values have lengths that only reading tells.
    pub(crate) in_heap: bool,
}

impl GroupSamples {
    /// About the bytes of all samples.
    pub(crate) fn bytes(&self) -> u64 {
        self.samples.iter().fold(0, |sum, sample| sum.saturating_add(sample.bytes))
    }
}

pub(crate) struct GroupSample {
    /// Its path without the first slash; empty for the root.
    pub(crate) path: String,
    pub(crate) values: Range<usize>,
    /// About the bytes of its values.
    pub(crate) bytes: u64,
}

/// A leaf of a dataset, or of an attribute, that is a field's value in one sample.
#[derive(Clone, Copy)]
pub(crate) struct GroupValue {
    pub(crate) field: u32,
    pub(crate) leaf: u32,
    /// That of the dataset, or of the object that has the attribute.
    pub(crate) address: u64,
}

pub(crate) struct GroupField {
    pub(crate) name: String,
    /// The path of its dataset below those of the samples, with a slash first; empty if the samples are datasets. Of an attribute of
    /// the samples the name, behind an @.
    pub(crate) place: String,
    pub(crate) kind: FieldType,
    pub(crate) numpy: Option<String>,
    /// How many samples have it.
    pub(crate) count: u64,
    /// The first sample that has it.
    first: usize,
    /// The last sample that has it, which has it once.
    last: usize,
}

impl GroupField {
    /// The name of the attribute, if it is one.
    pub(crate) fn attribute(&self) -> Option<&str> {
        self.place.strip_prefix(ATTRIBUTE)
    }

    /// The column of `samples` samples.
    pub(crate) fn column(&self, samples: u64) -> Field {
        let field = self.kind.field(&self.name, self.count < samples);
        match &self.numpy {
            Some(numpy) => with_metadata(field, NUMPY, numpy),
            None => field,
        }
    }
}

/// The samples of a file. `Config` if nothing matches a glob; `Unsupported` if the values of a field have other types or ranks in other samples.
pub(crate) fn group_samples(
    file: &H5File<'_>,
    root: &ObjectHeader,
    options: &GroupOptions<'_>,
) -> Result<GroupSamples> {
    let mut search = Search::new(file, options.groups, options.types.pytables);
    if options.groups.iter().any(|glob| glob == "/") {
        if options.groups.len() > 1 {
            return Err(Error::config("`groups`: / is the whole file, which can't be a sample beside its groups"));
        }
        search.found.push(SampleObject {
            path: String::new(),
            address: file.root,
            is_group: true,
            around: Rc::default(),
        });
    } else {
        search.group(root, "")?;
        search.check(options.groups)?;
    }
    let has_groups = search.found.iter().any(|found| found.is_group);
    let (found, beside): (Vec<SampleObject>, Vec<SampleObject>) =
        search.found.into_iter().partition(|found| found.is_group == has_groups);
    if let Some(first) = beside.first() {
        let more = if beside.len() > 1 { format!(", as are {} others", beside.len() - 1) } else { String::new() };
        let reason = format!("a dataset beside groups, which are the samples{more}");
        search.omitted.push(Omission { field: field_name(&first.path), reason, empty: false });
    }
    let mut walk = SampleWalk {
        file,
        options,
        datasets: PathGlobs::new(options.datasets),
        attributes: AttributeGlobs::new(options.attributes, options.types.pytables),
        outer: None,
        visits: search.visits,
        place: String::new(),
        groups: Vec::new(),
        names: BTreeMap::new(),
        made: GroupSamples {
            samples: Vec::new(),
            values: Vec::new(),
            fields: Vec::new(),
            omitted: search.omitted,
            in_heap: false,
        },
        omitted: BTreeMap::new(),
        empty: BTreeSet::new(),
    };
    found.into_iter().try_for_each(|found| walk.sample(found))?;
    walk.finish()
}

/// For each field: the first dataset or attribute that is omitted, and why.
type Omitted = BTreeMap<String, (String, String)>;

/// A walk over the datasets of one sample after the other.
pub(super) struct SampleWalk<'a> {
    pub(super) file: &'a H5File<'a>,
    options: &'a GroupOptions<'a>,
    datasets: PathGlobs<'a>,
    pub(super) attributes: AttributeGlobs<'a>,
    /// The path of the group around the sample whose attributes are at hand, with a slash at its end.
    pub(super) outer: Option<String>,
    pub(super) visits: Visits,
    /// The path of the sample at hand.
    pub(super) place: String,
    /// The groups around the object at hand, which it can't hold.
    groups: Vec<u64>,
    /// Places in `made.fields`.
    names: BTreeMap<String, u32>,
    pub(super) made: GroupSamples,
    omitted: Omitted,
    /// Fields that are null datasets in some sample.
    pub(super) empty: BTreeSet<String>,
}

impl SampleWalk<'_> {
    fn sample(&mut self, found: SampleObject) -> Result<()> {
        let start = self.made.values.len();
        let sample =
            GroupSample { path: found.path.trim_start_matches('/').to_owned(), values: start..start, bytes: 0 };
        self.made.samples.push(sample);
        self.place = found.path;
        self.outer_attributes(&found.around)?;
        self.object(found.address, "")?;
        let end = self.made.values.len();
        if let Some(sample) = self.made.samples.last_mut() {
            sample.values.end = end;
        }
        Ok(())
    }

    /// The object at `below` of the sample.
    fn object(&mut self, address: u64, below: &str) -> Result<()> {
        let path = format!("{}{below}", self.place);
        if self.groups.contains(&address) {
            return Ok(());
        }
        match self.dataset_or_group(address, below, &path) {
            Err(e) if e.kind() == Kind::Unsupported && e.field().is_none() => self.omit(below, e),
            Err(e) if e.field().is_none() => Err(named(&path, e)),
            done => done,
        }
    }

    fn dataset_or_group(&mut self, address: u64, below: &str, path: &str) -> Result<()> {
        let object = ObjectHeader::read(self.file, address)?;
        if below.is_empty() {
            self.own_attributes(&object, address)?;
        }
        match describe(self.file, &object)? {
            Described::Group => {
                self.groups.push(address);
                let done = self.members(&object, below);
                self.groups.pop();
                done
            }
            Described::Datatype => Ok(()),
            _ if !self.datasets.wants(path) => Ok(()),
            Described::Null => {
                self.empty.insert(self.field_name(below));
                Ok(())
            }
            Described::Scalar => self.dataset(&object, address, below, &[]),
            Described::Rows(_, dims) => {
                let bare = dimension(self.file, &object, path)?.is_some_and(|dimension| dimension.bare);
                if bare { Ok(()) } else { self.dataset(&object, address, below, &dims) }
            }
        }
    }

    fn members(&mut self, group: &ObjectHeader, below: &str) -> Result<()> {
        if self.groups.len() >= DEEPEST {
            return Err(too_deep());
        }
        for (name, link) in links(self.file, group)? {
            self.visits.one()?;
            let below = format!("{below}/{name}");
            match link {
                Link::Object(_) if self.options.types.pytables && name.starts_with("_i_") => {}
                Link::Object(address) => self.object(address, &below)?,
                Link::Path => self.omit(&below, Error::unsupported("a soft link"))?,
                Link::Outside => self.omit(&below, Error::unsupported("a link to another file"))?,
            }
        }
        Ok(())
    }

    fn dataset(&mut self, object: &ObjectHeader, address: u64, below: &str, dims: &[u64]) -> Result<()> {
        self.leaves(&Description::of(self.file, object)?.datatype, dims, address, below)
    }

    /// Adds the values of a dataset or an attribute to the sample at hand: one for each member of a compound.
    pub(super) fn leaves(&mut self, datatype: &Datatype, dims: &[u64], address: u64, below: &str) -> Result<()> {
        for (at, (leaf, made)) in whole_leaves(datatype, dims, self.options.types).into_iter().enumerate() {
            let name = format!("{}{}", self.field_name(below), leaf.name);
            match made {
                Ok(made) => {
                    self.made.in_heap |= leaf.datatype.is_in_heap();
                    let elements = leaf.dims.iter().fold(1u64, |n, dim| n.saturating_mul(*dim));
                    self.value(&name, below, GroupValue { field: 0, leaf: at as u32, address }, made)?;
                    if let Some(sample) = self.made.samples.last_mut() {
                        let bytes = elements.saturating_mul(leaf.datatype.size().into());
                        sample.bytes = sample.bytes.saturating_add(bytes.max(1));
                    }
                }
                Err(why) if leaf.name.is_empty() => self.omit(below, Error::unsupported(why))?,
                Err(why) => {
                    let path = format!("{}{below}{}", self.place, leaf.name);
                    self.omitted.entry(name).or_insert((path, why));
                }
            }
        }
        Ok(())
    }

    /// Adds a value of the field `name` to the sample at hand.
    fn value(&mut self, name: &str, below: &str, mut value: GroupValue, (kind, numpy): Made) -> Result<()> {
        let last = self.made.samples.len() - 1;
        let Some(place) = self.names.get(name) else {
            if self.made.fields.len() >= FIELDS {
                let error = Error::unsupported(format!("has groups that give more than {FIELDS} fields"));
                return Err(error
                    .in_field(name)
                    .hint("choose smaller groups with `groups`, or datasets with `datasets`"));
            }
            value.field = self.made.fields.len() as u32;
            self.names.insert(name.to_owned(), value.field);
            let (name, place) = (name.to_owned(), below.to_owned());
            self.made.fields.push(GroupField { name, place, kind, numpy, count: 1, first: last, last });
            self.made.values.push(value);
            return Ok(());
        };
        value.field = *place;
        let Some(field) = self.made.fields.get_mut(*place as usize) else { return Ok(()) };
        if field.place != below || field.last == last {
            let (one, other) = (described(&field.place), described(below));
            let message = format!("{one} and {other} of groups give the same field {name}");
            let error = Error::unsupported(message).in_field(name);
            return Err(error.hint("choose one with `datasets` and `attributes`"));
        }
        match joined(&field.kind, &kind).filter(|_| field.numpy == numpy) {
            Some(joined) => field.kind = joined,
            None => {
                let (field, first) = (&*field, self.made.samples.get(field.first).map_or("", |sample| &sample.path));
                let message = format!(
                    "{} holds {}, and that of /{first} {}: values of one field are of one kind and have one number of dimensions",
                    described(&format!("{}{below}", self.place)),
                    shown(&kind, numpy.as_deref()),
                    shown(&field.kind, field.numpy.as_deref())
                );
                let hint = match below.starts_with(ATTRIBUTE) {
                    true => "choose groups that are alike with `groups`, or leave the attribute out with `attributes`",
                    false => "choose groups that are alike with `groups`, or leave the dataset out with `datasets`",
                };
                return Err(Error::unsupported(message).in_field(name).hint(hint));
            }
        }
        field.count += 1;
        field.last = last;
        self.made.values.push(value);
        Ok(())
    }

    pub(super) fn field_name(&self, below: &str) -> String {
        if below.is_empty() { VALUE.to_owned() } else { field_name(below.trim_start_matches(ATTRIBUTE)) }
    }

    /// Notes that the dataset, attribute or group at `below` can't be read; an error if an option names it.
    pub(super) fn omit(&mut self, below: &str, error: Error) -> Result<()> {
        let (path, name) = (format!("{}{below}", self.place), self.field_name(below));
        let (path, globs, object) = match (below.strip_prefix(ATTRIBUTE), &self.outer) {
            (Some(attribute), Some(outer)) => {
                let path = format!("{}{below}", outer.trim_end_matches('/'));
                (path, &self.attributes.outer, format!("{outer}{attribute}"))
            }
            (Some(attribute), None) => (path, &self.attributes.own, attribute.to_owned()),
            (None, _) => (path.clone(), &self.datasets, path),
        };
        if globs.name(&object) {
            return Err(error.context(format_args!("{} can't be read", described(&path))).in_field(name));
        }
        if globs.wants(&object) {
            self.omitted.entry(name).or_insert_with(|| (path, error.text().into_owned()));
        }
        Ok(())
    }

    fn finish(self) -> Result<GroupSamples> {
        let Self { datasets, attributes, mut made, names, mut omitted, empty, .. } = self;
        if let Some((name, (path, why))) = omitted.iter().find(|(name, _)| names.contains_key(*name)) {
            let what = described(path);
            let error = Error::unsupported(why).context(format_args!("{what} can't be read")).in_field(name);
            let option = if what.starts_with("dataset") { "datasets" } else { "attributes" };
            return Err(error.hint(format!(
                "other samples have values of this field: leave it out with `{option}`, or choose others with `groups`"
            )));
        }
        for name in empty.into_iter().filter(|name| !names.contains_key(name)) {
            omitted.entry(name).or_insert((String::new(), "empty: it has a null dataspace".to_owned()));
        }
        if let Some(glob) = datasets.unmatched() {
            let known: Vec<&str> = made.fields.iter().map(|field| field.name.as_str()).collect();
            let message = format!(
                "`datasets`: no dataset of the groups matches {glob}; they give the fields {}",
                some_of(&known)
            );
            return Err(Error::config(message));
        }
        if made.fields.is_empty() {
            let why = omitted.iter().next().map(|(name, (_, why))| format!(" ({name}: {why})")).unwrap_or_default();
            return Err(Error::unsupported(format!("has no readable dataset in the groups of `groups`{why}")));
        }
        let each = omitted.into_iter().map(|(field, (_, reason))| Omission { field, reason, empty: false });
        made.omitted.extend(each);
        made.omitted.extend(attributes.omissions()?);
        let samples = made.samples.len() as u64;
        for field in &mut made.fields {
            // Zeros would be most of its column.
            if let FieldType::Tensor { element, shape } = &field.kind
                && field.count < samples.div_ceil(2)
            {
                field.kind = FieldType::Ragged { element: element.clone(), rank: shape.len() };
            }
        }
        sort_fields(&mut made);
        Ok(made)
    }
}

/// The leaves of a dataset of these dimensions that is one value, as those of a dataset of one row; or why one can't be read.
pub(crate) fn whole_leaves(
    datatype: &Datatype,
    dims: &[u64],
    options: TypeOptions,
) -> Vec<(LeafMember, Result<Made, String>)> {
    let datatype = if options.pytables { &datatype.clone().of_pytables() } else { datatype };
    let dims: Vec<u64> = std::iter::once(&1).chain(dims).copied().collect();
    let made = |leaf: LeafMember| {
        let made = match (&leaf.datatype, &leaf.dims[..]) {
            // Frames, each of its own length.
            (Datatype::Vlen { .. }, [_, _]) => field_type(&leaf.datatype, &[1]).and_then(listed),
            _ => field_type(&leaf.datatype, &leaf.dims),
        };
        let made = made.map(|made| match (&leaf.datatype, options.text, &made.0) {
            // One of a sample has a length of its own.
            (Datatype::Opaque { numpy: None, .. }, _, FieldType::Scalar(_)) => (FieldType::Blob, None),
            (_, FixedText::Bytes, _) => FixedText::Blob.of(&leaf, made),
            (_, text, _) => text.of(&leaf, made),
        });
        (leaf, made)
    };
    leaves(datatype, &dims).into_iter().map(made).collect()
}

/// The type of a list of values of this type.
fn listed((kind, numpy): Made) -> Result<Made, String> {
    match kind {
        FieldType::Blob => Ok((FieldType::List { element: DataType::BinaryView, depth: 1 }, numpy)),
        FieldType::List { element, depth } => Ok((FieldType::List { element, depth: depth + 1 }, numpy)),
        other => Err(format!("lists of {other}")),
    }
}

/// The type of the values of a list that is the value of a whole dataset; other types are those of the values.
pub(crate) fn of_values(leaf: &LeafMember, kind: FieldType) -> FieldType {
    match kind {
        FieldType::List { element: DataType::BinaryView, .. } => FieldType::Blob,
        FieldType::List { element, depth } if leaf.dims.len() == 2 => FieldType::List { element, depth: depth - 1 },
        other => other,
    }
}

fn sort_fields(made: &mut GroupSamples) {
    let mut order: Vec<usize> = (0..made.fields.len()).collect();
    order.sort_by(|a, b| {
        made.fields.get(*a).map(|field| &field.name).cmp(&made.fields.get(*b).map(|field| &field.name))
    });
    let mut places = vec![0u32; order.len()];
    for (to, from) in order.iter().enumerate() {
        if let Some(place) = places.get_mut(*from) {
            *place = to as u32;
        }
    }
    for value in &mut made.values {
        value.field = places.get(value.field as usize).copied().unwrap_or_default();
    }
    made.fields.sort_by(|a, b| a.name.cmp(&b.name));
}

/// The type as users know it.
fn shown(kind: &FieldType, numpy: Option<&str>) -> String {
    let text = kind.to_string();
    match (numpy, kind.element()) {
        (Some(numpy), Some(element)) => text.replacen(&element.to_string(), numpy, 1),
        _ => text,
    }
}

/// The field type of values of both types: numbers may have other types, and arrays of one rank other shapes.
fn joined(one: &FieldType, other: &FieldType) -> Option<FieldType> {
    use FieldType::{Ragged, Scalar, Tensor};
    let rank = |kind: &FieldType| match kind {
        Tensor { shape, .. } => Some(shape.len()),
        Ragged { rank, .. } => Some(*rank),
        _ => None,
    };
    match (one, other) {
        _ if one == other => Some(one.clone()),
        (Scalar(a), Scalar(b)) => common_number(a, b).map(Scalar),
        (Tensor { element: a, shape }, Tensor { element: b, shape: same }) if shape == same => {
            Some(Tensor { element: common_number(a, b)?, shape: shape.clone() })
        }
        _ => {
            let rank = rank(one).filter(|own| rank(other) == Some(*own))?;
            let (a, b) = (one.element()?, other.element()?);
            let element = if a == b { a.clone() } else { common_number(a, b)? };
            Some(Ragged { element, rank })
        }
    }
}
