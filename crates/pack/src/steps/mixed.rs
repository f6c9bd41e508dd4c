//! Decoding of fields whose types differ from sample to sample, such as `.npy` files of single and of double precision, into
//! the one type that the plan casts them to.

use arrow_array::{Array, ArrayRef};
use packhorse_core::{
    Codec, Error, Field, FieldType, MemoryInput, NUMPY, Result, Rows, Sample, numpy_type, with_metadata,
};
use packhorse_transform::Casts;

/// Decodes the field `name` of `rows` into `fields`, samples of one type after the other. `None` if none of `fields` is cast.
pub(super) fn decode(
    codec: &dyn Codec,
    name: &str,
    rows: &Rows,
    fields: &[Field],
    casts: &Casts,
) -> Result<Option<Vec<ArrayRef>>> {
    if !fields.iter().any(|field| casts.get(field.name()).is_some()) {
        return Ok(None);
    }
    let stored = (0..rows.num_rows()).map(|row| stored(codec, name, rows, row, fields, casts));
    let stored = stored.collect::<Result<Vec<_>>>()?;
    let mut pieces: Vec<Vec<ArrayRef>> = fields.iter().map(|_| Vec::new()).collect();
    let mut from = 0;
    for equal in stored.chunk_by(|a, b| a == b) {
        let part = rows.slice(from, equal.len());
        from += equal.len();
        let Some(stored) = equal.first() else { continue };
        let arrays = codec.decode(name, &part, stored)?;
        for (((pieces, array), stored), field) in pieces.iter_mut().zip(arrays).zip(stored).zip(fields) {
            let same = stored.data_type() == field.data_type() && numpy_type(stored) == numpy_type(field);
            pieces.push(if same { array } else { casts.column(&part, stored, &array)? });
        }
    }
    let joined = pieces.iter().map(|pieces| {
        let pieces: Vec<&dyn Array> = pieces.iter().map(|piece| &**piece).collect();
        arrow_select::concat::concat(&pieces).map_err(|e| Error::content(format!("values of several types: {e}")))
    });
    joined.collect::<Result<_>>().map(Some)
}

/// `fields` as sample `row` has them: with its own element types where these are cast to those of `fields`.
fn stored(
    codec: &dyn Codec,
    name: &str,
    rows: &Rows,
    row: usize,
    fields: &[Field],
    casts: &Casts,
) -> Result<Vec<Field>> {
    let sample = Sample::new(rows, row);
    let Some(bytes) = sample.as_ref().and_then(|sample| sample.bytes(name)) else { return Ok(fields.to_vec()) };
    let input = MemoryInput::new(name, bytes.to_vec());
    let probed = codec.probe_without(name, &input, &|field| casts.drops(field));
    let probed =
        probed.map_err(|e| sample.iter().fold(e, |e, sample| e.in_sample(sample.key().unwrap_or_default())))?;
    let own = |field: &Field| -> Option<Field> {
        let found = probed.iter().find(|found| found.name() == field.name())?;
        let own = stored_as(field, found)?;
        let cast = casts.get(field.name()).is_some() && casts.field(&own).ok()?.data_type() == field.data_type();
        cast.then_some(own)
    };
    Ok(fields.iter().map(|field| own(field).unwrap_or_else(|| field.clone())).collect())
}

/// `field` with the elements of `found`; `None` if one of them has none.
fn stored_as(field: &Field, found: &Field) -> Option<Field> {
    let element = FieldType::of(found).ok()?.element()?.clone();
    let kind = match FieldType::of(field).ok()? {
        FieldType::Text | FieldType::Scalar(_) => FieldType::Scalar(element),
        FieldType::Tensor { shape, .. } => FieldType::Tensor { element, shape },
        FieldType::Ragged { rank, .. } => FieldType::Ragged { element, rank },
        FieldType::List { depth, .. } => FieldType::List { element, depth },
        FieldType::Blob => return None,
    };
    let stored = kind.field(field.name(), field.is_nullable());
    Some(numpy_type(found).map_or(stored.clone(), |name| with_metadata(stored, NUMPY, name)))
}
