//! One session while the capture is read: its steps, and which answer belongs to which statement.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use pgassay_capture::format::bind::name;
use pgassay_capture::format::event::{Answer, Message, Rows};

use super::batches::share_out;
use super::messages::{Touched, write};
use super::order::{Begun, Order};
use super::parts::{Expected, Kind, Returned, Session, Span, Step};
use super::requests::{Descriptions, Portal, Request, described, hangs_on_timing, syncs_in_copy};
use super::shared::{Shared, span};
use super::texts::{InSql, Text};
use super::values::Last;

mod followed;

/// A session while it is read.
pub struct Reading {
    pub session: Session,
    /// Its number in the capture.
    pub number: u32,
    database: String,
    database_number: u32,
    requests: VecDeque<Request>,
    statements: HashMap<Vec<u8>, Arc<Text>>,
    in_sql: InSql,
    portals: HashMap<Vec<u8>, Portal>,
    descriptions: Descriptions<u32>,
    begun: VecDeque<(u32, Begun)>,
    /// Whether an execution was sent, and no Sync behind it.
    is_running: bool,
    /// The queues' counts when the first of them was.
    before: Vec<u32>,
    /// The step that waits for all of them.
    first: usize,
    written: Vec<u32>,
    /// What lastval() tells of.
    last: Option<Last>,
    /// By table, how far the open transaction's writes reach in the order of writes.
    reaches: HashMap<u32, u32>,
    syncs: u32,
    /// Counts Syncs and Flushes.
    batch: u32,
    readies: u32,
    answers: u32,
    free_ns: u64,
    made: Vec<Returned>,
    columns: Option<u32>,
}

impl Reading {
    pub fn new(session: Session, number: u32, database: String, database_number: u32) -> Self {
        Self {
            session,
            number,
            database,
            database_number,
            requests: VecDeque::new(),
            statements: HashMap::new(),
            in_sql: InSql::new(),
            portals: HashMap::new(),
            descriptions: Descriptions::default(),
            begun: VecDeque::new(),
            is_running: false,
            before: Vec::new(),
            first: 0,
            written: Vec::new(),
            last: None,
            reaches: HashMap::new(),
            syncs: 0,
            batch: 1,
            readies: 0,
            answers: 0,
            free_ns: 0,
            made: Vec::new(),
            columns: None,
        }
    }

    pub fn cancelled(&mut self, at_ns: u64) {
        self.session.cancels.push((at_ns, self.readies));
    }

    /// Messages that went out together are a step.
    pub fn sent(&mut self, messages: &[Message], at_ns: u64, shared: &mut Shared<'_>) {
        let from = shared.plan.bytes.len() as u64;
        let places_from = shared.plan.places.len();
        let mut touched = Touched::default();
        let waited = (self.readies, self.answers);
        let mut needs_sync = false;
        let was_running = self.is_running;
        for message in messages {
            if matches!(message.tag, b'd' | b'c' | b'f') {
                self.syncs = syncs_in_copy(self.requests.back(), self.syncs);
            }
            needs_sync = match message.tag {
                b'Q' | b'S' | b'F' => {
                    self.syncs += 1;
                    false
                }
                // Its answer is the end of the connection.
                b'X' => false,
                _ => true,
            };
            self.is_running = match message.tag {
                b'E' => true,
                b'Q' | b'S' | b'F' | b'X' => false,
                _ => self.is_running,
            };
            self.batch += u32::from(matches!(message.tag, b'S' | b'H'));
            self.message(message, at_ns, &mut touched, shared);
        }
        let is_plain = touched.runs && !touched.is_locking && touched.written.is_empty();
        let leads = |first: &Message| matches!(first.tag, b'd' | b'c' | b'f');
        let is_data = !touched.runs && messages.first().is_some_and(leads);
        let is_within = was_running || is_data;
        let begun = self.begin(&touched, is_plain, (was_running, is_data), shared);
        if touched.commits {
            shared.order.commit(&self.reaches);
        }
        let over_readies = self.syncs + u32::from(needs_sync);
        self.session.steps.push(Step {
            at_ns,
            from,
            to: shared.plan.bytes.len() as u64,
            readies: waited.0,
            answers: waited.1,
            over_readies,
            waits: Span::default(),
            marks: Span::default(),
            places: span(places_from, shared.plan.places.len()),
            is_plain,
            is_within,
        });
        self.begun.push_back((over_readies, begun));
    }

