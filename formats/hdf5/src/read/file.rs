//! Bounds-checked access to a file's bytes, and its superblock.

use super::bands::{Bands, Identity};
use super::filter::Decoder;
use super::object_header::{ObjectHeader, kind};
use crate::bytes::{Cursor, UNDEFINED};
use crate::checksum::lookup3;
use crate::pool::Pool;
use packhorse_core::{Code, Error, Input, Limits, Pool as MemoryPool, Result};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

const SIGNATURE: &[u8; 8] = b"\x89HDF\r\n\x1a\n";
/// Metadata is read in pages of [`PAGE`] bytes, of which [`PAGES`] are cached.
const PAGE: u64 = 16 << 10;
const PAGES: usize = 32;
/// Large data is read in parallel pieces of this many bytes.
const PIECE: usize = 1 << 20;
/// Superblocks are searched at 0, 512, 1024, … up to this offset.
const LAST_SUPERBLOCK: u64 = 1 << 30;

/// Resources that all files of a source share.
#[derive(Clone)]
pub(crate) struct Shared {
    memory: MemoryPool,
    bands: Arc<Bands>,
    decoders: Arc<Pool<Decoder>>,
}

impl Default for Shared {
    fn default() -> Self {
        let decoders = Arc::new(Pool::new(Decoder::new));
        Self { memory: MemoryPool::default(), bands: Arc::default(), decoders }
    }
}

/// An open HDF5 file.
pub(crate) struct H5File<'a> {
    input: Arc<dyn Input + 'a>,
    pub(crate) limits: Limits,
    len: u64,
    /// The base address, which addresses are relative to.
    base: u64,
    /// Bytes of an address, and of a length.
    pub(crate) offsets: usize,
    pub(crate) lengths: usize,
    /// The address of the root group's object.
    pub(crate) root: u64,
    pages: Mutex<BTreeMap<u64, Arc<[u8]>>>,
    pub(crate) decoders: Arc<Pool<Decoder>>,
    /// Memory for rows.
    pub(crate) memory: MemoryPool,
    /// The cache of bands, shared with other files, and this file's key in it.
    pub(crate) bands: Arc<Bands>,
    pub(crate) identity: Arc<Identity>,
}

impl<'a> H5File<'a> {
    pub(crate) fn open(input: Arc<dyn Input + 'a>, limits: Limits, shared: &Shared) -> Result<Self> {
        let len = input
            .len()
            .ok_or_else(|| Error::unsupported("is a stream, but HDF5 is read by position; decompress it first"))?;
        let pages = Mutex::default();
        let Shared { memory, bands, decoders } = shared.clone();
        let (base, offsets, lengths, root) = (0, 8, 8, UNDEFINED);
        let identity = Arc::new(Identity { name: input.name().to_owned(), len, stat: input.stat()? });
        let mut file =
            Self { input, limits, len, base, offsets, lengths, root, pages, decoders, memory, bands, identity };
        if let [b'C', b'D', b'F', 1 | 2 | 5, ..] = file.bytes(0, 8.min(len) as usize)?.as_slice() {
            return Err(Error::unsupported("NetCDF-3; convert it with `nccopy -k nc4 OLD.nc NEW.nc`"));
        }
        let mut at = 0;
        while file.bytes(at, 8)? != SIGNATURE {
            at = if at == 0 { 512 } else { at * 2 };
            if at > LAST_SUPERBLOCK || at.saturating_add(8) > len {
                return Err(Error::content("is not an HDF5 file: it has no superblock"));
            }
        }
        file.superblock(at)?;
        Ok(file)
    }

    fn superblock(&mut self, at: u64) -> Result<()> {
        let most = 96.min(self.len - at) as usize;
        let bytes = self.bytes(at, most)?;
        let mut cursor = Cursor::new(&bytes, "the superblock");
        cursor.skip(8)?;
        let version = cursor.u8()?;
        let mut extension = UNDEFINED;
        let end = match version {
            0 | 1 => {
                cursor.skip(4)?;
                self.sizes(&mut cursor)?;
                cursor.skip(if version == 0 { 9 } else { 13 })?;
                cursor.skip(2 * self.offsets)?;
                let end = cursor.address(self.offsets)?;
                // Of the entry of the root, the offset of its name has the size of lengths.
                cursor.skip(self.offsets + self.lengths)?;
                end
            }
            2 | 3 => {
                self.sizes(&mut cursor)?;
                cursor.skip(1 + self.offsets)?;
                extension = cursor.address(self.offsets)?;
                let end = cursor.address(self.offsets)?;
                let checked = 12 + 4 * self.offsets;
                let sum = Cursor::new(bytes.get(checked..).unwrap_or_default(), "the superblock").u32()?;
                if lookup3(bytes.get(..checked).unwrap_or_default()) != sum {
                    return Err(Error::content("the superblock's checksum is wrong: the file is damaged")
                        .with_code(Code::ChecksumDiffers));
                }
                end
            }
            _ => return Err(Error::unsupported(format!("superblocks of version {version}"))),
        };
        if end > self.len {
            return Err(Error::cut_short(format!("it has {} of {end} bytes", self.len)));
        }
        self.root = cursor.address(self.offsets)?;
        self.base = at;
        if extension != UNDEFINED && ObjectHeader::read(self, extension)?.message(kind::CACHE_IMAGE).is_some() {
            // Structures that an image holds are out of date where they lie.
            let error = Error::unsupported("an image of the metadata cache");
            return Err(
                error.hint("open it once for writing, as by `h5py.File(path, \"r+\")`, which takes the image out")
            );
        }
        Ok(())
    }

