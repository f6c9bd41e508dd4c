//! Where the fields of batches lie in a slab.

use super::FieldOptions;
use super::field_decoder::FieldDecoder;
use crate::Layout;
use packhorse_core::{DataType, Error, FieldType, Result};
use packhorse_transform::image::View;

/// A resolved field of batches.
pub(crate) struct ResolvedField {
    pub(crate) name: String,
    /// The field of the dataset, or several of which a sample has one.
    pub(crate) source: String,
    /// The requested column that it is made from.
    pub(crate) column: usize,
    pub(crate) cell: FieldDecoder,
    pub(crate) view: Option<View>,
    /// The fields of the images that a mask may be of: it is cut where its image is.
    pub(crate) images: Vec<usize>,
    pub(crate) required: bool,
    /// Its index in the layout; ragged values are followed by their offsets, and by their shapes if any.
    pub(crate) at: usize,
    pub(crate) ragged: bool,
    /// The number of dimensions, if rows have shapes of their own.
    pub(crate) rank: usize,
    /// Bytes per row; for ragged values, bytes per entry.
    pub(crate) stride: usize,
}

/// The levels of lists in the rows' lists whose lengths batches hold beside the values of `cell`, the innermost first. Bytes are lists too;
/// the first level is that of the lists in a row.
pub(super) fn lengths_in(cell: &FieldDecoder, kind: &FieldType) -> std::iter::Rev<std::ops::RangeInclusive<usize>> {
    let levels = match (cell, kind) {
        (FieldDecoder::Pieces, FieldType::List { depth, .. }) => *depth,
        (FieldDecoder::Ragged { rank: 1, .. }, FieldType::List { depth, .. }) => depth - 1,
        (FieldDecoder::Listed { .. }, FieldType::List { depth, .. }) => depth - 1,
        _ => 0,
    };
    (1..=levels).rev()
}

/// What follows the name of a ragged field in the names of its offsets and of its rows' shapes.
const PARTS: [&str; 2] = [".offsets", ".shape"];
/// What follows the name of a field of lists in lists in the name of the inner ones' lengths.
pub(super) const LENGTHS: &str = ".lengths";

pub(super) fn is_a_part(name: &str, of: &str) -> Error {
    let message = format!("field {name} has a name that batches give to a part of {of}, whose rows differ in length");
    Error::config(message).in_field(name).hint("choose the fields of the batch, and give one of these another name")
}

/// Adds a field to the layout.
pub(super) fn place(
    asked: &FieldOptions,
    cell: FieldDecoder,
    view: Option<View>,
    batch: usize,
    layout: &mut Layout,
) -> Result<ResolvedField> {
    let (name, at) = (&asked.name, layout.fields().len());
    let of = PARTS.iter().find_map(|part| name.strip_suffix(part));
    if let Some(of) = of.filter(|of| layout.field(of).is_some_and(|field| field.ragged)) {
        return Err(is_a_part(name, of));
    }
    let (mut ragged, mut rank) = (false, 0);
    let stride = match &cell {
        FieldDecoder::Bytes | FieldDecoder::Texts { .. } | FieldDecoder::Pieces | FieldDecoder::Pictures => {
            layout.push_ragged(name, DataType::UInt8, 1, &[])?;
            (ragged, rank) = (true, if matches!(cell, FieldDecoder::Pictures) { 3 } else { 1 });
            1
        }
        FieldDecoder::Lengths { .. } => {
            layout.push_ragged(name, DataType::Int64, 8, &[])?;
            (ragged, rank) = (true, 1);
            8
        }
        FieldDecoder::Listed { one } => {
            let (data_type, width, inner) = one.pixels();
            layout.push_ragged(name, data_type, width, &inner)?;
            (ragged, rank) = (true, 1);
            width * inner.iter().product::<usize>()
        }
        FieldDecoder::Mask { width, shape, .. } => {
            let data_type = if *width == 2 { DataType::UInt16 } else { DataType::UInt8 };
            match shape {
                Some((height, across)) => {
                    let (height, across) = (*height as usize, *across as usize);
                    layout.push(name, data_type, *width, vec![batch, height, across])?;
                    height * across * width
                }
                None => {
                    layout.push_ragged(name, data_type, *width, &[])?;
                    (ragged, rank) = (true, 2);
                    *width
                }
            }
        }
        FieldDecoder::Ragged { element, width, parts, rank: dimensions, .. } => {
            layout.push_ragged(name, stored(element), *width, parts.as_slice())?;
            // The parts of an element are the last dimension.
            (ragged, rank) = (true, if *dimensions > 1 { dimensions + parts.iter().len() } else { *dimensions });
            width * parts.unwrap_or(1)
        }
        FieldDecoder::Number { data_type, width, .. } => {
            layout.push(name, stored(data_type), *width, vec![batch])?;
            *width
        }
        FieldDecoder::Draws => {
            layout.push(name, DataType::UInt64, 8, vec![batch])?;
            8
        }
        FieldDecoder::Present(_) => {
            layout.push(name, DataType::UInt8, 1, vec![batch])?;
            1
        }
        FieldDecoder::Dense { element, width, shape, .. } => {
            layout.push(name, stored(element), *width, [&[batch], &shape[..]].concat())?;
            width * shape.iter().product::<usize>()
        }
        FieldDecoder::Bits { count, .. } => {
            layout.push(name, DataType::UInt8, 1, vec![batch, count.div_ceil(8)])?;
            count.div_ceil(8)
        }
        FieldDecoder::Picture { .. } | FieldDecoder::Normalized { .. } => {
            let (data_type, width, inner) = cell.pixels();
            layout.push(name, data_type, width, [&[batch], &inner[..]].concat())?;
            width * inner.iter().product::<usize>()
        }
    };
    let parts_at = layout.fields().len();
    if ragged {
        let mut parts = PARTS.iter().map(|part| format!("{name}{part}"));
        parts.find(|part| layout.field(part).is_some()).map_or(Ok(()), |part| Err(is_a_part(&part, name)))?;
        layout.push(&format!("{name}.offsets"), DataType::Int64, 8, vec![batch + 1])?;
    }
    if rank > 1 {
        layout.push(&format!("{name}.shape"), DataType::Int32, 4, vec![batch, rank])?;
    }
    layout.mark_parts(parts_at);
    let required = asked.required && !matches!(cell, FieldDecoder::Draws | FieldDecoder::Present(_));
    let (source, name) = (asked.from.0.join(";"), name.clone());
    let (column, images) = (0, Vec::new());
    Ok(ResolvedField { name, source, column, cell, view, images, required, at, ragged, rank, stride })
}

/// The type of packed elements: a Boolean is a byte.
fn stored(data_type: &DataType) -> DataType {
    if *data_type == DataType::Boolean { DataType::UInt8 } else { data_type.clone() }
}
