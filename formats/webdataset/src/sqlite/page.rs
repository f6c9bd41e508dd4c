//! B-tree pages, and overflow pages for records that are too long for them.

use super::invalid;
use super::record::{low_byte, wide};
use std::io::{self, Write};

/// Bytes in a page.
pub(super) const PAGE: usize = 4096;
/// The page that contains the byte at 1 GiB, which SQLite locks (1.4 The Lock-Byte Page).
pub(super) const LOCK_PAGE: u32 = 0x4000_0000 / 4096 + 1;
/// The most pages that a SQLite library opens without special settings.
pub(super) const MOST_PAGES: u32 = 0x3fff_fffe;
/// Bytes of the file header at the start of page 1 (1.3 The Database Header).
pub(super) const FILE_HEADER: usize = 100;
/// Bytes of the header of an interior b-tree page, the longer of the two.
const PAGE_HEADER: usize = 12;
/// The least bytes of a spilled record that stay on its page (1.6 B-tree Pages: "M").
const LEAST_LOCAL: usize = (PAGE - 12) * 32 / 255 - 23;
/// The most bytes of a table row that stay on its page (1.6: "X", table leaves).
pub(super) const MOST_LOCAL_ROW: usize = PAGE - 35;
/// The most bytes of an index entry that stay on its page (1.6: "X", index pages).
pub(super) const MOST_LOCAL_ENTRY: usize = (PAGE - 12) * 64 / 255 - 23;
/// The type of a table leaf page.
pub(super) const TABLE_LEAF: u8 = 0x0d;

/// The cells of a b-tree page being filled.
#[derive(Debug)]
pub(super) struct BTreePage {
    cells: Vec<u8>,
    /// The start of each cell in `cells`.
    starts: Vec<usize>,
}

impl BTreePage {
    pub(super) fn new() -> Self {
        BTreePage { cells: Vec::with_capacity(PAGE), starts: Vec::with_capacity(PAGE / 16) }
    }

    pub(super) fn fits(&self, cell: &[u8], before: usize) -> bool {
        let pointers = 2 * (self.starts.len() + 1);
        before + PAGE_HEADER + pointers + self.cells.len() + cell.len() <= PAGE
    }

    pub(super) fn push(&mut self, cell: &[u8]) {
        self.starts.push(self.cells.len());
        self.cells.extend_from_slice(cell);
    }

    /// Appends a cell. If there is no room, starts a new page with that cell and returns the full page.
    pub(super) fn push_or_replace(&mut self, cell: &[u8]) -> Option<BTreePage> {
        let full = (!self.fits(cell, 0)).then(|| std::mem::replace(self, BTreePage::new()));
        self.push(cell);
        full
    }

    /// Removes the last cell.
    pub(super) fn pop(&mut self) -> Vec<u8> {
        let start = self.starts.pop().unwrap_or(0);
        self.cells.split_off(start.min(self.cells.len()))
    }

    /// The encoded page: `before`, the header, the pointers to the cells, a gap, the cells.
    pub(super) fn encode(&self, before: &[u8], page_type: u8, right: Option<u32>) -> Vec<u8> {
        let content = PAGE.saturating_sub(self.cells.len());
        let mut out = Vec::with_capacity(PAGE);
        out.extend_from_slice(before);
        out.extend_from_slice(&[page_type, 0, 0]);
        put_u16(&mut out, self.starts.len());
        put_u16(&mut out, content);
        out.push(0);
        out.extend(right.into_iter().flat_map(u32::to_be_bytes));
        self.starts.iter().for_each(|start| put_u16(&mut out, content + start));
        out.resize(content, 0);
        out.extend_from_slice(&self.cells);
        out
    }
}

/// Writes and numbers pages; the first is 1.
#[derive(Debug)]
pub(super) struct Pages<W> {
    pub(super) out: W,
    pub(super) last: u32,
}

impl<W: Write> Pages<W> {
    fn after(number: u32) -> u32 {
        if number + 1 == LOCK_PAGE { LOCK_PAGE + 1 } else { number + 1 }
    }

    pub(super) fn write(&mut self, page: &[u8]) -> io::Result<u32> {
        let number = Self::after(self.last);
        if number > MOST_PAGES {
            return Err(invalid("SQLite: the database would be larger than 4 TiB".into()));
        }
        if number == LOCK_PAGE + 1 {
            self.out.write_all(&[0; PAGE])?;
        }
        self.out.write_all(page)?;
        self.last = number;
        Ok(number)
    }

    /// Moves the end of a cell's record of `size` bytes to overflow pages if it is longer than `most` (1.7 Cell Payload
    /// Overflow Pages).
    pub(super) fn spill(&mut self, cell: &mut Vec<u8>, size: usize, most: usize) -> io::Result<()> {
        if size <= most {
            return Ok(());
        }
        let wanted = LEAST_LOCAL + (size - LEAST_LOCAL) % (PAGE - 4);
        let local = if wanted <= most { wanted } else { LEAST_LOCAL };
        let tail = cell.split_off(cell.len() - (size - local));
        cell.extend_from_slice(&Self::after(self.last).to_be_bytes());
        let mut pieces = tail.chunks(PAGE - 4).peekable();
        while let Some(piece) = pieces.next() {
            let own = Self::after(self.last);
            let next = if pieces.peek().is_some() { Self::after(own) } else { 0 };
            let mut page = [next.to_be_bytes().as_slice(), piece].concat();
            page.resize(PAGE, 0);
            self.write(&page)?;
        }
        Ok(())
    }
}

/// Appends the low 16 bits; offsets in a page need no more.
pub(super) fn put_u16(out: &mut Vec<u8>, value: usize) {
    out.extend_from_slice(&[low_byte(wide(value) >> 8), low_byte(wide(value))]);
}
