//! Writes a plan frame by frame: in constant memory, or from frames that threads encoded.

use crate::frames::{Frames, bug};
use crate::plan_reader::{FrameExtent, FrameTable, ShardFrame, TRAILER_MAGIC, Trailer};
use crate::{Digest, PathText, PlanEntry, PlanHeader, SeekPoint, SkipRecord};
use blake3::Hasher;
use packhorse_core::{Context, Result};
use serde::Serialize;
use std::io::Write;

/// Writes a plan: call `new`, then for each shard `shard` or `encoded`, or `entries` and `end`; then `finish`.
pub struct PlanWriter<'a> {
    frames: Frames<'a>,
    header: Digest,
    header_frame: FrameExtent,
    shards: Vec<ShardFrame>,
    mtime_digest: Hasher,
    /// What the open frame holds.
    open: Content,
    /// Where the previous shard starts.
    begins: Option<Start>,
}

/// The start of a shard in a compressed input.
struct Start {
    root: u32,
    path: PathText,
    seek_point: SeekPoint,
    item: u64,
}

impl Start {
    /// The start of `entry`, if it reads a compressed input by position.
    fn of(entry: &PlanEntry) -> Option<Self> {
        let (source, items) = entry.run()?;
        Some(Self { root: source.root, path: source.path.clone(), seek_point: source.seek_point?, item: items.start })
    }

    fn is_before(&self, other: &Self) -> bool {
        let same = (self.root, self.seek_point, &self.path) == (other.root, other.seek_point, &other.path);
        same && self.item < other.item
    }
}

impl<'a> PlanWriter<'a> {
    /// Writes the header of a new plan to `out`.
    pub fn new(out: impl Write + Send + 'a, header: &PlanHeader) -> Result<Self> {
        let mut frames = Frames::new(out)?;
        let header_frame = frames.document(header)?;
        let bare = PlanHeader { roots: Vec::new(), ..header.clone() };
        let digest = Digest::of(&line(&bare)?);
        let (mtime_digest, open) = (Hasher::new(), Content::default());
        Ok(Self { frames, header: digest, header_frame, shards: Vec::new(), mtime_digest, open, begins: None })
    }

    /// Writes the next shard.
    pub fn shard(
        &mut self,
        name: &str,
        split: Option<&str>,
        entries: impl Iterator<Item = Result<PlanEntry>>,
    ) -> Result<()> {
        self.entries(entries)?;
        self.end(name, split).map(drop)
    }

    /// Writes entries of the next shard, which stays open.
    pub fn entries(&mut self, entries: impl Iterator<Item = Result<PlanEntry>>) -> Result<()> {
        let times = |time: [u8; 8]| {
            self.mtime_digest.update(&time);
        };
        self.open.write(entries, &mut self.frames, times)
    }

    /// Ends the open shard; returns its samples, without those that are not counted, and their bytes of input.
    pub fn end(&mut self, name: &str, split: Option<&str>) -> Result<(u64, u64)> {
        let (content, frame) = (std::mem::take(&mut self.open), self.frames.end()?);
        let held = (content.samples, content.bytes);
        self.add(name, split, content, frame);
        Ok(held)
    }

    /// Writes the next shard, whose frame is encoded already.
    pub fn encoded(&mut self, name: &str, split: Option<&str>, frame: EncodedFrame) -> Result<()> {
        self.mtime_digest.update(&frame.mtimes);
        let place = self.frames.encoded(&frame.bytes)?;
        self.add(name, split, frame.content, place);
        Ok(())
    }

    fn add(&mut self, name: &str, split: Option<&str>, content: Content, frame: FrameExtent) {
        let Content { samples, bytes, uncounted, begins, logical, .. } = content;
        let before = std::mem::replace(&mut self.begins, begins);
        let goes_on = before.zip(self.begins.as_ref()).is_some_and(|(before, begins)| before.is_before(begins));
        let (name, split, blake3) = (name.to_owned(), split.map(str::to_owned), logical.finalize().into());
        self.shards.push(ShardFrame { name, split, samples, uncounted, bytes, goes_on, frame, blake3 });
    }

