//! Memory with inaccessible pages around it: reads past its end fault.
#![expect(unsafe_code, reason = "pages are mapped and unmapped")]

use std::ptr::null_mut;

/// Pages for a number of bytes, with an inaccessible page before and after.
pub(crate) struct Edge {
    start: usize,
    pages: usize,
    page: usize,
}

impl Edge {
    pub(crate) fn new(bytes: usize) -> Self {
        // SAFETY: only returns a number.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap();
        let pages = bytes.div_ceil(page) + 2;
        let (private, none) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, libc::PROT_NONE);
        // SAFETY: maps fresh pages, without other users.
        let start = unsafe { libc::mmap(null_mut(), pages * page, none, private, -1, 0) };
        assert!(start != libc::MAP_FAILED);
        let edge = Self { start: start as usize, pages, page };
        let inner = edge.first() as *mut libc::c_void;
        // SAFETY: this value owns these pages.
        let opened = unsafe { libc::mprotect(inner, (pages - 2) * page, libc::PROT_READ | libc::PROT_WRITE) };
        assert!(opened == 0);
        edge
    }

    /// The address of the first byte, aligned to a page.
    pub(crate) fn first(&self) -> u64 {
        (self.start + self.page) as u64
    }

    /// The address for `bytes` that end at the end of their page, rounded down to a multiple of eight.
    pub(crate) fn last(&self, bytes: usize) -> u64 {
        self.first() + ((self.pages - 2) * self.page - bytes.next_multiple_of(8)) as u64
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and no address of it is used after this.
        unsafe { libc::munmap(self.start as *mut libc::c_void, self.pages * self.page) };
    }
}
