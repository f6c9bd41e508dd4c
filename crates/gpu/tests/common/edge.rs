//! Memory with nothing around it: whoever reads past its end is stopped by the system.
#![expect(unsafe_code, reason = "pages are asked of the system, and given back")]

use std::ptr::null_mut;

/// Pages that hold so many bytes, and one before and after them that nobody may touch.
pub(crate) struct Edge {
    start: usize,
    pages: usize,
    page: usize,
}

impl Edge {
    pub(crate) fn new(bytes: usize) -> Self {
        // SAFETY: asks for a number.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap();
        let pages = bytes.div_ceil(page) + 2;
        let (private, none) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, libc::PROT_NONE);
        // SAFETY: fresh pages, which nobody else has.
        let start = unsafe { libc::mmap(null_mut(), pages * page, none, private, -1, 0) };
        assert!(start != libc::MAP_FAILED);
        let edge = Self { start: start as usize, pages, page };
        let inner = edge.first() as *mut libc::c_void;
        // SAFETY: these pages are ours.
        let opened = unsafe { libc::mprotect(inner, (pages - 2) * page, libc::PROT_READ | libc::PROT_WRITE) };
        assert!(opened == 0);
        edge
    }

    /// The address of the first byte, which is a page's.
    pub(crate) fn first(&self) -> u64 {
        (self.start + self.page) as u64
    }

    /// The address for `bytes` whose last ones are the last on their page, but for what a multiple of eight takes.
    pub(crate) fn last(&self, bytes: usize) -> u64 {
        self.first() + ((self.pages - 2) * self.page - bytes.next_multiple_of(8)) as u64
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and whoever had an address of it is done.
        unsafe { libc::munmap(self.start as *mut libc::c_void, self.pages * self.page) };
    }
}
