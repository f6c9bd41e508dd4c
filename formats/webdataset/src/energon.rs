//! The files of Megatron-Energon 7.4: an offset index for each shard, and `.nv-meta/`.

use crate::sqlite::{Database, IndexHandle, SqlValue, TableHandle};
use crate::tar_header::BLOCK_U64;
use packhorse_core::{
    Code, Context, Error, Members, Outlet, PatchableWriter, Result, Sealed, ShardMember, ShardSummary,
};
use std::borrow::Cow;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

const VERSION: &str = "7.4.1";

/// Writes `SHARD.tar.idx` of a shard of `bytes`: the offset of each sample's first header, then the end of the data, as
/// u64.
pub(crate) fn write(members: &Members, bytes: u64, out: &mut dyn Write) -> Result<()> {
    let offsets: Vec<u8> = bounds(members, bytes).iter().flat_map(|offset| offset.to_le_bytes()).collect();
    out.write_all(&offsets).context("write the Energon index")
}

/// The offset of each sample's first header, then the end of the data. In our shards a header is one block, right before
/// the data, and two blocks of zeros end the archive.
fn bounds(members: &Members, bytes: u64) -> Cow<'_, [u64]> {
    if !members.bounds().is_empty() {
        return Cow::Borrowed(members.bounds());
    }
    let starts = members.iter().map(|(_, mut list)| list.next().map_or(0, |first| first.offset - BLOCK_U64));
    Cow::Owned(starts.chain([bytes.saturating_sub(2 * BLOCK_U64)]).collect())
}

pub(crate) fn seal(dataset: &Sealed<'_>, out: &mut dyn Outlet) -> Result<()> {
    // Readers number tar files in the order of their paths.
    let mut shards: Vec<(usize, &ShardSummary)> = dataset.shards.iter().enumerate().collect();
    shards.sort_by_cached_key(|(_, shard)| PathBuf::from(tar_name(shard)));
    let text = |out: &mut dyn Outlet, name: &str, text: &str| {
        out.stream(name)?.write_all(text.as_bytes()).context("write Energon's metadata")
    };
    text(out, ".nv-meta/.info.json", &info(&shards)?)?;
    text(out, ".nv-meta/dataset.yaml", "__module__: megatron.energon\n__class__: CrudeWebdataset\n")?;
    text(out, ".nv-meta/split.yaml", &splits(&shards)?)?;
    text(out, ".nv-meta/index.uuid", &uuid(dataset.root_digest))?;
    const INDEX: &str = ".nv-meta/index.sqlite";
    let failed = |e: Error| e.in_input(INDEX);
    let mut database = Energon::new(out.patchable(INDEX)?).context("write").map_err(failed)?;
    for (id, (i, summary)) in shards.iter().enumerate() {
        let members = (dataset.members)(*i)?;
        database.shard(id as i64, summary.bytes, &members).context("write").map_err(failed)?;
    }
    if let Some((key, places)) = database.twice() {
        let names = places.map(|id| shards.get(id).map_or_else(String::new, |(_, shard)| tar_name(shard)));
        return Err(key_twice(&key, names));
    }
    let (out, first) = database.finish().context("write").map_err(failed)?;
    out.finish(&first).map_err(failed)
}

/// Packing refuses such keys, so they are those of third-party shards.
fn key_twice(key: &str, [first, second]: [String; 2]) -> Error {
    let message = match first == second {
        true => format!("is the key of two samples of {first}, which Energon refuses"),
        false => format!("is the key of a sample of {first} and of one of {second}, which Energon refuses"),
    };
    let hint = "pack the shards again, or leave energon out of `index`";
    Error::content(message).with_code(Code::KeyTwice).hint(hint).in_sample(key)
}

