//! numpy's `RandomState.shuffle`: Fisher and Yates from the end, bounded integers by masked rejection.

use crate::RandomState;

/// Exchanges drawn ahead.
const BATCH: usize = 1 << 15;

/// Shuffles `items` like `RandomState.shuffle` does a one-dimensional array.
///
/// Uses two threads if rayon has them: one draws the next exchanges, the other applies those already drawn.
pub fn shuffle<T: Send>(items: &mut [T], random: &mut RandomState) {
    let mut last = items.len().saturating_sub(1);
    while last > u32::MAX as usize {
        items.swap(last, random.at_most(last as u64) as usize);
        last -= 1;
    }
    let (mut now, mut ahead) = (draw(random, last, Vec::new()), Vec::new());
    while !now.is_empty() {
        let following = last - now.len();
        ((), ahead) = rayon::join(|| exchange(items, last, &now), || draw(random, following, ahead));
        std::mem::swap(&mut now, &mut ahead);
        last = following;
    }
}

/// The exchange partners of `last` and the positions below it, at most a batch; none for 0.
fn draw(random: &mut RandomState, last: usize, mut room: Vec<u32>) -> Vec<u32> {
    room.resize(last.min(BATCH), 0);
    random.descending(last as u32, &mut room);
    room
}

fn exchange<T>(items: &mut [T], last: usize, partners: &[u32]) {
    for (down, &partner) in partners.iter().enumerate() {
        items.swap(last - down, partner as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference implementation, one exchange at a time.
    fn plainly<T>(items: &mut [T], random: &mut RandomState) {
        for i in (1..items.len()).rev() {
            items.swap(i, random.at_most(i as u64) as usize);
        }
    }

    #[test]
    fn batches_change_nothing() {
        for count in [0, 1, 2, 3, 1000, BATCH, BATCH + 1, 3 * BATCH + 17] {
            let (mut a, mut b) = (RandomState::new(3), RandomState::new(3));
            let mut fast: Vec<u32> = (0..count as u32).collect();
            let mut plain = fast.clone();
            shuffle(&mut fast, &mut a);
            plainly(&mut plain, &mut b);
            assert_eq!(fast, plain, "{count}");
            assert_eq!(a.next_u32(), b.next_u32());
        }
    }

    #[test]
    fn ten_as_numpy_has_them() {
        let mut items: Vec<i32> = (0..10).collect();
        shuffle(&mut items, &mut RandomState::new(0));
        assert_eq!(items, [2, 8, 4, 9, 1, 6, 7, 3, 0, 5]);
    }
}
