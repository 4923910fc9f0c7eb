//! What a server answers to a played session, compared with what it answered then.

use std::collections::VecDeque;

use pgassay_capture::format::event::{Answer, Rows};
use pgassay_capture::proxy::{
    BODY_BYTES_MAX, BadMessage, Collector, Edge, ROW_BYTES_MAX, complete, sqlstate,
};

use super::made::Made;
use super::tally::{Tally, record};
use crate::plan::{Kind, Plan, Session, Shares, is_together};

/// When a step was meant to go out, and went.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Its number in the session.
    pub step: usize,
    /// It is over with this many ReadyForQuery.
    pub over_readies: u32,
    /// When it should have gone out, nanoseconds of the clock.
    pub intended_ns: u64,
    /// When it went.
    pub sent_ns: u64,
}

/// What answers are compared with, and where it is counted.
pub struct Against<'a> {
    /// All that is played.
    pub plan: &'a Plan,
    /// The session's part of it.
    pub session: &'a Session,
    /// Its steps that were sent and weren't over.
    pub steps: &'a VecDeque<Sent>,
    /// Values that the server makes.
    pub made: &'a mut Made,
    /// The counts.
    pub tally: &'a mut Tally,
}

/// The server's side of a played session.
pub struct Answers {
    collector: Collector,
    expected: usize,
    /// So many values of the expected rows have come.
    returned: usize,
    free_ns: u64,
    /// The executions of a batch that were answered: their places, whether they are as they were; and their time.
    batch: Vec<(usize, bool)>,
    batch_ns: u64,
    /// ReadyForQuery so far.
    pub readies: u32,
    /// Other answers since the last one; behind an error none comes before the next one, so nobody waits for more.
    pub answers: u32,
    /// Whether a transaction is open.
    pub is_open: bool,
    /// Whether the server waits for data of COPY.
    pub is_in_copy: bool,
    /// How often it did so since the last ReadyForQuery.
    pub copies: u32,
    /// What the server said last when it refused something.
    pub error: String,
}

impl Answers {
    /// At the first message after the startup.
    pub fn new() -> Self {
        Self {
            collector: Collector::new(),
            expected: 0,
            returned: 0,
            free_ns: 0,
            batch: Vec::new(),
            batch_ns: 0,
            readies: 0,
            answers: 0,
            is_open: false,
            is_in_copy: false,
            copies: 0,
            error: String::new(),
        }
    }

    /// Takes bytes of the server.
    ///
    /// # Errors
    /// When they are no messages.
    pub fn take(
        &mut self,
        mut bytes: &[u8],
        now_ns: u64,
        mut against: Against<'_>,
    ) -> Result<(), BadMessage> {
        while let Some(edge) = self.collector.next(&mut bytes)? {
            match edge {
                Edge::Begin(tag, length) => self.begin(tag, length, against.session),
                Edge::End(tag) => self.end(tag, now_ns, &mut against),
            }
        }
        Ok(())
    }

    #[inline]
    fn begin(&mut self, tag: u8, length: usize, session: &Session) {
        if matches!(tag, b'D' | b'd' | b'V') {
            self.collector.count_row(length, true);
        }
        self.collector.keeps_body = match tag {
            b'D' => {
                length <= ROW_BYTES_MAX
                    && session
                        .expected
                        .get(self.expected)
                        .is_some_and(|expected| expected.returned.from < expected.returned.to)
            }
            b'C' | b'E' | b'Z' => length <= BODY_BYTES_MAX,
            _ => false,
        };
    }