fn info(shards: &[(usize, &ShardSummary)]) -> Result<String> {
    let mut json = format!("{{\n  \"energon_version\": \"{VERSION}\",\n  \"shard_counts\": {{");
    for (n, (_, shard)) in shards.iter().enumerate() {
        let comma = if n == 0 { "" } else { "," };
        json.push_str(&format!("{comma}\n    {}: {}", quoted(shard)?, shard.samples));
    }
    json.push_str(if shards.is_empty() { "}\n}" } else { "\n  }\n}" });
    Ok(json)
}

/// The name of the shard's file as a JSON string, which is also valid YAML.
fn quoted(shard: &ShardSummary) -> Result<String> {
    serde_json::to_string(&tar_name(shard)).map_err(|e| Error::bug(e.to_string()))
}

fn tar_name(shard: &ShardSummary) -> String {
    format!("{}.tar", shard.name)
}

/// `split.yaml`. Energon knows three parts; a split of another name is excluded, so that it is never trained on by
/// accident.
fn splits(shards: &[(usize, &ShardSummary)]) -> Result<String> {
    let mut parts: [(&str, Vec<String>); 4] =
        [("  train:", vec![]), ("  val:", vec![]), ("  test:", vec![]), ("exclude:", vec![])];
    for (_, shard) in shards {
        let part = match shard.split.as_deref() {
            None | Some("train") => 0,
            Some("val" | "valid" | "validation" | "dev") => 1,
            Some("test") => 2,
            Some(_) => 3,
        };
        if let Some((_, files)) = parts.get_mut(part) {
            files.push(quoted(shard)?);
        }
    }
    let mut yaml = "split_parts:\n".to_owned();
    for (head, files) in &parts {
        let indent = if head.starts_with(' ') { "  " } else { "" };
        let list: String = files.iter().map(|file| format!("\n{indent}- {file}")).collect();
        yaml.push_str(&format!("{head}{}\n", if files.is_empty() { " []" } else { &list }));
    }
    Ok(yaml)
}

/// A UUID of version 8 (RFC 9562, vendor specific) from the root digest. It changes if and only if the shards do.
fn uuid(root_digest: &str) -> String {
    let hex: Vec<char> = root_digest.chars().chain(std::iter::repeat('0')).take(32).collect();
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default().iter().collect::<String>();
    format!("{}-{}-8{}-8{}-{}", part(0, 8), part(8, 12), part(13, 16), part(17, 20), part(20, 32))
}

/// `index.sqlite`: a row for each sample and each member, with Energon's indexes.
struct Energon {
    database: Database<BufWriter<Box<dyn PatchableWriter>>>,
    samples: TableHandle,
    parts: TableHandle,
    unique: IndexHandle,
    by_tar: IndexHandle,
    sequence: IndexHandle,
    full: IndexHandle,
    /// Every key with its row, for the index that is sorted by key.
    keys: Vec<(String, i64)>,
    /// The last row of each shard.
    last_rows: Vec<i64>,
}

impl Energon {
    fn new(out: Box<dyn PatchableWriter>) -> std::io::Result<Self> {
        let mut database = Database::new(BufWriter::with_capacity(1 << 20, out))?;
        let samples = database.table(
            "samples",
            "CREATE TABLE samples (tar_file_id INTEGER NOT NULL, sample_key TEXT NOT NULL UNIQUE, \
             sample_index INTEGER NOT NULL, byte_offset INTEGER, byte_size INTEGER)",
        );
        let unique = database.autoindex(samples)?;
        let parts = database.table(
            "sample_parts",
            "CREATE TABLE sample_parts (tar_file_id INTEGER, sample_index INTEGER, part_name TEXT, \
             content_byte_offset INTEGER, content_byte_size INTEGER)",
        );
        let by_tar = database.index(
            "idx_samples_by_tar_and_idx",
            samples,
            "CREATE INDEX idx_samples_by_tar_and_idx ON samples(tar_file_id, sample_index)",
        )?;
        let sequence = database.index(
            "idx_sample_parts_seq",
            parts,
            "CREATE INDEX idx_sample_parts_seq ON sample_parts(tar_file_id, sample_index, content_byte_offset)",
        )?;
        let full = database.index(
            "idx_sample_parts_full",
            parts,
            "CREATE INDEX idx_sample_parts_full ON sample_parts(tar_file_id, sample_index, part_name, \
             content_byte_offset, content_byte_size)",
        )?;
        Ok(Self { database, samples, parts, unique, by_tar, sequence, full, keys: Vec::new(), last_rows: Vec::new() })
    }

