//! The files of Megatron-Energon 7.4: an offset index for each shard, and `.nv-meta/`.

use crate::sqlite::{Database, IndexHandle, SqlValue, TableHandle};
use packhorse_core::{Context, Error, Members, Outlet, Result, Sealed, ShardSummary};
use std::fs::File;
use std::io::{BufWriter, Write};

const VERSION: &str = "7.4.1";

/// Writes `SHARD.tar.idx`: the offset of each sample's first header, then the end of the data, as u64.
pub(crate) fn write(members: &Members, data_end: u64, out: &mut dyn Write) -> Result<()> {
    let mut bytes = Vec::with_capacity(8 * (members.samples() + 1));
    for start in starts(members) {
        bytes.extend_from_slice(&start.to_le_bytes());
    }
    bytes.extend_from_slice(&data_end.to_le_bytes());
    out.write_all(&bytes).context("write the Energon index")
}

/// The offset of each sample's first header. In our shards a header is one block, right before the data.
fn starts(members: &Members) -> impl Iterator<Item = u64> {
    members.iter().map(|(_, mut list)| list.next().map_or(0, |first| first.offset - crate::tar_header::BLOCK_U64))
}

pub(crate) fn seal(dataset: &Sealed<'_>, out: &mut dyn Outlet) -> Result<()> {
    // Readers number tar files in the order of their names.
    let mut shards: Vec<(usize, &ShardSummary)> = dataset.shards.iter().enumerate().collect();
    shards.sort_by(|a, b| a.1.name.cmp(&b.1.name));
    let text = |out: &mut dyn Outlet, name: &str, text: &str| {
        out.stream(name)?.write_all(text.as_bytes()).context("write Energon's metadata")
    };
    text(out, ".nv-meta/.info.json", &info(&shards)?)?;
    text(out, ".nv-meta/dataset.yaml", "__module__: megatron.energon\n__class__: CrudeWebdataset\n")?;
    text(out, ".nv-meta/split.yaml", &splits(&shards)?)?;
    text(out, ".nv-meta/index.uuid", &uuid(dataset.root_digest))?;
    let path = out.path(".nv-meta/index.sqlite")?;
    let file = File::create_new(&path).map_err(|e| Error::io("create", e).in_input(path.display()))?;
    let failed = |e: Error| e.in_input(path.display());
    let mut database = Energon::new(BufWriter::with_capacity(1 << 20, file)).context("write").map_err(failed)?;
    for (id, (i, summary)) in shards.iter().enumerate() {
        let members = (dataset.members)(*i)?;
        database.shard(id as i64, summary.bytes, &members).context("write").map_err(failed)?;
    }
    database.finish().context("write").map_err(failed)
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
    serde_json::to_string(&format!("{}.tar", shard.name)).map_err(|e| Error::bug(e.to_string()))
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
    database: Database<BufWriter<File>>,
    samples: TableHandle,
    parts: TableHandle,
    unique: IndexHandle,
    by_tar: IndexHandle,
    sequence: IndexHandle,
    full: IndexHandle,
    /// Every key with its row, for the index that is sorted by key.
    keys: Vec<(String, i64)>,
}

impl Energon {
    fn new(out: BufWriter<File>) -> std::io::Result<Self> {
        let mut database = Database::new(out)?;
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
        Ok(Self { database, samples, parts, unique, by_tar, sequence, full, keys: Vec::new() })
    }

    fn shard(&mut self, id: i64, bytes: u64, members: &Members) -> std::io::Result<()> {
        // Our archives end with two blocks of zeros.
        let data_end = bytes.saturating_sub(2 * crate::tar_header::BLOCK_U64);
        let ends = starts(members).skip(1).chain([data_end]);
        for (i, ((key, list), (start, end))) in members.iter().zip(starts(members).zip(ends)).enumerate() {
            self.sample(id, i as i64, key, start as i64, end.saturating_sub(start) as i64)?;
            for member in list {
                self.part(id, i as i64, member.field, member.offset as i64, member.len as i64)?;
            }
        }
        Ok(())
    }

    fn sample(&mut self, id: i64, i: i64, key: &str, start: i64, size: i64) -> std::io::Result<()> {
        use SqlValue::{Integer, Text};
        let row = [Integer(id), Text(key), Integer(i), Integer(start), Integer(size)];
        let rowid = self.database.row(self.samples, &row)?;
        self.database.entry(self.by_tar, &[Integer(id), Integer(i)], rowid)?;
        self.keys.push((key.to_owned(), rowid));
        Ok(())
    }

    fn part(&mut self, id: i64, i: i64, name: &str, offset: i64, size: i64) -> std::io::Result<()> {
        use SqlValue::{Integer, Text};
        let row = [Integer(id), Integer(i), Text(name), Integer(offset), Integer(size)];
        let rowid = self.database.row(self.parts, &row)?;
        self.database.entry(self.sequence, &[Integer(id), Integer(i), Integer(offset)], rowid)?;
        self.database.entry(self.full, &row, rowid)
    }

    fn finish(mut self) -> std::io::Result<()> {
        self.keys.sort_unstable();
        for (key, rowid) in &self.keys {
            self.database.entry(self.unique, &[SqlValue::Text(key)], *rowid)?;
        }
        self.database.finish().map(|_| ())
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
