//! Reads the rows of one array in blocks, in file order.
//!
//! Stored arrays in C order are read by range, deflated ones as a stream. Fortran order interleaves
//! the rows, so such an array is loaded whole. The CRC-32 is checked after the last row, if reading
//! started at the first.

use crate::bytes::Bytes;
use crate::dtype::Axis;
use crate::file::Array;
use crate::load::{self, load};
use crate::member::{CrcShift, crc32};
use crate::npy_header::{NpyHeader, cut};
use arrow_buffer::Buffer;
use flate2::bufread::DeflateDecoder;
use packhorse_core::{Context, Error, Limits, Memory, Pool, Result};
use rayon::prelude::{IntoParallelRefIterator, ParallelIterator};
use std::io::{BufRead, Read};
use std::ops::Range;
use std::sync::Arc;

/// A cursor over the rows of an array.
pub(crate) struct ArrayReader<'a> {
    bytes: Bytes<'a>,
    pool: &'a Pool,
    array: Array,
    header: Arc<NpyHeader>,
    way: Way<'a>,
    /// The CRC-32 of all bytes up to the row `next`; `None` if rows were skipped.
    crc: Option<u32>,
    next: usize,
}

enum Way<'a> {
    /// By range; the offset of the data in the file.
    Ranged(u64),
    Inflated(Box<DeflateDecoder<Pieces<'a>>>),
    Whole(Buffer),
}

/// Consecutive rows: the buffer that holds them, and the offset of the first.
pub(crate) struct RowBlock {
    pub(crate) bytes: Buffer,
    pub(crate) start: usize,
    /// The dimensions, rows first.
    pub(crate) axes: Vec<Axis>,
}

impl<'a> ArrayReader<'a> {
    /// Starts at the row `first`; the array must have at least one dimension.
    pub(crate) fn new(
        bytes: Bytes<'a>,
        (array, header): (Array, Arc<NpyHeader>),
        first: usize,
        limits: &Limits,
        pool: &'a Pool,
    ) -> Result<Self> {
        let member = array.member.as_ref();
        let interleaved = header.fortran && header.shape.len() > 1;
        let mut crc = 0;
        let way = match member {
            _ if interleaved => Way::Whole(load(bytes, &array, limits, pool)?),
            Some(member) if member.method != 0 => {
                let at = member.find(bytes)?;
                let pieces = Pieces { bytes, at, end: at + member.packed, piece: Vec::new(), used: 0 };
                let mut stream = Box::new(DeflateDecoder::new(pieces));
                let mut head = vec![0; header.start];
                exact(&mut stream, &mut head)?;
                crc = crc32(&head);
                Way::Inflated(stream)
            }
            Some(member) => {
                let at = member.find(bytes)?;
                crc = crc32(&bytes.read(at, header.start)?);
                Way::Ranged(at + header.start as u64)
            }
            None => Way::Ranged(header.start as u64),
        };
        let checked = member.is_some() && !interleaved;
        let mut reader = Self { bytes, pool, array, header, way, crc: checked.then_some(crc), next: 0 };
        reader.skip(first)?;
        Ok(reader)
    }

    /// Adds the name of this array to an error.
    pub(crate) fn named(&self, error: Error) -> Error {
        self.array.named(error)
    }

    /// The array and its header.
    pub(crate) fn array(&self) -> (&Array, &NpyHeader) {
        (&self.array, &self.header)
    }

    /// Bytes per row.
    fn row(&self) -> usize {
        let inner = self.header.shape.get(1..).unwrap_or_default();
        inner.iter().fold(self.header.dtype.width, |n, len| n.saturating_mul(*len))
    }

    fn skip(&mut self, rows: usize) -> Result<()> {
        let bytes = rows.saturating_mul(self.row());
        match &mut self.way {
            Way::Inflated(stream) => {
                let skipped = std::io::copy(&mut stream.take(bytes as u64), &mut std::io::sink());
                if skipped.context("read").map_err(no_deflate)? != bytes as u64 {
                    return Err(cut());
                }
            }
            Way::Ranged(_) | Way::Whole(_) => {}
        }
        self.crc = self.crc.take().filter(|_| bytes == 0);
        self.next = rows;
        Ok(())
    }