    fn end(&mut self, tag: u8, now_ns: u64, against: &mut Against<'_>) {
        let session = against.session;
        let came = match tag {
            b'D' | b'd' => {
                self.collector.add_sum();
                if self.collector.keeps_body
                    && let Some(expected) = session.expected.get(self.expected)
                {
                    against
                        .made
                        .row(against.plan, expected, &mut self.returned, &self.collector.body);
                }
                return;
            }
            b'Z' => return self.ready(session, against.tally, now_ns),
            b'C' => match complete(&self.collector.body, Rows::default()) {
                Answer::Complete { tag, affected, .. } => Kind::Complete(tag, affected),
                _ => return,
            },
            b'E' => {
                self.error = message(&self.collector.body);
                Kind::Error(sqlstate(&self.collector.body).unwrap_or(*b"XX000"))
            }
            b's' => Kind::Suspended,
            b'V' => {
                self.collector.add_sum();
                Kind::Other(b'V')
            }
            b'I' => Kind::Other(b'I'),
            b'1' | b'2' | b'3' | b'n' | b'G' | b'H' | b'W' | b'T' | b't' => {
                self.is_in_copy = tag == b'G';
                self.copies += u32::from(self.is_in_copy);
                self.answers = self.answers.saturating_add(1);
                return;
            }
            _ => return,
        };
        self.is_in_copy = false;
        self.answers = match came {
            Kind::Error(_) => u32::MAX,
            _ => self.answers.saturating_add(1),
        };
        let rows = self.collector.take_rows();
        let Some(expected) = session.expected.get(self.expected) else {
            return;
        };
        if expected.kind == Kind::Ready {
            // More than was expected: those that come at the next ReadyForQuery find their own again.
            return;
        }
        self.expected += 1;
        self.returned = 0;
        let sent = against
            .steps
            .iter()
            .rev()
            .find(|sent| sent.step == expected.step as usize);
        let (sent_ns, intended_ns) = sent.map_or((now_ns, now_ns), |sent| (sent.sent_ns, sent.intended_ns));
        let busy_ns = now_ns.saturating_sub(self.free_ns.max(sent_ns));
        self.free_ns = now_ns;
        let error = if tag == b'E' { self.error.as_str() } else { "" };
        let is_same = against
            .tally
            .count(expected, &came, (rows.count, rows.sum), error);
        self.batch.push((self.expected - 1, is_same));
        self.batch_ns += busy_ns;
        let next = session.expected.get(self.expected);
        if !next.is_some_and(|next| is_together(expected, next)) {
            self.share_out(session, against.tally);
        }
        record(&mut against.tally.latency, now_ns.saturating_sub(intended_ns));
    }

    /// Executions of a batch share its time, as they do in the capture.
    fn share_out(&mut self, session: &Session, tally: &mut Tally) {
        let expected = |place: usize| &session.expected[place];
        let kinds = self.batch.iter().map(|(place, _)| &expected(*place).kind);
        let mut shares = Shares::new(std::mem::take(&mut self.batch_ns), kinds);
        for (place, is_same) in self.batch.drain(..) {
            let expected = expected(place);
            tally.took(expected, is_same, shares.next(&expected.kind));
        }
    }

    fn ready(&mut self, session: &Session, tally: &mut Tally, now_ns: u64) {
        self.share_out(session, tally);
        self.readies += 1;
        (self.is_in_copy, self.copies) = (false, 0);
        self.answers = 0;
        self.free_ns = now_ns;
        self.returned = 0;
        self.collector.take_rows();
        self.is_open = self.collector.body.first() != Some(&b'I');
        while let Some(expected) = session.expected.get(self.expected) {
            self.expected += 1;
            if expected.kind == Kind::Ready {
                break;
            }
            tally.count_missing(expected, "not executed, after an error before it");
        }
    }

    /// What the execution took then whose answer comes next, with those that are answered together with it; 0 where none
    /// does.
    pub fn awaited_ns(&self, session: &Session) -> u64 {
        let rest = session.expected.get(self.expected..).unwrap_or_default();
        let next = rest.chunk_by(is_together).next().unwrap_or_default();
        next.iter().map(|expected| expected.busy_ns).sum()
    }

    /// Whether all has come that came then.
    pub fn is_at_its_end(&self, session: &Session) -> bool {
        self.expected >= session.expected.len()
    }

