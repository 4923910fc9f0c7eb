//! In which order a look-ahead asks: that of the file, which requests on their way leave.

use std::collections::VecDeque;

use super::dependencies::Step;

/// So many ends of reads are remembered: one for each file that is read side by side.
const ENDS: usize = 8;
/// No more requests than these are looked at for the one that goes on.
const WINDOW_MAX: usize = 32;

/// Brings the places that are read into the order of their files, as far as those on their way at once may have
/// overtaken each other: which does is chance of the recorded volume's answers, and not of another's. The times stay.
///
/// `reads` are the numbers of the steps that read, in their order, each with the number of lanes around it.
pub(super) fn straighten(steps: &mut [Step], reads: &[(usize, u32)]) {
    let mut places: VecDeque<(u64, u32)> = VecDeque::new();
    let mut ends: VecDeque<u64> = VecDeque::with_capacity(ENDS + 1);
    let mut coming = 0;
    for (index, lanes) in reads {
        let window = (*lanes as usize).clamp(1, WINDOW_MAX).max(places.len());
        let more = &reads[coming..reads.len().min(coming + window - places.len())];
        coming += more.len();
        places.extend(
            more.iter()
                .map(|(next, _)| (steps[*next].offset, steps[*next].length)),
        );
        let goes_on = places.iter().position(|(offset, _)| ends.contains(offset));
        let Some((offset, length)) = places.remove(goes_on.unwrap_or(0)) else {
            return;
        };
        (steps[*index].offset, steps[*index].length) = (offset, length);
        ends.push_back(offset.saturating_add(u64::from(length)));
        if ends.len() > ENDS {
            ends.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Kind;
    use crate::simulate::recorded::dependencies::{NO_LOG, Role};

    fn straightened(places: &[u64], lanes: u32) -> Vec<u64> {
        let step = |offset: &u64| Step {
            after_ns: 0,
            offset: *offset,
            length: 10,
            after_done: 0,
            log: NO_LOG,
            kind: Kind::Read,
            role: Role::Claimed,
            is_milestone: false,
        };
        let mut steps: Vec<Step> = places.iter().map(step).collect();
        let reads: Vec<(usize, u32)> = (0..steps.len()).map(|index| (index, lanes)).collect();
        straighten(&mut steps, &reads);
        steps.iter().map(|step| step.offset).collect()
    }

    #[test]
    fn reads_that_overtook_each_other_are_in_the_order_of_the_file_again() {
        assert_eq!(
            straightened(&[0, 20, 10, 40, 30, 50, 60], 3),
            [0, 10, 20, 30, 40, 50, 60]
        );
        // By no more than so many on their way at once.
        assert_eq!(straightened(&[0, 20, 30, 40, 10], 3), [0, 20, 30, 40, 10]);
        assert_eq!(straightened(&[0, 20, 10], 1), [0, 20, 10]);
        // Two files side by side, and pages here and there.
        assert_eq!(
            straightened(&[0, 500, 20, 10, 520, 510], 4),
            [0, 10, 20, 500, 510, 520]
        );
        assert_eq!(straightened(&[70, 900, 35, 7], 4), [70, 900, 35, 7]);
    }
}
