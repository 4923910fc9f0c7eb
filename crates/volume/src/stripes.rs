//! Which part of a request each volume of a stripe set gets.

use crate::model::Stripes;

/// No volume is larger; it keeps the arithmetic within its type.
const OFFSET_MAX: u64 = 1 << 62;

impl Stripes {
    /// The part of the bytes from `offset` on that lies on one volume: where on it, and how many. `None` where it
    /// has none of them.
    ///
    /// What a request touches on one volume is one piece: its chunks there lie behind each other.
    #[inline]
    pub(crate) fn part(&self, volume: u32, offset: u64, length: u32) -> Option<(u64, u32)> {
        if self.count == 1 {
            return Some((offset, length));
        }
        if length == 0 {
            return None;
        }
        let (count, width) = (u64::from(self.count), self.width_bytes);
        let volume = u64::from(volume);
        let offset = offset.min(OFFSET_MAX);
        let end = offset + u64::from(length);
        let (first, last) = (offset / width, (end - 1) / width);
        let first_here = first + (volume + count - first % count) % count;
        if first_here > last {
            return None;
        }
        let last_here = last - (last % count + count - volume) % count;
        let begin = first_here / count * width + if first_here == first { offset % width } else { 0 };
        let until = last_here / count * width
            + if last_here == last {
                (end - 1) % width + 1
            } else {
                width
            };
        u32::try_from(until - begin).ok().map(|bytes| (begin, bytes))
    }
}
