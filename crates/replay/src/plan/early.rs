//! A replay that begins in the middle: what a session had set up by then, and when it is between two transactions.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use pgassay_capture::format::bind::name;
use pgassay_capture::format::event::{Answer, Event, Message, Rows, What};
use pgassay_capture::lexer::{Kind, Token, names_behind, token};

use super::requests::Descriptions;

/// Statements that change the session and no data.
const SETTING: [&str; 6] = [
    "set ",
    "reset ",
    "listen ",
    "unlisten ",
    "prepare ",
    "deallocate ",
];
/// Of these the first word alone looks as if they did.
const OF_TRANSACTION: [&str; 3] = ["set local ", "set transaction ", "set constraints "];
/// So begins a SELECT that sets parameters of the session.
const CONFIGURING: [&str; 2] = ["select set_config(", "select pg_catalog.set_config("];
const FORGETS: &str = "discard all";
const CLOSES: &str = "deallocate";

/// Messages of a client, and what a server answers to them.
pub type Exchange = (Vec<Message>, Vec<Answer>);

/// What becomes of an event.
pub enum Held {
    /// It is played.
    No,
    /// Its session is not played yet.
    Still,
    /// Its session ended before.
    Ended,
    /// It is the session's first that is played, behind what sets the session up.
    Begins(Vec<Exchange>),
}

/// The sessions that have not sent anything of the part that is played.
pub struct Earlier {
    /// When that part begins, nanoseconds of the capture.
    pub first_ns: u64,
    sessions: HashMap<u32, Early>,
}

impl Earlier {
    /// None yet.
    pub fn new(first_ns: u64) -> Self {
        Self {
            first_ns,
            sessions: HashMap::new(),
        }
    }

    /// A session begins; gives when it does so in what is played.
    pub fn begun(&mut self, event: &Event) -> u64 {
        if event.at_ns < self.first_ns {
            self.sessions.insert(event.session, Early::default());
        }
        event.at_ns.max(self.first_ns)
    }

    /// Takes an event of a session that has begun.
    pub fn holds(&mut self, event: &Event) -> Held {
        let Some(session) = self.sessions.get_mut(&event.session) else {
            return Held::No;
        };
        let is_before = event.at_ns < self.first_ns;
        match &event.what {
            What::End(_) if is_before => {
                self.sessions.remove(&event.session);
                Held::Ended
            }
            What::Messages(_) if !is_before && session.is_idle() => {
                let steps = session.setup();
                self.sessions.remove(&event.session);
                Held::Begins(steps)
            }
            What::End(_) => Held::No,
            what => {
                session.take(what);
                Held::Still
            }
        }
    }
}

/// A session before the part that is played.
#[derive(Default)]
struct Early {
    /// Named statements as they were prepared.
    statements: BTreeMap<Vec<u8>, Message>,
    portals: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Statements that set the session up, in their order.
    setting: Vec<Arc<[u8]>>,
    /// Requests whose ReadyForQuery has not come.
    waiting: u32,
    readies: u32,
    /// Of named statements, by their names.
    descriptions: Descriptions<Vec<u8>>,
    /// The types of the last two messages.
    latest: [u8; 2],
    is_in_transaction: bool,
}

impl Early {
    /// Whether it is between two transactions and waits for nothing.
    fn is_idle(&self) -> bool {
        self.waiting == 0 && !self.is_in_transaction
    }

    fn take(&mut self, what: &What) {
        match what {
            What::Messages(messages) => self.sent(messages),
            What::Answers(answers) => self.answered(answers),
            _ => {}
        }
    }

    fn sent(&mut self, messages: &[Message]) {
        for message in messages {
            // A Sync that was sent behind the COPY itself is read as a part of its data and ignored.
            if matches!(message.tag, b'd' | b'c' | b'f') && self.latest == *b"ES" {
                self.waiting = self.waiting.saturating_sub(1);
            }
            self.latest = [self.latest[1], message.tag];
            match (message.tag, &message.text) {
                (b'Q', Some(text)) => {
                    self.waiting += 1;
                    self.executed(text);
                }
                (b'P', Some(_)) => {
                    let statement = name(&message.body).to_vec();
                    self.descriptions.forget(&statement);
                    self.statements.insert(statement, message.clone());
                }
                (b'D', _) => {
                    let over_readies = self.readies + self.waiting + 1;
                    let statement = message.body.strip_prefix(b"S");
                    self.descriptions
                        .ask(over_readies, statement.map(|rest| name(rest).to_vec()));
                }
                (b'B', _) => {
                    let portal = name(&message.body);
                    let statement = name(message.body.get(portal.len() + 1..).unwrap_or_default());
                    self.portals.insert(portal.to_vec(), statement.to_vec());
                }
                (b'E', _) => {
                    let statement = self.portals.get(name(&message.body));
                    let text = statement.and_then(|name| self.statements.get(name)?.text.clone());
                    if let Some(text) = text.filter(|text| !text.contains(&b'$')) {
                        self.executed(&text);
                    }
                }
                (b'C', _) if message.body.first() == Some(&b'S') => {
                    self.statements.remove(name(&message.body[1..]));
                }
                (b'S' | b'F', _) => self.waiting += 1,
                _ => {}
            }
        }
    }

    fn answered(&mut self, answers: &[Answer]) {
        for answer in answers {
            match answer {
                Answer::Ready(status) => {
                    self.waiting = self.waiting.saturating_sub(1);
                    self.is_in_transaction = *status != b'I';
                    self.readies += 1;
                    self.descriptions.skip(self.readies);
                }
                Answer::Description(b'T', body) => {
                    self.descriptions.came(self.readies + 1, None, Some(body));
                }
                Answer::Plain(b'n') => self.descriptions.came(self.readies + 1, None, None),
                _ => {}
            }
        }
    }

