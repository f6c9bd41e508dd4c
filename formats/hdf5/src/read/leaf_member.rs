//! Flattens compounds: each innermost member becomes a field.

use super::packed::Unpacker;
use crate::datatype::Datatype;
use packhorse_core::{Error, Result};

/// An innermost member, or the whole element if it is not a compound.
pub(crate) struct LeafMember {
    /// The names of the members down to it, each after a dot; empty for the whole element.
    pub(crate) name: String,
    pub(crate) datatype: Datatype,
    /// The dimensions of the dataset and of the arrays around it.
    pub(crate) dims: Vec<u64>,
    /// Its position in the element; `None` for the whole element.
    pub(crate) place: Option<MemberBytes>,
    /// Whether the elements of the last axis are joined into one, as characters into text.
    pub(crate) joined: bool,
    pub(crate) unpack: Option<Unpacker>,
    /// How to interpret its values: the JSON of [`PACKED`](packhorse_core::PACKED).
    pub(crate) notes: Option<String>,
}

/// The bytes of a member in an element.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemberBytes {
    offset: usize,
    /// Count and stride in bytes of the arrays around it, outermost first.
    nest: Vec<(usize, usize)>,
    /// Contiguous bytes.
    run: usize,
}

/// The leaves of a dataset with this datatype and dimensions.
pub(crate) fn leaves(datatype: &Datatype, dims: &[u64]) -> Vec<LeafMember> {
    let mut found = Vec::new();
    walk(datatype, String::new(), dims.to_vec(), MemberBytes::default(), true, &mut found);
    found
}

fn walk(
    datatype: &Datatype,
    name: String,
    mut dims: Vec<u64>,
    mut place: MemberBytes,
    whole: bool,
    found: &mut Vec<LeafMember>,
) {
    match datatype {
        Datatype::Compound { members, .. } => {
            for (member, offset, of) in members {
                let place = MemberBytes { offset: place.offset.saturating_add(*offset as usize), ..place.clone() };
                walk(of, format!("{name}.{member}"), dims.clone(), place, false, found);
            }
        }
        Datatype::Array { dims: inner, of, .. } => {
            dims.extend(inner.iter().map(|dim| u64::from(*dim)));
            let count = inner.iter().fold(1usize, |count, dim| count.saturating_mul(*dim as usize));
            place.nest.push((count, of.size() as usize));
            walk(of, name, dims, place, false, found);
        }
        other => {
            place.run = other.size() as usize;
            // Copy contiguous elements at once.
            while let Some((count, _)) = place.nest.pop_if(|(_, stride)| *stride == place.run) {
                place.run = place.run.saturating_mul(count);
            }
            let place = (!whole).then_some(place);
            let datatype = other.clone();
            found.push(LeafMember { name, datatype, dims, place, joined: false, unpack: None, notes: None });
        }
    }
}

impl MemberBytes {
    /// The member's bytes per element.
    pub(crate) fn bytes(&self) -> u64 {
        self.nest.iter().fold(self.run as u64, |bytes, (count, _)| bytes.saturating_mul(*count as u64))
    }

    /// The member's bytes of all `elements`, which have `size` bytes each.
    pub(crate) fn gather(&self, elements: &[u8], size: usize) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(elements.len() / size.max(1) * self.bytes() as usize);
        for element in elements.chunks_exact(size.max(1)) {
            self.level(element, self.offset, &self.nest, &mut out)?;
        }
        Ok(out)
    }

    fn level(&self, element: &[u8], at: usize, nest: &[(usize, usize)], out: &mut Vec<u8>) -> Result<()> {
        let Some(((count, stride), inner)) = nest.split_first() else {
            let found = element.get(at..).and_then(|rest| rest.get(..self.run));
            out.extend_from_slice(found.ok_or_else(|| Error::content("has a member outside its element"))?);
            return Ok(());
        };
        (0..*count).try_for_each(|i| self.level(element, at.saturating_add(i.saturating_mul(*stride)), inner, out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_nested_arrays_are_gathered() {
        let byte = Datatype::Integer { size: 1, signed: false, big: false };
        let pair = Datatype::Array { size: 2, dims: vec![2], of: Box::new(byte.clone()) };
        let inner = Datatype::Compound { size: 4, members: vec![("a".into(), 1, byte), ("b".into(), 2, pair)] };
        let array = Datatype::Array { size: 8, dims: vec![2], of: Box::new(inner) };
        let whole = Datatype::Compound { size: 9, members: vec![("x".into(), 1, array)] };
        let found = leaves(&whole, &[2]);
        let elements: Vec<u8> = (0..18).collect();
        let of = |i: usize| found[i].place.as_ref().map(|place| place.gather(&elements, 9).unwrap_or_default());
        assert_eq!((found[0].name.as_str(), &found[0].dims, of(0)), (".x.a", &vec![2, 2], Some(vec![2, 6, 11, 15])));
        let wanted = Some(vec![3, 4, 7, 8, 12, 13, 16, 17]);
        assert_eq!((found[1].name.as_str(), &found[1].dims, of(1)), (".x.b", &vec![2, 2, 2], wanted));
    }
}
