//! The order in which a backup reads files: those with the largest part in memory first, and of
//! equals the earliest. [`super::handing`] fills it (Duet, SOSP'15, section 5: the rsync task).
//!
//! Invariant: it is pure. No item leaves behind more than `size` later ones, nor before more than
//! `size` earlier ones.

use std::collections::VecDeque;

/// See the module's head.
#[derive(Debug)]
pub(super) struct Window<T> {
    size: usize,
    /// In the order in which they came.
    waiting: VecDeque<Waiting<T>>,
    ahead: u64,
}

#[derive(Debug)]
struct Waiting<T> {
    item: T,
    score: u32,
    /// Later items that left before it.
    overtaken: usize,
}

impl<T> Window<T> {
    /// Lets at most `size` items wait; none, and the order stays as it is.
    pub fn new(size: usize) -> Self {
        Self {
            size,
            waiting: VecDeque::with_capacity(size + 1),
            ahead: 0,
        }
    }

    /// Adds an item, whose turn comes earlier the higher its score is. Returns one if too many
    /// wait.
    pub fn push(&mut self, item: T, score: u32) -> Option<T> {
        self.waiting.push_back(Waiting {
            item,
            score,
            overtaken: 0,
        });
        match self.waiting.len() > self.size {
            true => self.pop(),
            false => None,
        }
    }

    /// Returns the next item.
    pub fn pop(&mut self) -> Option<T> {
        let oldest = self.waiting.front()?;
        let mut chosen = 0;
        if oldest.overtaken < self.size {
            let mut highest = oldest.score;
            for (at, waiting) in self.waiting.iter().enumerate() {
                if waiting.score > highest {
                    (chosen, highest) = (at, waiting.score);
                }
            }
        }
        for earlier in self.waiting.range_mut(..chosen) {
            earlier.overtaken += 1;
        }
        self.ahead += u64::from(chosen > 0);
        self.waiting.remove(chosen).map(|waiting| waiting.item)
    }

    /// Gives all waiting items new scores.
    pub fn score(&mut self, score: impl Fn(&mut T) -> u32) {
        for waiting in &mut self.waiting {
            waiting.score = score(&mut waiting.item);
        }
    }

    /// Items that left before an earlier one.
    pub fn ahead(&self) -> u64 {
        self.ahead
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order in which items of these scores leave a window.
    fn order(size: usize, scores: impl IntoIterator<Item = u32>) -> Vec<usize> {
        let mut window = Window::new(size);
        let mut out = Vec::new();
        for (number, score) in scores.into_iter().enumerate() {
            out.extend(window.push(number, score));
            assert!(window.waiting.len() <= size);
        }
        while let Some(number) = window.pop() {
            out.push(number);
        }
        out
    }

    #[test]
    fn the_highest_first_and_equals_in_order() {
        assert_eq!(order(3, [0, 0, 5, 9, 5, 0]), [3, 2, 4, 0, 1, 5]);
        assert_eq!(order(0, [0, 5, 9]), [0, 1, 2]);
        assert!(order(100, [7; 500]).is_sorted());
    }

    #[test]
    fn nothing_is_farther_from_its_place_than_the_window_is_long() {
        let size = 100;
        // Files that always come with a higher score than the first, and a scramble.
        let cold_first = (0..1000).map(|n| u32::from(n > 0));
        let scramble = (0..5000_u32).map(|n| n.wrapping_mul(2_654_435_761) >> 20);
        for order in [order(size, cold_first), order(size, scramble)] {
            let far = |(place, number): (usize, &usize)| place.abs_diff(*number);
            let farthest = order.iter().enumerate().map(far).max();
            assert_eq!(farthest, Some(size));
        }
    }

    #[test]
    fn new_scores_change_the_order() {
        let mut window = Window::new(3);
        assert_eq!((window.push(1, 9), window.push(2, 0)), (None, None));
        window.score(|item| *item);
        assert_eq!(
            (window.pop(), window.pop(), window.pop()),
            (Some(2), Some(1), None)
        );
        assert_eq!(window.ahead(), 1);
    }
}