    /// Takes the statements of a text one by one: what else stands beside a SET is done, and not done again.
    fn executed(&mut self, text: &[u8]) {
        for statement in statements_of(text) {
            self.executed_one(&Arc::from(statement));
        }
    }

    fn executed_one(&mut self, text: &Arc<[u8]>) {
        let start = String::from_utf8_lossy(&text[..text.len().min(32)]).to_ascii_lowercase();
        if start.starts_with(FORGETS) {
            self.setting.clear();
            self.statements.clear();
        } else if start.starts_with(CLOSES) && self.closed(text) {
            // Nothing is left to be closed.
        } else if (SETTING.iter().any(|word| start.starts_with(word))
            && !OF_TRANSACTION.iter().any(|word| start.starts_with(word)))
            || (CONFIGURING.iter().any(|word| start.starts_with(word)) && calls_nothing_else(text))
        {
            // The last of equal ones counts, behind what came between.
            self.setting.retain(|known| subject(known) != subject(text));
            self.setting.push(Arc::clone(text));
        }
    }

    /// Takes out what DEALLOCATE closes: all statements, or one of the protocol's; whether it was such a one.
    fn closed(&mut self, text: &[u8]) -> bool {
        let behind = |word| names_behind(text, word).into_iter().next();
        match behind("prepare").or_else(|| behind(CLOSES)) {
            Some(name) if name == b"all" => {
                let is_prepared = |text: &[u8], word: &str| {
                    text.get(..word.len())
                        .is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
                };
                self.statements.clear();
                self.setting
                    .retain(|text| !is_prepared(text, "prepare ") && !is_prepared(text, CLOSES));
                true
            }
            Some(name) => self.statements.remove(&name).is_some(),
            None => false,
        }
    }

    /// What is sent to have the session as it was, and what a server answers to it.
    fn setup(&self) -> Vec<Exchange> {
        let mut steps: Vec<_> = self.setting.iter().map(query).collect();
        let (mut prepared, mut answers) = (Vec::new(), Vec::new());
        for (statement, parse) in self.statements.iter().filter(|(name, _)| !name.is_empty()) {
            prepared.push(parse.clone());
            answers.push(Answer::Plain(b'1'));
            // Whoever asked for the columns then does not ask again.
            if let Some(body) = self.descriptions.get(statement) {
                let asked = [&b"S"[..], statement, b"\0"].concat();
                prepared.push(message(b'D', asked, None));
                answers.push(Answer::Description(b'T', Arc::clone(body)));
            }
            // One that the server refuses, as it did then, takes no other with it.
            answers.push(Answer::Ready(b'I'));
            prepared.push(message(b'S', Vec::new(), None));
        }
        if !prepared.is_empty() {
            steps.push((prepared, answers));
        }
        steps
    }
}

/// The statements of a text, without spaces and comments before them.
fn statements_of(text: &[u8]) -> Vec<&[u8]> {
    let mut found: Vec<&[u8]> = Vec::new();
    let (mut from, mut at, mut escapes): (Option<usize>, usize, bool) = (None, 0, false);
    while at < text.len() {
        let Token { kind, length } = token(&text[at..], escapes);
        let bytes = &text[at..at + length];
        escapes = matches!(kind, Kind::Word) && matches!(bytes, b"e" | b"E");
        match kind {
            Kind::Space => {}
            Kind::Other if bytes == b";" => found.extend(from.take().map(|from| &text[from..at])),
            _ => from = from.or(Some(at)),
        }
        at += length;
    }
    found.extend(from.map(|from| &text[from..]));
    found
}

/// What a statement sets, as far as a later one undoes it: all before the value; else the statement itself.
fn subject(text: &[u8]) -> &[u8] {
    let begins = |word: &[u8]| {
        text.get(..word.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    let is_one = text.iter().filter(|byte| **byte == b'(').count() <= 1;
    let value = text.iter().position(|byte| b"=,".contains(byte));
    match value {
        Some(end) if is_one && (begins(b"set ") || begins(b"select ")) => &text[..end],
        _ => text,
    }
}

/// Whether all that a SELECT of set_config() calls is that.
fn calls_nothing_else(text: &[u8]) -> bool {
    let lower = text.to_ascii_lowercase();
    let calls = lower.windows(11).filter(|bytes| *bytes == b"set_config(").count();
    calls == lower.iter().filter(|byte| **byte == b'(').count()
}

fn query(text: &Arc<[u8]>) -> Exchange {
    let body = [&text[..], b"\0"].concat();
    let tag: &[u8] = match text.trim_ascii_start().first().map(u8::to_ascii_uppercase) {
        Some(b'R') => b"RESET",
        Some(b'L') => b"LISTEN",
        Some(b'U') => b"UNLISTEN",
        Some(b'P') => b"PREPARE",
        Some(b'D') => b"DEALLOCATE",
        _ => b"SET",
    };
    let ended = match text
        .get(..6)
        .is_some_and(|word| word.eq_ignore_ascii_case(b"select"))
    {
        // What set_config() gives back is not compared.
        true => Answer::Unknown,
        false => Answer::Complete {
            tag: Arc::from(tag),
            affected: None,
            rows: Rows::default(),
        },
    };
    (
        vec![message(b'Q', body, Some(Arc::clone(text)))],
        vec![ended, Answer::Ready(b'I')],
    )
}

fn message(tag: u8, body: Vec<u8>, text: Option<Arc<[u8]>>) -> Message {
    Message {
        tag,
        body,
        text,
        left_out_bytes: None,
    }
}
