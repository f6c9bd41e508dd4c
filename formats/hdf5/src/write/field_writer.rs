//! One field of a shard being written: its values, offsets, shapes and nulls.

use super::chunks::{Chunker, Geometry, plain_object};
use super::heap::{Collection, reference, relocate};
use super::main_file::MainFile;
use super::object::ObjectWriter;
use super::row_check::zero_byte;
use super::spool::{Spill, Spool};
use crate::datatype::Datatype;
use crate::layout;
use crate::options::{Compression, SinkOptions};
use arrow_buffer::Buffer;
use packhorse_core::{DataType, Error, Field, FieldType, Pool, Result};

/// The growing parts of the file.
pub(crate) struct Regions {
    pub(crate) main: MainFile,
    pub(crate) spill: Spill,
    /// Chunks and collections; `None` if they are written directly.
    pub(crate) body: Option<Spool>,
}

impl Regions {
    /// Appends a chunk or collection; returns its address, relative to the start of `body` if that is set.
    pub(crate) fn append_body(&mut self, bytes: &[u8]) -> Result<u64> {
        match &mut self.body {
            None => {
                self.main.align()?;
                self.main.append(bytes)
            }
            Some(body) => {
                let padding = (body.len().next_multiple_of(8) - body.len()) as usize;
                body.append([0; 8].get(..padding).unwrap_or_default(), &mut self.spill)?;
                let at = body.len();
                body.append(bytes, &mut self.spill)?;
                Ok(at)
            }
        }
    }
}

/// Where the elements of a field go.
pub(crate) enum Values {
    /// Compressed chunks.
    Chunks(Chunker),
    /// A contiguous dataset: the file's primary one, or collected in a spool.
    Plain {
        /// Bytes go directly to the file.
        primary: bool,
        spool: Spool,
        len: u64,
    },
    /// The global heap.
    Heap(Box<Heap>),
}

/// Variable-length values.
#[derive(Default)]
pub(crate) struct Heap {
    collection: Collection,
    /// Closed collections that wait to be written.
    pub(crate) full: Vec<Vec<u8>>,
    closed: u64,
    /// Addresses of written collections, as from [`Regions::append_body`].
    pub(crate) addresses: Vec<u64>,
    /// References hold the number of their collection until [`FieldWriter::finish`] puts in its address.
    references: Spool,
    count: u64,
}

impl Heap {
    fn push(&mut self, bytes: &[u8], spill: &mut Spill) -> Result<()> {
        self.count += 1;
        let len = u32::try_from(bytes.len())
            .map_err(|_| Error::unsupported("a value of over 4 GiB does not fit into the global heap; use vlen=off"))?;
        let mut found = reference(0, 0, 0);
        if len > 0 {
            let index = self.collection.push(bytes);
            found = reference(len, self.closed, index);
            if self.collection.is_full() {
                self.close();
            }
        }
        self.references.append(&found, spill)
    }

    pub(crate) fn close(&mut self) {
        if !self.collection.is_empty() {
            self.full.push(self.collection.close());
            self.closed += 1;
        }
    }
}

/// The layout's `offsets`.
pub(crate) struct Offsets {
    spool: Spool,
    end: i64,
}

impl Offsets {
    fn new(spill: &mut Spill) -> Result<Self> {
        let mut spool = Spool::default();
        spool.append(&[0; 8], spill)?;
        Ok(Self { spool, end: 0 })
    }

    /// Ends a list of length `len`.
    pub(crate) fn push(&mut self, len: usize, spill: &mut Spill) -> Result<()> {
        self.end += len as i64;
        self.spool.append(&self.end.to_le_bytes(), spill)
    }
}

/// A field being written.
pub(crate) struct FieldWriter {
    pub(crate) field: Field,
    pub(crate) kind: FieldType,
    pub(crate) datatype: Datatype,
    pub(crate) values: Values,
    /// One per level of lists, outermost first.
    pub(crate) offsets: Vec<Offsets>,
    pub(crate) shapes: Spool,
    /// One byte per sample if the field is nullable.
    present: Spool,
    pub(crate) nulls: bool,
    pub(crate) rows: u64,
}

