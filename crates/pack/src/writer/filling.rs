//! A shard while it is filled by a thread.

use super::shard_threads::WriterState;
use crate::shard_packer::KEYS_OF_ROWS;
use crossbeam_channel::{Receiver, Sender};
use packhorse_core::{Error, Event, HeldBytes, Result, Rows, ShardSummary, key_column};
use packhorse_dataset::{INDEX_SUFFIX, encode_index};
use packhorse_storage::{ReadyStage, Stage};

/// What a thread gets of a shard.
pub(super) enum Piece {
    /// The next rows, and the bytes of their values.
    Rows(Rows, u64, HeldBytes),
    /// The shard is complete. A shard without it is given up.
    End,
}

/// The calling thread's end of a shard.
pub(super) struct OpenShard(pub(super) Sender<Piece>);

impl OpenShard {
    /// Whether a thread still takes rows.
    pub(super) fn send(&self, rows: Rows, bytes: u64, held: HeldBytes) -> bool {
        self.0.send(Piece::Rows(rows, bytes, held)).is_ok()
    }

    pub(super) fn end(self) {
        // A thread that failed has said so elsewhere.
        let _ = self.0.send(Piece::End);
    }
}

/// The keys of a shard's samples, one after the other.
#[derive(Default)]
pub(super) struct KeyList {
    text: String,
    ends: Vec<usize>,
}

impl KeyList {
    fn extend(&mut self, rows: &Rows) -> Result<()> {
        for key in key_column(rows)?.iter().flatten() {
            self.text.push_str(key);
            self.ends.push(self.text.len());
        }
        Ok(())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(from, to)| self.text.get(from..*to).unwrap_or_default())
    }
}

/// A complete shard under its staged names.
pub(super) struct FilledShard {
    pub(super) name: String,
    pub(super) files: ReadyStage,
    pub(super) summary: ShardSummary,
    /// The keys as they were pushed.
    pub(super) keys: KeyList,
    /// Bytes of the values pushed.
    pub(super) bytes: u64,
}

/// Fills a shard with the rows of `pieces`, and syncs its files.
pub(super) fn fill(
    shared: &WriterState,
    name: String,
    mut stage: Stage,
    pieces: &Receiver<Piece>,
) -> Result<FilledShard> {
    let mut writer = shared.sink().create(shared.schema(), &mut stage)?;
    let (mut keys, mut bytes, mut samples) = (KeyList::default(), 0, 0);
    loop {
        match pieces.recv() {
            Ok(Piece::Rows(rows, size, _held)) => {
                shared.check()?;
                keys.extend(&rows)?;
                let n = rows.num_rows() as u64;
                writer.push(&shared.converted(rows)?)?;
                (samples, bytes) = (samples + n, bytes + size);
                shared.observer().event(&Event::Packed { samples: n, bytes: size });
            }
            Ok(Piece::End) => break,
            Err(_) => return Err(Error::cancelled()),
        }
    }
    let mut summary = writer.finish()?;
    if summary.samples != samples {
        return Err(Error::bug(format!("shard {name}: {} of {samples} samples reached it", summary.samples)));
    }
    if let Some(members) = summary.members.take() {
        stage.write(INDEX_SUFFIX, &encode_index(&members))?;
        summary.notes.insert(KEYS_OF_ROWS.0.to_owned(), KEYS_OF_ROWS.1.to_owned());
    }
    shared.check()?;
    Ok(FilledShard { name, files: stage.ready()?, summary, keys, bytes })
}
