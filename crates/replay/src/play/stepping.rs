//! What a session does next: begin, send a step, wait, end.

use std::cmp::Reverse;
use std::sync::Arc;

use mio::{Interest, Token};
use pgassay_load::clock::monotonic_ns;

use super::answers::{Against, Sent};
use super::copying::{Going, going};
use super::opening::Opener;
use super::played::{Blocked, Phase, Taken};
use super::tally::record;
use super::{Player, queues::Queues};
use crate::plan::{Plan, Wait};

impl<O: Opener> Player<O> {
    /// What is due, and those who waited for what is done now.
    pub(super) fn go_on(&mut self) {
        loop {
            while let Some(session) = self.woken.pop() {
                if let Some(blocked) = self.played[session].blocked.take() {
                    self.tally.waited_ns += self.told_ns.saturating_sub(blocked.since_ns);
                }
                self.played[session].free_ns = self.told_ns;
                self.advance(session);
            }
            let Some(&Reverse((at_ns, session))) = self.due.peek() else {
                return;
            };
            if at_ns > monotonic_ns() {
                return;
            }
            self.due.pop();
            self.advance(session);
        }
    }

    /// Connections that were opened meanwhile; whether there were any.
    pub(super) fn take_opened(&mut self) -> bool {
        let mut has_opened = false;
        while let Some((session, opened)) = self.opening.take() {
            has_opened |= opened.is_ok();
            match opened {
                // It was given up.
                _ if self.played[session].phase == Phase::Over => {}
                Ok(mut opened) => {
                    let interest = Interest::READABLE | Interest::WRITABLE;
                    let registry = self.poll.registry();
                    match registry.register(&mut opened.transport, Token(session), interest) {
                        Ok(()) => {
                            self.tally.opened += 1;
                            self.played[session].opened(opened.transport, opened.key);
                            self.played[session].free_ns = self.told_ns;
                            self.advance(session);
                        }
                        Err(error) => self.end(session, Some(error.to_string())),
                    }
                }
                Err(failure) => self.end(session, Some(failure.message)),
            }
        }
        has_opened
    }

    /// Reads what the server said to a session, and goes on with it.
    pub(super) fn serve(&mut self, session: usize, is_closing: bool) {
        if let Err(error) = self.played[session].flush() {
            return self.end(session, Some(format!("the connection was lost: {error}")));
        }
        let plan = Arc::clone(&self.plan);
        loop {
            let played = &mut self.played[session];
            match played.read(&mut self.buffer) {
                Taken::Later => break,
                Taken::Bytes(count) => {
                    let now_ns = monotonic_ns();
                    let bytes = &self.buffer[..count];
                    let against = Against {
                        plan: &plan,
                        session: &plan.sessions[session],
                        steps: &played.sent,
                        made: &mut self.made,
                        tally: &mut self.tally,
                    };
                    let taken = played.answers.take(bytes, now_ns, against);
                    if taken.is_err() {
                        return self.end(session, Some("the server sent what is not a message".to_owned()));
                    }
                    played.free_ns = self.told_ns;
                    self.settle(session, &plan);
                    // The socket is empty, and what comes next is a new event; the end of the stream is no byte,
                    // and where this event told of it, no other will.
                    if count < self.buffer.len() && !is_closing {
                        break;
                    }
                }
                Taken::Over(error) => {
                    let is_at_its_end = played.next == plan.sessions[session].steps.len();
                    let why = match (is_at_its_end, error) {
                        (true, _) => None,
                        (false, Some(error)) => Some(format!("the connection was lost: {error}")),
                        (false, None) if !played.answers.error.is_empty() => Some(format!(
                            "the server ended the connection: {}",
                            played.answers.error
                        )),
                        (false, None) => Some("the server ended the connection".to_owned()),
                    };
                    return self.end(session, why);
                }
            }
        }
        self.advance(session);
    }

    /// Steps that are over are done for those who wait for them.
    fn settle(&mut self, session: usize, plan: &Plan) {
        let played = &mut self.played[session];
        while played
            .sent
            .front()
            .is_some_and(|sent| sent.over_readies <= played.answers.readies)
        {
            if let Some(sent) = played.sent.pop_front() {
                let marks = plan.sessions[session].steps[sent.step].marks;
                for &mark in &plan.marks[marks.range()] {
                    self.queues.mark(mark, &mut self.woken);
                }
            }
        }
    }