impl FieldWriter {
    /// `target` is the chunk size in bytes; `primary` marks the field whose bytes go directly to the file.
    pub(crate) fn new(
        field: &Field,
        options: &SinkOptions,
        target: u64,
        primary: bool,
        (spill, memory): (&mut Spill, &Pool),
    ) -> Result<Self> {
        let kind = FieldType::of(field)?;
        let datatype = layout::datatype(field, &kind, options)?;
        let levels = layout::levels(&kind, options);
        let offsets = (0..levels).map(|_| Offsets::new(spill)).collect::<Result<_>>()?;
        let values = match (&kind, &datatype) {
            (_, Datatype::VlenText { .. } | Datatype::Vlen { .. }) => Values::Heap(Box::default()),
            _ if is_plain(&kind, options) => Values::Plain { primary, spool: Spool::default(), len: 0 },
            _ => {
                let (sample, rows) = match &kind {
                    FieldType::Tensor { shape, .. } => (shape.iter().map(|dim| *dim as u64).collect(), options.chunk),
                    FieldType::Scalar(_) => (Vec::new(), options.chunk),
                    _ => (Vec::new(), None),
                };
                let geometry = Geometry::new(u64::from(datatype.size()), &sample, rows, target);
                Values::Chunks(Chunker::new(geometry, options, memory))
            }
        };
        let (shapes, present) = (Spool::default(), Spool::default());
        Ok(Self { field: field.clone(), kind, datatype, values, offsets, shapes, present, nulls: false, rows: 0 })
    }

    /// Appends elements of fixed width.
    pub(crate) fn push_elements(&mut self, bytes: &Buffer, regions: &mut Regions) -> Result<()> {
        match &mut self.values {
            Values::Chunks(chunker) => chunker.push(bytes),
            _ => self.push_bytes(bytes, regions),
        }
    }

    fn push_bytes(&mut self, bytes: &[u8], regions: &mut Regions) -> Result<()> {
        match &mut self.values {
            Values::Plain { primary: true, len, .. } => {
                regions.main.append(bytes)?;
                *len += bytes.len() as u64;
            }
            Values::Plain { spool, len, .. } => {
                spool.append(bytes, &mut regions.spill)?;
                *len += bytes.len() as u64;
            }
            Values::Chunks(_) | Values::Heap(_) => return Err(Error::bug("bytes for a dataset of another kind")),
        }
        Ok(())
    }

    /// Appends one variable-length value.
    pub(crate) fn push_value(&mut self, bytes: &[u8], regions: &mut Regions) -> Result<()> {
        if let Values::Heap(heap) = &mut self.values {
            let is_text = self.kind == FieldType::Text || self.kind.element() == Some(&DataType::Utf8View);
            if is_text && bytes.contains(&0) {
                return Err(zero_byte(self.field.name(), &String::from_utf8_lossy(bytes)));
            }
            return heap.push(bytes, &mut regions.spill);
        }
        self.push_bytes(bytes, regions)?;
        self.push_offset(self.offsets.len().saturating_sub(1), bytes.len(), regions)
    }

    /// Ends a list of length `len` at `level`.
    pub(crate) fn push_offset(&mut self, level: usize, len: usize, regions: &mut Regions) -> Result<()> {
        match self.offsets.get_mut(level) {
            Some(offsets) => offsets.push(len, &mut regions.spill),
            None => Err(Error::bug("a list without offsets")),
        }
    }

    /// Appends for each of the next samples whether it has the field.
    pub(crate) fn push_present(&mut self, present: impl Iterator<Item = bool>, regions: &mut Regions) -> Result<()> {
        if !self.field.is_nullable() {
            return Ok(());
        }
        let bytes: Vec<u8> = present.map(u8::from).collect();
        self.nulls |= bytes.contains(&0);
        self.present.append(&bytes, &mut regions.spill)
    }