    fn sizes(&mut self, cursor: &mut Cursor<'_>) -> Result<()> {
        (self.offsets, self.lengths) = (usize::from(cursor.u8()?), usize::from(cursor.u8()?));
        match matches!(self.offsets, 2 | 4 | 8) && matches!(self.lengths, 2 | 4 | 8) {
            true => Ok(()),
            false => {
                Err(Error::unsupported(format!("addresses of {} and lengths of {} bytes", self.offsets, self.lengths)))
            }
        }
    }

    /// The input's name.
    pub(crate) fn name(&self) -> &str {
        self.input.name()
    }

    /// The file's length.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Whether the file holds `len` bytes at `address`.
    pub(crate) fn holds(&self, address: u64, len: u64) -> bool {
        self.place(address, len).is_some()
    }

    fn place(&self, address: u64, len: u64) -> Option<u64> {
        let place = address.checked_add(self.base)?;
        place.checked_add(len).is_some_and(|end| end <= self.len).then_some(place)
    }

    fn outside(&self, address: u64, len: u64) -> Error {
        Error::content(format!("{len} bytes at address {address} lie outside the file: it is damaged or cut short"))
    }

    /// `len` bytes of metadata at `address`, through the page cache.
    pub(crate) fn bytes(&self, address: u64, len: usize) -> Result<Vec<u8>> {
        let place = self.place(address, len as u64).ok_or_else(|| self.outside(address, len as u64))?;
        if len as u64 > PAGE {
            let mut bytes = vec![0; len];
            self.input.read_at(place, &mut bytes)?;
            return Ok(bytes);
        }
        let (mut bytes, mut at) = (Vec::with_capacity(len), place);
        while bytes.len() < len {
            let page = self.page(at / PAGE)?;
            let rest = page.get((at % PAGE) as usize..).unwrap_or_default();
            let part = rest.get(..rest.len().min(len - bytes.len())).unwrap_or_default();
            if part.is_empty() {
                return Err(self.outside(address, len as u64));
            }
            bytes.extend_from_slice(part);
            at += part.len() as u64;
        }
        Ok(bytes)
    }

    fn page(&self, number: u64) -> Result<Arc<[u8]>> {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(page) = pages.get(&number) {
            return Ok(page.clone());
        }
        let start = number * PAGE;
        let mut bytes = vec![0; PAGE.min(self.len.saturating_sub(start)) as usize];
        self.input.read_at(start, &mut bytes)?;
        if pages.len() >= PAGES {
            pages.pop_first();
        }
        let page: Arc<[u8]> = bytes.into();
        pages.insert(number, page.clone());
        Ok(page)
    }

    /// Metadata of `len` bytes that end with a checksum, which is checked and removed.
    #[expect(unexpected_cfgs, reason = "cargo-fuzz sets it")]
    pub(crate) fn checked(&self, address: u64, len: usize, what: &str) -> Result<Vec<u8>> {
        let mut bytes = self.bytes(address, len)?;
        let at = len.checked_sub(4).ok_or_else(|| Error::bug("nothing to check"))?;
        let sum = Cursor::new(bytes.get(at..).unwrap_or_default(), "a checksum").u32()?;
        bytes.truncate(at);
        // Fuzzers can't produce valid checksums.
        match cfg!(fuzzing) || lookup3(&bytes) == sum {
            true => Ok(bytes),
            false => Err(Error::content(format!("the checksum of {what} is wrong: the file is damaged"))
                .with_code(Code::ChecksumDiffers)),
        }
    }

    /// Fills `bytes` with data from `address`.
    pub(crate) fn read(&self, address: u64, bytes: &mut [u8]) -> Result<()> {
        let place = self.place(address, bytes.len() as u64).ok_or_else(|| self.outside(address, bytes.len() as u64))?;
        self.input.read_at(place, bytes)
    }

    /// Like [`H5File::read`], in parallel pieces.
    pub(crate) fn read_data(&self, address: u64, bytes: &mut [u8]) -> Result<()> {
        // Handing a single piece to another thread takes longer than reading it.
        if bytes.len() <= PIECE {
            return self.read(address, bytes);
        }
        let pieces = bytes.par_chunks_mut(PIECE).enumerate();
        pieces.map(|(i, piece)| self.read(address.saturating_add((i * PIECE) as u64), piece)).collect()
    }
}

/// Bounds the visits of metadata: a tree can't have more nodes than the file has room for.
pub(crate) struct Visits(u64);

impl Visits {
    /// For structures of at least `size` bytes each.
    pub(crate) fn new(file: &H5File<'_>, size: u64) -> Self {
        Self(file.len() / size.max(1) + 1)
    }

    /// Counts a visit; a `Content` error if there were too many.
    pub(crate) fn one(&mut self) -> Result<()> {
        self.0 =
            self.0.checked_sub(1).ok_or_else(|| Error::content("metadata refers to itself: the file is damaged"))?;
        Ok(())
    }
}
