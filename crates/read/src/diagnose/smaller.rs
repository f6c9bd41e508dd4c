//! Samples whose pictures are stored at the size that batches need.

use super::rounds::Rig;
use crate::SampleBlock;
use crate::sample_block::{DecodedRows, Piece, Row};
use packhorse_core::{DataType, Field, KEY, Kind, Result, Schema};
use packhorse_transform::Transform;
use packhorse_transform::image::{Check, Image, ImageOptions, Keep, Resize};
use std::sync::Arc;

/// Held batches that are made smaller.
const BATCHES: usize = 2;
/// Room around a crop: pictures of 256 pixels for one of 224, as the field does.
const ROOM: f64 = 256.0 / 224.0;
/// The quality of JPEGs, the default of packing.
const QUALITY: u8 = 90;

/// The shorter side that pictures need, and some of the held samples with pictures of that size; `None` if batches have
/// no pictures of one size, or samples are rows of a table.
pub(super) fn smaller(rig: &Rig) -> Result<Option<(u32, Vec<SampleBlock>)>> {
    let collate = &rig.work.collate;
    let shapes = collate.fields.iter().filter_map(|field| field.view.as_ref()?.shape());
    let Some(side) = shapes.map(|(height, width)| height.max(width)).max() else { return Ok(None) };
    let short = (f64::from(side) * ROOM).ceil() as u32;
    let mut blocks = Vec::new();
    for block in rig.held.blocks.iter().take(BATCHES) {
        let by_bytes = block.rows.iter().all(|row| matches!(row, Row::Bytes)) && block.joined_columns.is_empty();
        if !by_bytes || !block.faults.is_empty() {
            return Ok(None);
        }
        match resized(rig, block, short) {
            Ok(resized) => blocks.push(resized),
            // A loader may skip what can't be resized; how fast the others would be is not known then.
            Err(e) if matches!(e.kind(), Kind::Content | Kind::Limit | Kind::Unsupported) => return Ok(None),
            Err(e) => return Err(e),
        }
    }
    Ok((!blocks.is_empty()).then_some((short, blocks)))
}

/// The block with its pictures resized.
fn resized(rig: &Rig, block: &SampleBlock, short: u32) -> Result<SampleBlock> {
    let options = ImageOptions {
        check: Some(Check::Lenient),
        resize: Some(Resize::Short(short)),
        quality: QUALITY,
        orient: false,
        keep: Keep { icc: false, exif: false },
        ..ImageOptions::default()
    };
    let image = Image::new(options, rig.work.collate.limits)?;
    // The names only say which columns hold pictures.
    let name = |column: usize| {
        let picture = rig.work.collate.fields.iter().any(|field| field.column == column && field.view.is_some());
        format!("{column}.{}", if picture { "jpg" } else { "bin" })
    };
    let fields = (0..block.columns).map(|column| Field::new(name(column), DataType::BinaryView, true));
    let key = Field::new(KEY, DataType::Utf8View, false);
    let schema = Arc::new(Schema::new(std::iter::once(key).chain(fields).collect::<Vec<_>>()));
    let rows = image.apply(block.rows(&schema)?)?;
    let columns = (1..=block.columns).map(|at| vec![Some(at)]).collect();
    let mut made = SampleBlock { columns: block.columns, ..SampleBlock::default() };
    made.numbers.clone_from(&block.numbers);
    made.epochs.clone_from(&block.epochs);
    made.keys.clone_from(&block.keys);
    made.key_ends.clone_from(&block.key_ends);
    made.rows.extend((0..block.len()).map(|row| Row::Typed { piece: 0, row }));
    made.spans.resize(block.spans.len(), None);
    let DecodedRows { rows, bytes } = rows.into();
    made.pieces.push(Piece { rows, bytes, columns });
    Ok(made)
}