    /// What the next step waits for. Before the Sync an earlier step's answers are not there, and its locks are held: no
    /// step waits then for other sessions. The first does it for all, for what was done before it was sent.
    fn begin(
        &mut self,
        touched: &Touched,
        is_plain: bool,
        (was_running, is_data): (bool, bool),
        shared: &mut Shared<'_>,
    ) -> Begun {
        let number = self.session.steps.len();
        if self.is_running && !was_running {
            shared.order.remember(&mut self.before);
        }
        // Data wait for nothing but their COPY.
        let open: &[u32] = if is_data { &[] } else { &self.written };
        let tables = (&touched.touched[..], &touched.written[..], open);
        let before = was_running.then_some(self.before.as_slice());
        let mut begun = shared.order.begin(number, tables, is_plain, before);
        begun.is_within = was_running || is_data;
        if !begun.is_within {
            self.first = number;
            return begun;
        }
        let over = number - self.begun.len();
        let first = self.first.checked_sub(over);
        if let Some((_, first)) = first.and_then(|place| self.begun.get_mut(place)) {
            first.take_waits(&mut begun);
        }
        begun
    }

    fn message(&mut self, message: &Message, at_ns: u64, touched: &mut Touched, shared: &mut Shared<'_>) {
        let start = shared.plan.bytes.len() as u64;
        let step = u32::try_from(self.session.steps.len()).unwrap_or(u32::MAX);
        match (message.tag, &message.text) {
            (b'Q', Some(text)) => {
                let text = shared.texts.followed(&self.database, text, &mut self.in_sql);
                write(message, text.has_secret, &mut shared.plan.bytes);
                touched.add(&text);
                self.literals(&text, message, (start, 0), shared);
                self.ask(Some(text), step, at_ns, true, None);
            }
            (b'P', Some(text)) => {
                let text = shared.texts.followed(&self.database, text, &mut self.in_sql);
                write(message, text.has_secret, &mut shared.plan.bytes);
                let statement = name(&message.body);
                self.literals(&text, message, (start, statement.len() + 1), shared);
                self.statements.insert(statement.to_vec(), text);
            }
            (b'B', _) => {
                write(message, false, &mut shared.plan.bytes);
                self.bind(message, start, shared);
            }
            (b'E', _) => {
                write(message, false, &mut shared.plan.bytes);
                let portal = self.portals.get(name(&message.body)).cloned();
                let text = portal.as_ref().map(|portal| Arc::clone(&portal.text));
                if let Some(text) = &text {
                    touched.add(text);
                }
                self.ask(text, step, at_ns, false, portal);
            }
            (b'D', _) => {
                write(message, false, &mut shared.plan.bytes);
                let family = described(&message.body, &self.statements, &self.portals);
                self.descriptions.ask(self.syncs + 1, family);
            }
            (b'F', _) => {
                write(message, false, &mut shared.plan.bytes);
                self.ask(None, step, at_ns, true, None);
            }
            _ if message.left_out_bytes.is_some() => {
                if let Some(request) = self.requests.back_mut() {
                    request.is_lacking = true;
                }
            }
            _ => write(message, false, &mut shared.plan.bytes),
        }
    }

    fn ask(
        &mut self,
        text: Option<Arc<Text>>,
        step: u32,
        sent_ns: u64,
        is_query: bool,
        portal: Option<Portal>,
    ) {
        let is_lacking = text.as_ref().is_none_or(|text| text.has_secret);
        self.requests.push_back(Request {
            text: text.unwrap_or_default(),
            is_query,
            step,
            cycle: self.syncs + u32::from(!is_query),
            batch: if is_query { 0 } else { self.batch },
            sent_ns,
            is_lacking,
            portal,
        });
    }

