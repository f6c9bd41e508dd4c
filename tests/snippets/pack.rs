//! Packing.
#![expect(dead_code, unused_variables, reason = "compiled, not run")]

use packhorse::core::{DataType, FieldType, KEY, Result, Rows, Schema};
use packhorse::{Labels, Recipe};
use std::sync::Arc;

fn readme() -> Result<()> {
    let recipe = Recipe::new("photos", "webdataset", "shards").labels(Labels::Folders).shuffle(7);
    let report = packhorse::session().pack(&recipe)?;
    Ok(())
}

fn write(batches: Vec<Rows>) -> Result<()> {
    let fields = vec![
        FieldType::Text.field(KEY, false),
        FieldType::Blob.field("jpg", false),
        FieldType::Tensor { element: DataType::Float32, shape: vec![17, 3] }.field("pose", true),
    ];
    let recipe = Recipe::for_writer("webdataset", "shards").shard_size(256 << 20);
    let mut writer = packhorse::session().writer(&recipe, &Arc::new(Schema::new(fields)))?;
    for rows in batches {
        writer.push(&rows)?;
    }
    let manifest = writer.finish()?;
    Ok(())
}
