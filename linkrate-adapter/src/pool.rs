//! Memory that is used again and again.
//!
//! An item is lent by sharing it. It is free when all other holders have dropped it; the next
//! [`Pool::with_free`] then takes it. Items that were free first are used first, so that as few items
//! as possible pass through the cache.

use std::sync::Arc;

/// Items that are looked at before the pool grows: as many from the front, where items are free
/// soonest, as from the place where the last look ended.
const PROBES: usize = 16;

/// Items that are shared while in use.
#[derive(Debug)]
pub struct Pool<T> {
    items: Vec<Arc<T>>,
    most: usize,
    /// Where the next look at the long-lent items begins.
    cursor: usize,
    /// Where the next sweep begins, and the number of items that it still has to see free.
    swept: usize,
    to_sweep: usize,
    make: fn() -> T,
}

impl<T> Pool<T> {
    /// Keeps at most `most` items. Further items are made and dropped after use.
    pub fn new(most: usize, make: fn() -> T) -> Self {
        Self { items: Vec::new(), most: most.max(1), cursor: 0, swept: 0, to_sweep: 0, make }
    }

    /// Lets `fill` write into a free item, and shares the item. If `fill` fails, the item stays free.
    pub fn with_free<R, E>(
        &mut self,
        fill: impl FnOnce(&mut T) -> Result<R, E>,
    ) -> Result<(Arc<T>, R), E> {
        self.to_sweep = self.items.len() + 1;
        if let Some(at) = self.free() {
            let item = &mut self.items[at];
            // nobody else holds it, so only the pool can share it
            if let Some(unshared) = Arc::get_mut(item) {
                let result = fill(unshared)?;
                return Ok((Arc::clone(item), result));
            }
        }
        let mut fresh = (self.make)();
        let result = fill(&mut fresh);
        // kept even if nothing was written: an idle reader would otherwise make an item each time
        let fresh = Arc::new(fresh);
        if self.items.len() < self.most {
            self.items.push(Arc::clone(&fresh));
        }
        Ok((fresh, result?))
    }

    /// Clears items that nobody else holds, a few at each call, until every lent item was seen free.
    pub fn sweep(&mut self, tidy: impl Fn(&mut T)) {
        let length = self.items.len();
        if self.to_sweep == 0 {
            return;
        }
        for step in 0..length.min(2 * PROBES) {
            match Arc::get_mut(&mut self.items[(self.swept + step) % length]) {
                Some(item) => {
                    tidy(item);
                    self.to_sweep = self.to_sweep.saturating_sub(1);
                }
                // another round, once it has come back
                None => self.to_sweep = length,
            }
        }
        self.swept = (self.swept + 2 * PROBES) % length.max(1);
    }

    fn free(&mut self) -> Option<usize> {
        let length = self.items.len();
        let mut is_free = |at: usize| Arc::get_mut(&mut self.items[at]).is_some();
        if let Some(at) = (0..length.min(PROBES)).find(|at| is_free(*at)) {
            return Some(at);
        }
        let looks = if length < self.most { PROBES } else { length };
        let found = (0..looks.min(length))
            .map(|step| (self.cursor + step) % length)
            .find(|at| is_free(*at));
        self.cursor = found.unwrap_or(self.cursor + looks) % length.max(1);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(pool: &mut Pool<u32>, value: u32) -> Arc<u32> {
        let filled: Result<_, ()> = pool.with_free(|item| {
            *item = value;
            Ok(())
        });
        filled.unwrap().0
    }

    #[test]
    fn what_is_held_is_never_written() {
        let mut pool = Pool::new(4, || 0);
        let held: Vec<_> = (0..200).map(|value| number(&mut pool, value)).collect();
        assert!(held.iter().zip(0..).all(|(item, value)| **item == value));
    }

    #[test]
    fn what_is_let_go_is_used_again() {
        let mut pool = Pool::new(1000, || 0);
        for value in 0..100 {
            drop(number(&mut pool, value));
        }
        assert_eq!(pool.items.len(), 1);
    }

    #[test]
    fn a_fill_that_fails_leaves_the_item_free() {
        let mut pool = Pool::new(4, || 0);
        assert_eq!(pool.with_free(|_| Err::<(), _>("empty")).unwrap_err(), "empty");
        drop(number(&mut pool, 1));
        assert_eq!(pool.items.len(), 1);
    }
}
