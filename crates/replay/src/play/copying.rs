//! COPY FROM STDIN whose outcome is another one than in the capture: refused then and taken now, or the reverse.

use super::Player;
use super::answers::Answers;
use super::opening::Opener;
use crate::plan::{Plan, Step};

/// CopyFail with its reason, which the server repeats.
const COPY_FAIL: &[u8] = b"f\0\0\0\x1dit failed in the capture\0";
const SYNC: &[u8] = b"S\0\0\0\x04";

/// What becomes of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Going {
    /// It goes out.
    Out,
    /// It waits for the ReadyForQuery of a COPY that was refused.
    Later,
    /// It doesn't go out: these are data of such a COPY, and their Sync would be one too many.
    NotAtAll,
}

impl<O: Opener> Player<O> {
    /// Ends a COPY whose data the server waits for and the capture does not have: it would wait for ever.
    pub(super) fn end_copy(&mut self, session: usize, plan: &Plan) {
        let of = &plan.sessions[session];
        let played = &mut self.played[session];
        let checked = (played.next, played.answers.copies);
        let has_more = of.steps.get(played.next).is_some_and(|step| {
            let bytes = bytes_of(plan, step);
            // Nothing is left of a step whose data were not kept.
            bytes.is_empty() || is_data(bytes)
        });
        let is_waiting = played.answers.is_in_copy && !played.answers.is_at_its_end(of);
        if !is_waiting || has_more || played.copy_checked == checked {
            return;
        }
        played.copy_checked = checked;
        let (ends, syncs) = counted(plan, &of.steps[played.under_way()]);
        if ends >= played.answers.copies {
            return;
        }
        let output = played.output();
        output.extend_from_slice(COPY_FAIL);
        // Those that were sent with the COPY were read as a part of its data and ignored.
        for _ in 0..syncs {
            output.extend_from_slice(SYNC);
        }
        if let Err(error) = played.flush() {
            self.end(session, Some(format!("the connection was lost: {error}")));
        }
    }
}

/// What becomes of a step of COPY's data where the server is not within a COPY; a Sync that was sent with the COPY was
/// ignored in the capture, and is answered now. `sent`: the steps that are not over.
pub fn going(plan: &Plan, sent: &[Step], step: &Step, answers: &Answers) -> Going {
    if answers.is_in_copy || !is_data(bytes_of(plan, step)) {
        return Going::Out;
    }
    let is_behind_an_error = answers.answers == u32::MAX;
    match is_behind_an_error {
        true if matches!(counted(plan, sent), (0, 1..)) => Going::Later,
        false if step.over_readies <= answers.readies => Going::NotAtAll,
        _ => Going::Out,
    }
}

/// How often data of COPY were ended in these steps, and how many Syncs came behind the latest execution or data.
fn counted(plan: &Plan, steps: &[Step]) -> (u32, u32) {
    let (mut ends, mut syncs) = (0, 0);
    for tag in steps.iter().flat_map(|step| tags(bytes_of(plan, step))) {
        match tag {
            b'S' => syncs += 1,
            b'c' | b'f' => (ends, syncs) = (ends + 1, 0),
            b'd' | b'E' => syncs = 0,
            // What a query had copied before is over, although its data's step counts until the next ReadyForQuery.
            b'Q' => (ends, syncs) = (0, 0),
            _ => {}
        }
    }
    (ends, syncs)
}

fn bytes_of<'a>(plan: &'a Plan, step: &Step) -> &'a [u8] {
    let at = |place: u64| usize::try_from(place).unwrap_or(usize::MAX);
    plan.bytes.get(at(step.from)..at(step.to)).unwrap_or_default()
}

fn is_data(bytes: &[u8]) -> bool {
    matches!(bytes.first(), Some(b'd' | b'c' | b'f'))
}

fn tags(mut rest: &[u8]) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let [tag, a, b, c, d, ..] = *rest else {
            return None;
        };
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        rest = rest.get(1 + length..).unwrap_or_default();
        Some(tag)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps with messages of these types, over with the first ReadyForQuery.
    fn steps_of(plan: &mut Plan, all: &[&str]) -> Vec<Step> {
        let mut steps = Vec::new();
        for types in all {
            let from = plan.bytes.len() as u64;
            for tag in types.bytes() {
                plan.bytes.extend_from_slice(&[tag, 0, 0, 0, 4]);
            }
            steps.push(Step {
                from,
                to: plan.bytes.len() as u64,
                over_readies: 1,
                ..Step::default()
            });
        }
        steps
    }

    fn counted_of(all: &[&str]) -> (u32, u32) {
        let mut plan = Plan::default();
        let steps = steps_of(&mut plan, all);
        counted(&plan, &steps)
    }

    #[test]
    fn what_was_sent_tells_whether_a_copy_has_its_end_and_which_syncs_it_swallowed() {
        assert_eq!(counted_of(&["Q"]), (0, 0));
        assert_eq!(counted_of(&["PBES"]), (0, 1));
        assert_eq!(counted_of(&["PBES", "d", "d"]), (0, 0));
        assert_eq!(counted_of(&["PBES", "dcS"]), (1, 1));
        assert_eq!(counted_of(&["Q", "d", "c"]), (1, 0));
        assert_eq!(counted_of(&["dc", "Q"]), (0, 0));
    }

    fn going_of(all: &[&str], readies: u32, after_it: u32) -> Going {
        let mut plan = Plan::default();
        let steps = steps_of(&mut plan, all);
        let mut answers = Answers::new();
        answers.readies = readies;
        answers.answers = after_it;
        going(&plan, &steps[..1], &steps[1], &answers)
    }

    #[test]
    fn data_of_a_copy_that_is_refused_now_go_out_only_where_their_sync_is_needed() {
        // The Sync that was sent with the COPY is answered: first that, and then no other.
        assert_eq!(going_of(&["PBES", "dcS"], 0, u32::MAX), Going::Later);
        assert_eq!(going_of(&["PBES", "dcS"], 1, 0), Going::NotAtAll);
        // Without one the server waits for that of the data.
        assert_eq!(going_of(&["PBEH", "dcS"], 0, u32::MAX), Going::Out);
        assert_eq!(going_of(&["Q", "Q"], 0, u32::MAX), Going::Out);
        // Data that the client sends without waiting.
        assert_eq!(going_of(&["PBES", "dcS"], 0, 0), Going::Out);
    }

    #[test]
    fn the_messages_that_end_a_copy_are_whole() {
        let sent = [COPY_FAIL, SYNC].concat();
        assert_eq!(tags(&sent).collect::<Vec<u8>>(), b"fS");
    }
}
