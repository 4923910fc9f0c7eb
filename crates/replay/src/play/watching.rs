//! Looks through sessions that wait: reads that have begun, locks that go round in a circle, requests to cancel.

use super::Player;
use super::opening::Opener;
use super::played::Phase;

/// What a read sees is settled by then, even where its rows take long.
const READ_SETTLED_NS: u64 = 20_000_000;
/// A session that holds locks waits no longer for one that may wait for these locks: so long and three times what that
/// one took in the capture.
const LOCKED_NS: u64 = 30_000_000;
/// Nor longer for one that waits itself.
const CIRCLE_NS: u64 = 300_000_000;
/// When nothing at all happens for so long, and twice the capture's longest statement, whoever waits goes on.
const STILL_NS: u64 = 1_000_000_000;

impl<O: Opener> Player<O> {
    /// One look; `heard_ns` is when a server last said something.
    pub(super) fn look(&mut self, now_ns: u64, heard_ns: u64) {
        self.settle_reads(now_ns);
        self.release(now_ns, now_ns.saturating_sub(heard_ns));
        self.cancel(now_ns);
        let patience_ns = self.silent_ns + 10 * self.plan.longest_ns;
        if now_ns - heard_ns > patience_ns && self.due.is_empty() {
            for session in 0..self.played.len() {
                // One that is being opened, or waits for others, would wait as long again.
                if self.played[session].phase != Phase::Over {
                    self.end(session, Some("the server stopped answering".to_owned()));
                }
            }
        }
    }

    fn settle_reads(&mut self, now_ns: u64) {
        let plan = std::sync::Arc::clone(&self.plan);
        while self
            .plain
            .front()
            .is_some_and(|(sent_ns, ..)| now_ns - sent_ns > READ_SETTLED_NS)
        {
            if let Some((_, session, step)) = self.plain.pop_front() {
                let marks = &plan.marks[plan.sessions[session].steps[step].marks.range()];
                for &mark in marks.iter().filter(|mark| mark.queue < plan.queues_of_values) {
                    self.queues.mark(mark, &mut self.woken);
                }
            }
        }
    }

    /// Order can't go round in a circle, but order and locks together can: who holds locks goes on.
    fn release(&mut self, now_ns: u64, silent_ns: u64) {
        for session in 0..self.played.len() {
            let Some(blocked) = self.played[session].blocked else {
                continue;
            };
            let waited_ns = now_ns.saturating_sub(blocked.since_ns);
            let held = &self.played[session];
            let holds_locks = held.answers.is_open || self.plan.sessions[session].steps[held.next].is_within;
            let by = &self.played[blocked.by];
            let is_stuck = match by.sent.front() {
                Some(sent) => {
                    let then_ns = by.answers.awaited_ns(&self.plan.sessions[blocked.by]);
                    holds_locks && now_ns.saturating_sub(sent.sent_ns) > LOCKED_NS + 3 * then_ns
                }
                None => holds_locks && by.blocked.is_some() && waited_ns > CIRCLE_NS,
            };
            let is_stuck = waited_ns > LOCKED_NS
                && (is_stuck || waited_ns.min(silent_ns) > STILL_NS + 2 * self.plan.longest_ns);
            if is_stuck {
                let played = &mut self.played[session];
                played.is_released = true;
                self.tally.reordered += 1;
                self.woken.push(session);
            }
        }
    }

    /// Requests to cancel, when their time has come and what they meant still runs.
    fn cancel(&mut self, now_ns: u64) {
        for session in 0..self.played.len() {
            while let Some(&(at_ns, readies)) = self.plan.sessions[session]
                .cancels
                .get(self.played[session].next_cancel)
            {
                let played = &self.played[session];
                let is_gone = played.answers.readies > readies || played.phase == Phase::Over;
                let Some(sent) = played
                    .sent
                    .front()
                    .filter(|_| !is_gone && played.answers.readies == readies)
                else {
                    if is_gone {
                        self.played[session].next_cancel += 1;
                        continue;
                    }
                    break;
                };
                let step_ns = self.plan.sessions[session].steps[sent.step].at_ns;
                let wanted_ns = match self.speed {
                    Some(_) => sent.sent_ns.max(self.instant(at_ns)),
                    None => sent.sent_ns + (at_ns - step_ns.min(at_ns)),
                };
                if wanted_ns > now_ns {
                    break;
                }
                let key = played.key;
                self.opening.cancel(key);
                self.played[session].next_cancel += 1;
            }
        }
    }
}
