//! What all tests of a server may have together: memory and open files.

use std::sync::atomic::{AtomicU64, Ordering};

use linkrate_sys::open_file_limit;

/// Most connections to each program that have not begun a test.
const MAX_PENDING: u64 = 1024;
/// Most files that are of use: those of many tests with many streams.
const MAX_FILES: u64 = 1 << 16;
/// Files that are no test's: listeners, output, `/proc`.
const OWN_FILES: u64 = 64;

/// Memory of a thread: what its stack and the kernel have of it.
pub(super) const THREAD_BYTES: u64 = 128 << 10;

/// What is left for tests.
#[derive(Debug)]
pub struct Budget {
    memory: AtomicU64,
    files: AtomicU64,
    tests: AtomicU64,
    /// Memory and files of a server without a test.
    all: [u64; 2],
    /// Most connections to each program that have not begun a test.
    pub(super) pending: usize,
}

/// What tests have at one moment, and what they may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InUse {
    /// Tests that run.
    pub tests: u64,
    /// Octets of memory.
    pub memory: u64,
    pub memory_limit: u64,
    /// Open files.
    pub files: u64,
    pub files_limit: u64,
}

/// What a test has, until it is dropped.
#[derive(Debug)]
pub(super) struct Taken<'a> {
    budget: &'a Budget,
    memory: u64,
    files: u64,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.budget.memory.fetch_add(self.memory, Ordering::Relaxed);
        self.budget.files.fetch_add(self.files, Ordering::Relaxed);
        self.budget.tests.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Budget {
    /// `memory` octets, and the files that this process may open, whose limit is raised. A quarter of them is for
    /// connections that have not begun a test.
    #[must_use]
    pub fn new(memory: u64) -> Self {
        Self::of(memory, open_file_limit::raise(MAX_FILES))
    }

    fn of(memory: u64, files: u64) -> Self {
        let pending = (files / 8).clamp(1, MAX_PENDING);
        let files = files.saturating_sub(2 * pending + OWN_FILES);
        Self {
            memory: AtomicU64::new(memory),
            files: AtomicU64::new(files),
            tests: AtomicU64::new(0),
            all: [memory, files],
            pending: pending as usize,
        }
    }

    /// What tests have now.
    #[must_use]
    pub fn in_use(&self) -> InUse {
        let [memory_limit, files_limit] = self.all;
        let used = |all: u64, left: &AtomicU64| all.saturating_sub(left.load(Ordering::Relaxed));
        InUse {
            tests: self.tests.load(Ordering::Relaxed),
            memory: used(memory_limit, &self.memory),
            memory_limit,
            files: used(files_limit, &self.files),
            files_limit,
        }
    }

    /// Takes what a test needs, or says what there is too little of.
    pub(super) fn take(&self, memory: u64, files: u64) -> Result<Taken<'_>, String> {
        let of = |left: &AtomicU64, asked: u64| {
            let taken = left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(asked));
            taken.is_ok()
        };
        if !of(&self.memory, memory) {
            let mebibytes = memory.div_ceil(1 << 20);
            return Err(format!("{mebibytes} MiB of memory, which other tests use"));
        }
        if !of(&self.files, files) {
            self.memory.fetch_add(memory, Ordering::Relaxed);
            return Err(format!("{files} open files, which other tests use"));
        }
        self.tests.fetch_add(1, Ordering::Relaxed);
        Ok(Taken { budget: self, memory, files })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_take_what_is_there_and_give_it_back() {
        let budget = Budget::of(10 << 20, 1024);
        assert_eq!(budget.pending, 128);
        let first = budget.take(8 << 20, 600).unwrap();
        let refused = budget.take(3 << 20, 1).unwrap_err();
        assert_eq!(refused, "3 MiB of memory, which other tests use");
        let refused = budget.take(1, 200).unwrap_err();
        assert_eq!(refused, "200 open files, which other tests use");
        let second = budget.take(2 << 20, 104).unwrap();
        let all = InUse {
            tests: 2,
            memory: 10 << 20,
            memory_limit: 10 << 20,
            files: 704,
            files_limit: 704,
        };
        assert_eq!(budget.in_use(), all);
        drop((first, second));
        assert_eq!(budget.in_use(), InUse { tests: 0, memory: 0, files: 0, ..all });
        budget.take(10 << 20, 704).unwrap();
    }
}