    fn shard(&mut self, id: i64, bytes: u64, members: &Members) -> std::io::Result<()> {
        let bounds = bounds(members, bytes);
        let ranges = bounds.iter().zip(bounds.iter().skip(1));
        for (i, ((key, list), (start, end))) in members.iter().zip(ranges).enumerate() {
            self.sample(id, i as i64, key, *start as i64, end.saturating_sub(*start) as i64)?;
            self.parts(id, i as i64, list)?;
        }
        self.last_rows.push(self.keys.last().map_or(0, |(_, rowid)| *rowid));
        Ok(())
    }

    /// A key of two samples, and the numbers of their shards. Sorts the keys.
    fn twice(&mut self) -> Option<(String, [usize; 2])> {
        self.keys.sort_unstable();
        let pair = self.keys.windows(2).find_map(|pair| match pair {
            [(key, a), (other, b)] if key == other => Some((key, [*a, *b])),
            _ => None,
        });
        let shard = |row: i64| self.last_rows.partition_point(|last| *last < row);
        pair.map(|(key, rows)| (key.clone(), rows.map(shard)))
    }

    fn sample(&mut self, id: i64, i: i64, key: &str, start: i64, size: i64) -> std::io::Result<()> {
        use SqlValue::{Integer, Text};
        let row = [Integer(id), Text(key), Integer(i), Integer(start), Integer(size)];
        let rowid = self.database.row(self.samples, &row)?;
        self.database.entry(self.by_tar, &[Integer(id), Integer(i)], rowid)?;
        self.keys.push((key.to_owned(), rowid));
        Ok(())
    }

    /// The rows of a sample's members, in the order of the tar.
    fn parts<'m>(&mut self, id: i64, i: i64, list: impl Iterator<Item = ShardMember<'m>>) -> std::io::Result<()> {
        use SqlValue::{Integer, Text};
        let mut by_name = Vec::new();
        for ShardMember { field, offset, len, .. } in list {
            let (offset, len) = (offset as i64, len as i64);
            let row = [Integer(id), Integer(i), Text(field), Integer(offset), Integer(len)];
            let rowid = self.database.row(self.parts, &row)?;
            self.database.entry(self.sequence, &[Integer(id), Integer(i), Integer(offset)], rowid)?;
            by_name.push((field, offset, len, rowid));
        }
        // Third-party tars may have them in any order.
        by_name.sort_unstable();
        for (field, offset, len, rowid) in by_name {
            let row = [Integer(id), Integer(i), Text(field), Integer(offset), Integer(len)];
            self.database.entry(self.full, &row, rowid)?;
        }
        Ok(())
    }

    /// Returns the file, and what replaces its start.
    fn finish(mut self) -> std::io::Result<(Box<dyn PatchableWriter>, Vec<u8>)> {
        self.keys.sort_unstable();
        for (key, rowid) in &self.keys {
            self.database.entry(self.unique, &[SqlValue::Text(key)], *rowid)?;
        }
        let (out, first) = self.database.finish()?;
        Ok((out.into_inner()?, first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_uuid_is_well_formed_and_follows_the_digest() {
        let one = uuid(&"0123456789abcdef".repeat(4));
        assert_eq!(one, "01234567-89ab-8def-8123-456789abcdef");
        assert_ne!(one, uuid(&"1123456789abcdef".repeat(4)));
    }
}
