//! Who made a value that another session uses: its step waits for theirs, or it would go out before the value is known.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::parts::{Maker, Mark, Plan, Span, Step, Wait};
use super::shared::span;

/// The makers whose values other sessions use: a queue for each source, in the order of their answers.
#[derive(Default)]
pub struct Makers {
    /// By source, numbers of makers.
    needed: BTreeMap<u32, BTreeSet<u32>>,
    waits: HashMap<(u32, u32), Wait>,
    marks: HashMap<Maker, Vec<Mark>>,
    /// By number of maker, when its step was sent.
    sent_ns: Vec<u64>,
}

impl Makers {
    /// Of makers whose steps were sent at these times.
    pub fn new(sent_ns: Vec<u64>) -> Self {
        Self {
            sent_ns,
            ..Self::default()
        }
    }

    /// A value of a source is used that another session made.
    pub fn need(&mut self, source: u32, maker: u32) {
        self.needed.entry(source).or_default().insert(maker);
    }

    /// Gives each source its queue, from this number on; the next free one.
    pub fn settle(&mut self, all: &[Maker], first: u32) -> u32 {
        let mut queue = first;
        for (source, makers) in std::mem::take(&mut self.needed) {
            for (place, maker) in (0_u32..).zip(makers) {
                let count = place + 1;
                self.waits.insert((source, maker), Wait { queue, count });
                let marks = self.marks.entry(all[maker as usize]).or_default();
                marks.push(Mark { queue, place });
            }
            queue += 1;
        }
        queue
    }

    /// Adds what a step of a session waits for and does besides. For what was sent before the step's pipeline the first
    /// step of that waits, as for the order of tables; for what came during it only this one can.
    pub fn add(&self, steps: &mut [Step], first: usize, own: Maker, all: &[Maker], plan: &mut Plan) {
        let number = own.1 as usize;
        if let Some(marks) = self.marks.get(&own) {
            steps[number].marks = extended(&mut plan.marks, steps[number].marks, marks);
        }
        let (mut early, mut late): (Vec<Wait>, Vec<Wait>) = Default::default();
        for place in &plan.places[steps[number].places.range()] {
            let is_other = place.maker != u32::MAX && all[place.maker as usize].0 != own.0;
            let found = self.waits.get(&(place.source, place.maker)).filter(|_| is_other);
            let Some(&wait) = found else { continue };
            let waits = match self.sent_ns[place.maker as usize] < steps[first].at_ns {
                true => &mut early,
                false => &mut late,
            };
            if !waits.contains(&wait) {
                waits.push(wait);
            }
        }
        for (step, waits) in [(first, early), (number, late)] {
            if !waits.is_empty() {
                steps[step].waits = extended(&mut plan.waits, steps[step].waits, &waits);
            }
        }
    }
}

/// A part of a list and what comes to it, at the list's end.
fn extended<T: Copy>(list: &mut Vec<T>, part: Span, more: &[T]) -> Span {
    let from = list.len();
    list.extend_from_within(part.range());
    list.extend_from_slice(more);
    span(from, list.len())
}

#[cfg(test)]
mod tests {
    use super::super::parts::{Form, Place};
    use super::*;

    #[test]
    fn a_step_waits_for_the_other_session_s_step_that_made_its_value_and_for_none_of_its_own() {
        let all = [(1, 4), (2, 0), (1, 6)];
        let mut makers = Makers::new(vec![0, 1, 3]);
        makers.need(9, 0);
        makers.need(9, 2);
        assert_eq!(makers.settle(&all, 30), 31);
        let mut plan = Plan::default();
        let place = |maker| Place {
            message: 0,
            at: 0,
            length: 1,
            parameter: None,
            is_element: false,
            form: Form::Text,
            source: 9,
            value: 0,
            maker,
            slot: 0,
        };
        plan.places = vec![place(2), place(2), place(1), place(u32::MAX)];
        plan.waits.push(Wait { queue: 5, count: 1 });
        let step = |at_ns, is_within, places| Step {
            at_ns,
            is_within,
            places,
            ..Step::default()
        };
        let uses = Span { from: 0, to: 4 };
        let mut steps = vec![step(4, false, uses)];
        steps[0].waits = Span { from: 0, to: 1 };
        makers.add(&mut steps, 0, (2, 0), &all, &mut plan);
        let waits = &plan.waits[steps[0].waits.range()];
        assert_eq!(waits, [Wait { queue: 5, count: 1 }, Wait { queue: 30, count: 2 }]);
        let mut making = vec![Step::default(); 7];
        makers.add(&mut making, 6, (1, 6), &all, &mut plan);
        assert_eq!(
            plan.marks[making[6].marks.range()],
            [Mark { queue: 30, place: 1 }]
        );
        // In a pipeline the first step waits, unless the value was made while the pipeline was sent already.
        let mut steps = vec![step(4, false, Span::default()), step(5, true, uses)];
        makers.add(&mut steps, 0, (2, 1), &all, &mut plan);
        let waited = |step: &Step| plan.waits[step.waits.range()].len();
        assert_eq!(steps.iter().map(waited).collect::<Vec<_>>(), [1, 0]);
        let mut steps = vec![step(2, false, Span::default()), step(5, true, uses)];
        makers.add(&mut steps, 0, (2, 1), &all, &mut plan);
        let waited = |step: &Step| plan.waits[step.waits.range()].len();
        assert_eq!(steps.iter().map(waited).collect::<Vec<_>>(), [0, 1]);
    }
}