    /// The session is over: what has not come will not come.
    pub fn finish(&mut self, session: &Session, tally: &mut Tally, why: &str) {
        self.share_out(session, tally);
        for expected in &session.expected[self.expected.min(session.expected.len())..] {
            if expected.kind != Kind::Ready {
                tally.count_missing(expected, why);
            }
        }
        self.expected = session.expected.len();
    }
}

/// The field M of an ErrorResponse.
fn message(body: &[u8]) -> String {
    let found = body
        .split(|byte| *byte == 0)
        .find_map(|field| field.strip_prefix(b"M"));
    String::from_utf8_lossy(found.unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Expected;

    fn session(expected: Vec<Expected>) -> Session {
        Session {
            begin_ns: 0,
            end_ns: None,
            parameters: Vec::new(),
            user: String::new(),
            database: String::new(),
            steps: Vec::new(),
            expected,
            cancels: Vec::new(),
            after_ended: 0,
            ended_place: None,
        }
    }

    #[test]
    fn executions_that_are_answered_together_share_their_time_as_in_the_capture() {
        let of = |family, batch| Expected {
            kind: Kind::Complete(std::sync::Arc::from(&b"SELECT"[..]), Some(1)),
            family,
            batch,
            ..Expected::ready()
        };
        // The last of the batch is refused, and the one behind it comes alone.
        let session = session(vec![
            of(0, 1),
            of(1, 1),
            Expected::ready(),
            of(1, 2),
            Expected::ready(),
        ]);
        let (plan, mut made, mut tally) = (Plan::default(), Made::default(), Tally::new(2));
        let steps = VecDeque::from([Sent {
            step: 0,
            over_readies: 1,
            intended_ns: 0,
            sent_ns: 0,
        }]);
        let mut answers = Answers::new();
        let done = b"C\0\0\0\x0dSELECT 1\0".as_slice();
        let ready = b"Z\0\0\0\x05I".as_slice();
        for (bytes, now_ns) in [
            (done, 600),
            (b"E\0\0\0\x0cC42P01\0\0", 600),
            (ready, 600),
            (done, 607),
        ] {
            let against = Against {
                plan: &plan,
                session: &session,
                steps: &steps,
                made: &mut made,
                tally: &mut tally,
            };
            answers.take(bytes, now_ns, against).unwrap();
        }
        let took = |family: usize| {
            let found = tally.families[family].as_deref().unwrap();
            (found.replayed_ns, found.same_ns)
        };
        assert_eq!([took(0), took(1)], [(300, 300), (307, 7)]);
    }

    #[test]
    fn behind_an_error_nobody_waits_for_answers_that_do_not_come() {
        let session = session(Vec::new());
        let (plan, mut made, mut tally) = (Plan::default(), Made::default(), Tally::new(0));
        let mut answers = Answers::new();
        let mut take = |answers: &mut Answers, bytes: &[u8]| {
            let against = Against {
                plan: &plan,
                session: &session,
                steps: &VecDeque::new(),
                made: &mut made,
                tally: &mut tally,
            };
            answers.take(bytes, 0, against).unwrap();
            (answers.readies, answers.answers)
        };
        // A client that prepares with Flush had three answers before it sent the Sync, and the server waits for that.
        assert!(take(&mut answers, b"E\0\0\0\x0cC42P01\0\0") > (0, 3));
        assert_eq!(take(&mut answers, b"Z\0\0\0\x05I"), (1, 0));
        assert_eq!(take(&mut answers, b"1\0\0\0\x04"), (1, 1));
        // It waits for data of COPY until it has an answer to it.
        take(&mut answers, b"G\0\0\0\x07\0\0\0");
        assert_eq!((answers.is_in_copy, answers.copies), (true, 1));
        take(&mut answers, b"C\0\0\0\x0bCOPY 1\0");
        assert_eq!((answers.is_in_copy, answers.copies), (false, 1));
        take(&mut answers, b"Z\0\0\0\x05I");
        assert_eq!(answers.copies, 0);
    }
}