    /// Writes the skipped inputs, the table and the trailer; returns the logical digest and the digest of
    /// modification times.
    pub fn finish(mut self, skipped: &[SkipRecord]) -> Result<(Digest, Digest)> {
        let mut lines = Vec::new();
        for record in skipped {
            lines.extend(line(record)?);
        }
        let digest = self.digest(&Digest::of(&lines));
        let mtime_digest = self.mtime_digest.finalize().into();
        let skipped_frame = self.frames.frame(&lines)?;
        let table = FrameTable {
            digest,
            mtime_digest,
            header: self.header_frame,
            shards: std::mem::take(&mut self.shards),
            skipped: skipped_frame,
            skips: skipped.len() as u64,
        };
        let table = self.frames.document(&table)?;
        let trailer = Trailer { table, magic: TRAILER_MAGIC };
        self.frames.close(&trailer.encode())?;
        Ok((digest, mtime_digest))
    }

    /// The logical digest: header, shards in order, skipped inputs.
    fn digest(&self, skipped: &Digest) -> Digest {
        let mut hasher = Hasher::new();
        hasher.update(self.header.as_bytes());
        for shard in &self.shards {
            hasher.update(shard.name.as_bytes()).update(&[0]);
            hasher.update(shard.split.as_deref().unwrap_or_default().as_bytes()).update(&[0]);
            hasher.update(shard.blake3.as_bytes());
        }
        hasher.update(skipped.as_bytes());
        hasher.finalize().into()
    }
}

/// What a shard's frame holds.
#[derive(Default)]
struct Content {
    samples: u64,
    bytes: u64,
    uncounted: bool,
    /// Whether it has entries, and where the first one starts.
    begun: bool,
    begins: Option<Start>,
    logical: Hasher,
}

impl Content {
    /// Writes the lines of `entries` to `out`, and calls `times` with the modification time of every input.
    fn write(
        &mut self,
        entries: impl Iterator<Item = Result<PlanEntry>>,
        out: &mut Frames<'_>,
        mut times: impl FnMut([u8; 8]),
    ) -> Result<()> {
        let mut buf = Vec::with_capacity(512);
        for entry in entries {
            let entry = entry?;
            if !std::mem::replace(&mut self.begun, true) {
                self.begins = Start::of(&entry);
            }
            entry.digest_into(&mut self.logical);
            entry.mtimes().for_each(&mut times);
            self.samples += entry.samples();
            self.uncounted |= entry.uncounted();
            self.bytes += entry.bytes();
            buf.clear();
            serde_json::to_writer(&mut buf, &entry).map_err(bug)?;
            buf.push(b'\n');
            out.write_all(&buf).context("write the plan")?;
        }
        Ok(())
    }
}

/// The frame of a shard on its way to [`PlanWriter::encoded`]. Threads may encode several at once; the bytes are those of
/// [`PlanWriter::shard`].
pub struct EncodedFrame {
    bytes: Vec<u8>,
    mtimes: Vec<u8>,
    content: Content,
}

impl EncodedFrame {
    /// The frame of a shard with these entries, in memory.
    pub fn new(entries: impl Iterator<Item = Result<PlanEntry>>) -> Result<Self> {
        let (mut bytes, mut mtimes) = (Vec::new(), Vec::new());
        let mut frames = Frames::new(&mut bytes)?;
        let mut content = Content::default();
        content.write(entries, &mut frames, |time| mtimes.extend(time))?;
        frames.end()?;
        drop(frames);
        Ok(Self { bytes, mtimes, content })
    }

    /// Its samples; those that are not counted are missing.
    pub fn samples(&self) -> u64 {
        self.content.samples
    }

    /// Bytes of input of its samples.
    pub fn bytes(&self) -> u64 {
        self.content.bytes
    }
}

fn line(value: &impl Serialize) -> Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value).map_err(bug)?;
    line.push(b'\n');
    Ok(line)
}