    /// Writes everything except chunks and collections, which start at `base`. Returns the address of the field's
    /// object, and that of `present` if some sample lacks the field.
    pub(crate) fn finish(mut self, base: u64, regions: &mut Regions) -> Result<(u64, Option<u64>)> {
        let mut object = self.values_object(base, regions)?;
        if layout::is_group(self.offsets.len()) {
            let mut group = ObjectWriter::group();
            let mut links = vec![("values".to_owned(), object.write(&mut regions.main)?)];
            for (level, offsets) in std::mem::take(&mut self.offsets).into_iter().enumerate() {
                let int = Datatype::Integer { size: 8, signed: true, big: false };
                links.push((layout::offsets_name(level), spooled(offsets.spool, &int, &[], regions)?));
            }
            if let FieldType::Ragged { rank, .. } = self.kind {
                let int = Datatype::Integer { size: 4, signed: true, big: false };
                let shapes = std::mem::take(&mut self.shapes);
                links.push(("shapes".to_owned(), spooled(shapes, &int, &[rank as u64], regions)?));
                group.number_attribute("ragged", 1)?;
            }
            links.sort();
            links.iter().for_each(|(name, address)| group.link(name, *address));
            object = group;
        }
        layout::describe(&self.field, &self.kind, &mut object)?;
        let address = object.write(&mut regions.main)?;
        let byte = Datatype::Integer { size: 1, signed: false, big: false };
        let present = self.nulls.then(|| spooled(self.present, &byte, &[], regions)).transpose()?;
        Ok((address, present))
    }

    fn values_object(&mut self, base: u64, regions: &mut Regions) -> Result<ObjectWriter> {
        let shape: Vec<u64> = match &self.kind {
            FieldType::Tensor { shape, .. } => shape.iter().map(|dim| *dim as u64).collect(),
            _ => Vec::new(),
        };
        let row: u64 = shape.iter().product();
        let dims = |elements: u64, rows: u64| [&[elements.checked_div(row).unwrap_or(rows)], &shape[..]].concat();
        match &mut self.values {
            Values::Chunks(chunker) => chunker.object(&self.datatype, base, &mut regions.main),
            Values::Plain { primary, spool, len } => {
                let address = match primary {
                    true => super::main_file::START,
                    false => std::mem::take(spool).drain(&mut regions.spill, &mut regions.main, |_| {})?,
                };
                let dims = dims(*len / u64::from(self.datatype.size()), self.rows);
                Ok(plain_object(&self.datatype, &dims, address))
            }
            Values::Heap(heap) => {
                let (references, addresses) = (std::mem::take(&mut heap.references), &heap.addresses);
                let place = |bytes: &mut [u8]| {
                    relocate(bytes, |number| {
                        let address = usize::try_from(number).ok().and_then(|number| addresses.get(number));
                        address.map_or(0, |address| address + base)
                    });
                };
                let address = references.drain(&mut regions.spill, &mut regions.main, place)?;
                Ok(plain_object(&self.datatype, &dims(heap.count, self.rows), address))
            }
        }
    }
}

/// Whether a field's elements are a contiguous dataset.
pub(crate) fn is_plain(kind: &FieldType, options: &SinkOptions) -> bool {
    match kind {
        FieldType::Blob => !options.vlen,
        FieldType::Text => false,
        FieldType::List { element, .. } if layout::is_bytes(element) => true,
        FieldType::Tensor { shape, .. } if shape.contains(&0) => true,
        _ => options.filter == Compression::None,
    }
}

/// Writes the content of `spool` as a dataset whose rows have the dimensions `row`; returns the address of its object.
fn spooled(spool: Spool, datatype: &Datatype, row: &[u64], regions: &mut Regions) -> Result<u64> {
    let rows = spool.len() / (u64::from(datatype.size()) * row.iter().product::<u64>()).max(1);
    let address = spool.drain(&mut regions.spill, &mut regions.main, |_| {})?;
    plain_object(datatype, &[&[rows], row].concat(), address).write(&mut regions.main)
}