    /// Reads the rows of each of `runs`, in parallel where possible. The runs must be consecutive and continue the last
    /// call. Results after an error are meaningless.
    pub(crate) fn blocks(&mut self, runs: &[Range<usize>]) -> Vec<Result<RowBlock>> {
        if let Way::Whole(buffer) = &self.way {
            return runs.iter().map(|run| Ok(self.interleaved(buffer, run))).collect();
        }
        let (row, summed) = (self.row(), self.crc.is_some());
        let size = |run: &Range<usize>| run.len().saturating_mul(row);
        let read: Vec<Result<(Memory, u32)>> = match &mut self.way {
            Way::Ranged(start) => {
                let (bytes, pool, start) = (self.bytes, self.pool, *start);
                let read =
                    |run: &Range<usize>| load::read(bytes, start + (run.start * row) as u64, size(run), summed, pool);
                match runs {
                    [one] => vec![read(one)],
                    _ => runs.par_iter().map(read).collect(),
                }
            }
            Way::Inflated(stream) => {
                let mut read = |run: &Range<usize>| {
                    let mut data = self.pool.take(size(run))?;
                    exact(stream, &mut data)?;
                    let crc = if summed { crc32(&data) } else { 0 };
                    Ok((data, crc))
                };
                runs.iter().map(&mut read).collect()
            }
            Way::Whole(_) => Vec::new(),
        };
        runs.iter().zip(read).map(|(run, read)| self.block(run, read?)).collect()
    }

    /// Rows of an array that was loaded whole.
    fn interleaved(&self, buffer: &Buffer, run: &Range<usize>) -> RowBlock {
        let mut axes = self.header.axes(self.header.fortran);
        if let Some(first) = axes.first_mut() {
            first.len = run.len();
        }
        let start = self.header.start + run.start * self.header.dtype.width;
        RowBlock { bytes: buffer.clone(), start, axes }
    }

    /// Checks the rows `run`, just read, and wraps them.
    fn block(&mut self, run: &Range<usize>, (data, crc): (Memory, u32)) -> Result<RowBlock> {
        self.next = run.end;
        self.sum(crc, data.len())?;
        let mut axes = self.header.axes(false);
        if let Some(first) = axes.first_mut() {
            *first = Axis { len: run.len(), stride: self.row() };
        }
        Ok(RowBlock { bytes: Buffer::from(data), start: 0, axes })
    }

    /// Combines the CRC-32 of the next `len` bytes, and compares the result after the last row.
    fn sum(&mut self, next: u32, len: usize) -> Result<()> {
        let Some((crc, member)) = self.crc.as_mut().zip(self.array.member.as_ref()) else { return Ok(()) };
        *crc = CrcShift::by(len as u64).join(*crc, next);
        if self.header.shape.first() != Some(&self.next) {
            return Ok(());
        }
        if let Way::Inflated(stream) = &mut self.way {
            match stream.read(&mut [0]).context("read").map_err(no_deflate)? {
                0 => {}
                _ => return Err(Error::content("is damaged: it inflates to more bytes than the directory says")),
            }
        }
        member.verify(*crc)
    }
}

fn exact(stream: &mut impl Read, buf: &mut [u8]) -> Result<()> {
    stream.read_exact(buf).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => cut(),
        _ => no_deflate(Err::<(), _>(error).context("read").err().unwrap_or_else(cut)),
    })
}

/// Makes an error of the decoder a `Content` error; errors of reading pass unchanged.
fn no_deflate(error: Error) -> Error {
    match error.errno() {
        None if error.kind() == packhorse_core::Kind::Environment => {
            Error::content("is damaged: its deflated data is invalid; copy the file again")
        }
        _ => error,
    }
}

/// A stream over a range of a file.
struct Pieces<'a> {
    bytes: Bytes<'a>,
    at: u64,
    end: u64,
    piece: Vec<u8>,
    used: usize,
}

/// Bytes per read.
const PIECE: u64 = 1 << 20;

impl BufRead for Pieces<'_> {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        if self.used >= self.piece.len() {
            let len = PIECE.min(self.end.saturating_sub(self.at));
            self.piece.resize(len as usize, 0);
            self.bytes.fill(self.at, &mut self.piece)?;
            (self.at, self.used) = (self.at + len, 0);
        }
        Ok(self.piece.get(self.used..).unwrap_or_default())
    }

    fn consume(&mut self, n: usize) {
        self.used = self.used.saturating_add(n);
    }
}

impl Read for Pieces<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let n = self.fill_buf()?.read(buf)?;
        self.consume(n);
        Ok(n)
    }
}
