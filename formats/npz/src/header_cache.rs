//! A cache of parsed headers and of the last schema: most files have equal headers, and comparing one is faster than
//! parsing it.

use crate::file::{Array, fields};
use crate::npy_header::NpyHeader;
use packhorse_core::{Limits, Result, Schema, SchemaRef};
use std::sync::{Arc, Mutex, PoisonError};

/// The number of headers kept; those longer than [`LONGEST`] bytes are not.
const KEPT: usize = 32;
const LONGEST: usize = 4096;

/// Parsed headers, and the schema of the last file.
#[derive(Default)]
pub(crate) struct HeaderCache {
    /// The bytes of each header, with its magic.
    headers: Mutex<Vec<(Vec<u8>, Arc<NpyHeader>)>>,
    last: Mutex<Option<Last>>,
}

/// A schema, and the arrays that it was made for.
struct Last {
    arrays: Vec<(String, Arc<NpyHeader>)>,
    schema: SchemaRef,
}

impl HeaderCache {
    /// The header at the start of `head`, parsed unless it is known.
    pub(crate) fn header(&self, head: &[u8], limits: &Limits) -> Result<Arc<NpyHeader>> {
        let headers = || self.headers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, header)) = headers().iter().find(|(bytes, _)| head.starts_with(bytes)) {
            return Ok(Arc::clone(header));
        }
        let header = Arc::new(NpyHeader::parse(head, limits)?);
        let bytes = head.get(..header.start).unwrap_or_default();
        if (1..=LONGEST).contains(&bytes.len()) {
            let mut headers = headers();
            if headers.len() == KEPT {
                headers.remove(0);
            }
            headers.push((bytes.to_vec(), Arc::clone(&header)));
        }
        Ok(header)
    }

    /// The schema of a file with these arrays; with `rows`, a sample is an entry of the first dimension.
    pub(crate) fn schema(&self, arrays: &[(Array, Arc<NpyHeader>)], rows: bool) -> Result<SchemaRef> {
        let last = || self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = last().as_ref().filter(|last| last.is_of(arrays)) {
            return Ok(Arc::clone(&last.schema));
        }
        let schema = Arc::new(Schema::new(fields(arrays, rows)?));
        let arrays = arrays.iter().map(|(array, header)| (array.field.clone(), Arc::clone(header))).collect();
        *last() = Some(Last { arrays, schema: Arc::clone(&schema) });
        Ok(schema)
    }
}

impl Last {
    fn is_of(&self, arrays: &[(Array, Arc<NpyHeader>)]) -> bool {
        let mut pairs = self.arrays.iter().zip(arrays);
        self.arrays.len() == arrays.len()
            && pairs.all(|(known, (array, header))| known.0 == array.field && Arc::ptr_eq(&known.1, header))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(shape: &str) -> Vec<u8> {
        let text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n");
        [b"\x93NUMPY\x01\x00", &(text.len() as u16).to_le_bytes()[..], text.as_bytes()].concat()
    }

    #[test]
    fn equal_headers_are_shared() {
        let (known, limits) = (HeaderCache::default(), Limits::default());
        let of = |shape: &str| known.header(&[head(shape), vec![7; 100]].concat(), &limits).unwrap();
        let array = |header: &Arc<NpyHeader>| (Array { field: "x".into(), member: None }, Arc::clone(header));
        let (a, b) = (of("(3, 4)"), of("(3, 44)"));
        assert!(Arc::ptr_eq(&a, &of("(3, 4)")) && !Arc::ptr_eq(&a, &b));
        assert_eq!((a.shape.as_slice(), b.shape.as_slice()), (&[3, 4][..], &[3, 44][..]));
        let schema = known.schema(&[array(&a)], false).unwrap();
        assert!(Arc::ptr_eq(&schema, &known.schema(&[array(&a)], false).unwrap()));
        assert_ne!(schema, known.schema(&[array(&b)], false).unwrap());
        assert!(known.header(&head("(3, 4)")[..20], &limits).is_err());
        (0..100).for_each(|n| drop(of(&format!("({n},)"))));
        assert_eq!(known.headers.lock().unwrap().len(), KEPT);
    }
}