    /// Answers that came together.
    pub fn answered(&mut self, answers: &[Answer], at_ns: u64, shared: &mut Shared<'_>) {
        for answer in answers {
            match answer {
                // Notifications come when they come.
                Answer::Plain(b'A') => continue,
                Answer::Description(b'T', body) => {
                    let query = self.requests.front().map(|request| request.text.family);
                    self.descriptions.came(self.readies + 1, query, Some(body));
                    self.columns = None;
                }
                Answer::Plain(b'n') => self.descriptions.came(self.readies + 1, None, None),
                Answer::Row(row) => {
                    self.row(row, shared);
                    continue;
                }
                Answer::Complete { tag, affected, rows } => {
                    let kind = Kind::Complete(Arc::clone(tag), *affected);
                    self.ended(kind, *rows, at_ns, shared);
                }
                Answer::Suspended(rows) => self.ended(Kind::Suspended, *rows, at_ns, shared),
                Answer::Error { sqlstate, rows } => self.ended(Kind::Error(*sqlstate), *rows, at_ns, shared),
                Answer::FunctionResult(rows) => self.ended(Kind::Other(b'V'), *rows, at_ns, shared),
                Answer::Plain(b'I') => self.ended(Kind::Other(b'I'), Rows::default(), at_ns, shared),
                Answer::Unknown => self.ended(Kind::Unknown, Rows::default(), at_ns, shared),
                Answer::Ready(status) => {
                    self.ready(*status, at_ns, shared);
                    continue;
                }
                Answer::Plain(_) | Answer::Description(..) => {}
            }
            self.answers += 1;
        }
    }

    fn ended(&mut self, kind: Kind, rows: Rows, at_ns: u64, shared: &mut Shared<'_>) {
        let columns = self.columns.take();
        let Some(request) = self.requests.front() else {
            return;
        };
        let returned_from = shared.plan.returned.len();
        shared.plan.returned.append(&mut self.made);
        let returned = span(returned_from, shared.plan.returned.len());
        let expected = Expected {
            family: request.text.family,
            rows: rows.count,
            sum: rows.sum,
            busy_ns: at_ns.saturating_sub(self.free_ns.max(request.sent_ns)),
            step: request.step,
            batch: request.batch,
            returned,
            columns: columns.unwrap_or(u32::MAX),
            is_lacking: request.is_lacking || hangs_on_timing(&kind),
            kind,
        };
        self.free_ns = at_ns;
        shared.plan.longest_ns = shared.plan.longest_ns.max(expected.busy_ns);
        let is_error = matches!(expected.kind, Kind::Error(_));
        if !is_error {
            let portal = request.portal.as_ref();
            let names = portal.map_or(&request.text.names, |portal| &portal.names);
            self.last = Last::after(&request.text, names).or(self.last.take());
        }
        self.session.expected.push(expected);
        let (is_query, cycle) = (request.is_query, request.cycle);
        if !is_query {
            self.requests.pop_front();
            // The server skips to the next Sync.
            while is_error && self.requests.front().is_some_and(|next| next.cycle == cycle) {
                self.requests.pop_front();
            }
        }
    }

    fn ready(&mut self, status: u8, at_ns: u64, shared: &mut Shared<'_>) {
        // A query may have had several statements; the requests of a pipeline are over one by one.
        if self.requests.front().is_some_and(|request| request.is_query) {
            self.requests.pop_front();
        }
        self.readies += 1;
        self.descriptions.skip(self.readies);
        self.answers = 0;
        self.columns = None;
        self.free_ns = at_ns;
        self.session.expected.push(Expected::ready());
        let mut over = Vec::new();
        while self
            .begun
            .front()
            .is_some_and(|(over_readies, _)| *over_readies <= self.readies)
        {
            over.extend(self.begun.pop_front());
        }
        for (_, begun) in &over {
            self.written.extend(&begun.written);
        }
        self.written.sort_unstable();
        self.written.dedup();
        let is_committed = status == b'I';
        let last = over.len().saturating_sub(1);
        let first = over
            .iter()
            .rposition(|(_, begun)| !begun.is_within)
            .unwrap_or(last);
        for (index, (_, begun)) in over.into_iter().enumerate() {
            let committed: &[u32] = match is_committed && index == last {
                true => &self.written,
                false => &[],
            };
            let is_of_commit = is_committed && index >= first;
            let (reaches, plan) = (&mut self.reaches, &mut shared.plan);
            let settled = shared.order.over(begun, is_of_commit, committed, reaches, plan);
            self.settle(settled);
        }
        if is_committed {
            self.written.clear();
            self.reaches.clear();
        }
    }

    fn settle(&mut self, (step, waits, marks): (usize, Span, Span)) {
        let step = &mut self.session.steps[step];
        (step.waits, step.marks) = (waits, marks);
    }

    /// The session is over, or the capture.
    pub fn finish(&mut self, shared: &mut Shared<'_>) {
        share_out(&mut self.session.expected);
        for (_, begun) in std::mem::take(&mut self.begun) {
            let settled = Order::left(&begun, &mut shared.plan);
            self.settle(settled);
        }
    }
}