    /// Does what a session can do now.
    fn advance(&mut self, session: usize) {
        let plan = Arc::clone(&self.plan);
        match self.played[session].phase {
            Phase::Before => self.begin(session, &plan),
            Phase::Opening | Phase::Over => {}
            Phase::Open => {
                while self.played[session].phase == Phase::Open && self.step(session, &plan) {}
                if self.played[session].phase == Phase::Open {
                    self.end_copy(session, &plan);
                }
            }
        }
    }

    fn begin(&mut self, session: usize, plan: &Plan) {
        // Without a pace no more sessions are open at once than there were.
        if self.speed.is_none() {
            let wait = self.queues.after_ended(plan.sessions[session].after_ended);
            if self.queues.blocker(wait).is_some() {
                self.queues.register(wait, session);
                return;
            }
        }
        self.played[session].phase = Phase::Opening;
        self.opening.open(session);
    }

    /// Sends the next step if it can go; `true` where there may be one more.
    fn step(&mut self, session: usize, plan: &Plan) -> bool {
        let of = &plan.sessions[session];
        let played = &mut self.played[session];
        let Some(step) = of.steps.get(played.next) else {
            self.end_in_time(session, plan);
            return false;
        };
        let seen = (played.answers.readies, played.answers.answers);
        if played.blocked.is_some() || seen < (step.readies, step.answers) {
            return false;
        }
        let going = going(plan, &of.steps[played.under_way()], step, &played.answers);
        if going == Going::Later {
            return false;
        }
        let now_ns = monotonic_ns();
        let intended_ns = match self.speed {
            Some(_) => self.instant(step.at_ns),
            None => self.played[session].free_ns,
        };
        if intended_ns > now_ns {
            self.due.push(Reverse((intended_ns, session)));
            return false;
        }
        let played = &mut self.played[session];
        if !std::mem::take(&mut played.is_released)
            && let Some((wait, by)) = first_wait(&self.queues, &plan.waits[step.waits.range()])
        {
            self.queues.register(wait, session);
            played.blocked = Some(Blocked { since_ns: now_ns, by });
            return false;
        }
        if going == Going::Out {
            self.tally.replaced += self.made.write(plan, step, played.output());
        }
        let sent = Sent {
            step: played.next,
            over_readies: step.over_readies,
            intended_ns,
            sent_ns: now_ns,
        };
        played.sent.push_back(sent);
        played.next += 1;
        let could_ns = intended_ns.max(played.free_ns);
        record(&mut self.tally.late, now_ns.saturating_sub(could_ns));
        if self.speed.is_some() {
            self.behind_ns = now_ns - intended_ns;
            record(&mut self.tally.behind, self.behind_ns);
        }
        if step.is_plain {
            self.plain.push_back((now_ns, session, sent.step));
        }
        if let Err(error) = self.played[session].flush() {
            self.end(session, Some(format!("the connection was lost: {error}")));
            return false;
        }
        // A step that nothing answers (the end of a connection) is over at once.
        self.settle(session, plan);
        true
    }

    /// Ends a session that has nothing left to send, when it ended then.
    fn end_in_time(&mut self, session: usize, plan: &Plan) {
        let of = &plan.sessions[session];
        let played = &self.played[session];
        // What was never answered then need not be answered now.
        if !played.sent.is_empty() && !played.answers.is_at_its_end(of) {
            return;
        }
        let end_ns = match (self.speed, of.end_ns) {
            (Some(_), Some(end_ns)) => self.instant(end_ns),
            _ => 0,
        };
        if end_ns > monotonic_ns() {
            self.due.push(Reverse((end_ns, session)));
            return;
        }
        self.end(session, None);
    }

    /// Ends a session, by its time or by a failure: nobody waits for it any longer.
    pub(super) fn end(&mut self, session: usize, why: Option<String>) {
        let plan = Arc::clone(&self.plan);
        let of = &plan.sessions[session];
        let played = &mut self.played[session];
        if played.phase == Phase::Over {
            return;
        }
        let reason = why.as_deref().unwrap_or("the session was over before");
        played.answers.finish(of, &mut self.tally, reason);
        let first = played.sent.front().map_or(played.next, |sent| sent.step);
        played.close();
        for step in &of.steps[first..] {
            for &mark in &plan.marks[step.marks.range()] {
                self.queues.mark(mark, &mut self.woken);
            }
        }
        if let Some(place) = of.ended_place {
            self.queues.end(place, &mut self.woken);
        }
        if let Some(why) = why {
            self.tally.lose(why);
        }
        self.running -= 1;
    }
}

fn first_wait(queues: &Queues, waits: &[Wait]) -> Option<(Wait, usize)> {
    waits
        .iter()
        .find_map(|&wait| queues.blocker(wait).map(|by| (wait, by)))
}
