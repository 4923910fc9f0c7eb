//! Which members of the numbered queues are done, and who waits for that.

use std::collections::HashSet;

use crate::plan::{Mark, Plan, Wait};

#[derive(Default)]
struct Queue {
    done: u32,
    early: HashSet<u32>,
    waiting: Vec<(u32, usize)>,
    owners: Vec<u32>,
}

/// All queues of a plan.
pub struct Queues {
    queues: Vec<Queue>,
    ended: u32,
}

impl Queues {
    /// Nothing is done yet.
    pub fn new(plan: &Plan) -> Self {
        let mut queues: Vec<Queue> = (0..plan.queues).map(|_| Queue::default()).collect();
        let ended = u32::try_from(plan.queues - 1).unwrap_or(u32::MAX);
        for (number, session) in plan.sessions.iter().enumerate() {
            let steps = session
                .steps
                .iter()
                .flat_map(|step| &plan.marks[step.marks.range()]);
            let end = session.ended_place.map(|place| Mark { queue: ended, place });
            for mark in steps.copied().chain(end) {
                let owners = &mut queues[mark.queue as usize].owners;
                let place = mark.place as usize;
                if owners.len() <= place {
                    owners.resize(place + 1, 0);
                }
                owners[place] = u32::try_from(number).unwrap_or(u32::MAX);
            }
        }
        let mut made = Self { queues, ended };
        for &mark in &plan.undone {
            made.mark(mark, &mut Vec::new());
        }
        made
    }

    /// The wait for sessions that ended before.
    pub fn after_ended(&self, count: u32) -> Wait {
        Wait {
            queue: self.ended,
            count,
        }
    }

    /// A session has ended.
    pub fn end(&mut self, place: u32, woken: &mut Vec<usize>) {
        let queue = self.ended;
        self.mark(Mark { queue, place }, woken);
    }

    /// Whether a wait is over; otherwise the session that has to go on first.
    pub fn blocker(&self, wait: Wait) -> Option<usize> {
        let queue = &self.queues[wait.queue as usize];
        (queue.done < wait.count).then(|| queue.owners[queue.done as usize] as usize)
    }

    /// Wakes this session when the wait is over.
    pub fn register(&mut self, wait: Wait, session: usize) {
        self.queues[wait.queue as usize]
            .waiting
            .push((wait.count, session));
    }

    /// A member is done; those who can go on are added to `woken`.
    pub fn mark(&mut self, mark: Mark, woken: &mut Vec<usize>) {
        let queue = &mut self.queues[mark.queue as usize];
        if mark.place < queue.done || !queue.early.insert(mark.place) {
            return;
        }
        while queue.early.remove(&queue.done) {
            queue.done += 1;
        }
        let done = queue.done;
        queue.waiting.retain(|&(count, session)| {
            let is_over = count <= done;
            if is_over {
                woken.push(session);
            }
            !is_over
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_goes_on_when_all_before_is_done_in_whatever_order() {
        let plan = Plan {
            queues: 2,
            ..Plan::default()
        };
        let mut queues = Queues::new(&plan);
        let mut woken = Vec::new();
        queues.queues[0].owners = vec![7, 8, 9];
        let wait = Wait { queue: 0, count: 2 };
        assert_eq!(queues.blocker(wait), Some(7));
        queues.register(wait, 5);
        queues.mark(Mark { queue: 0, place: 1 }, &mut woken);
        queues.mark(Mark { queue: 0, place: 1 }, &mut woken);
        assert!(woken.is_empty());
        queues.mark(Mark { queue: 0, place: 0 }, &mut woken);
        assert_eq!((woken, queues.blocker(wait)), (vec![5], None));
    }

    #[test]
    fn nobody_waits_for_what_a_session_would_have_done_that_is_left_out() {
        let plan = Plan {
            queues: 2,
            undone: vec![Mark { queue: 0, place: 0 }],
            ..Plan::default()
        };
        let queues = Queues::new(&plan);
        assert_eq!(queues.blocker(Wait { queue: 0, count: 1 }), None);
    }
}
