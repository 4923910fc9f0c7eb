//! What an observer asks of the server: pg_stat_activity and pg_aios, by statements that are prepared once.

use std::io::{self, Read, Write};
use std::time::Duration;

use bytes::BytesMut;
use pgassay_observe::document::AioRow;
use pgassay_observe::threads::Activities;
use pgassay_observe::{activity, aios};
use pgassay_protocol::{Answer, AnswerState, Failure, Parameters, requests};

use crate::connect::{self, Connection};

/// A server that does not answer by then is observed by /proc alone.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Formats of values, as the protocol counts them.
const TEXT: i16 = 0;
const BINARY: i16 = 1;

/// A connection and the requests that it repeats.
pub(crate) struct ServerQueries {
    connection: Connection,
    activity: BytesMut,
    /// None where this version has no pg_aios, or the role may not read it.
    aios: Option<BytesMut>,
}

impl ServerQueries {
    /// Connects, and prepares what this server can be asked.
    ///
    /// # Errors
    /// When the server can't be reached, or refuses to show pg_stat_activity.
    pub(crate) fn begin(parameters: &Parameters) -> Result<Self, Failure> {
        let mut connection = connect::open(parameters)?;
        connection.input.keep_rows(true);
        connection
            .socket
            .set_read_timeout(Some(ANSWER_TIMEOUT))
            .map_err(|error| Failure::client(error.to_string()))?;
        let mut queries = Self {
            connection,
            activity: BytesMut::new(),
            aios: None,
        };
        queries.activity = queries.prepare(activity::STATEMENT_NAME, activity::SQL, BINARY)?;
        let version = &queries.connection.session.server_version;
        let major = version
            .split(|c: char| !c.is_ascii_digit())
            .next()
            .unwrap_or_default();
        if major.parse().is_ok_and(|major: u32| major >= aios::MAJOR_MIN) {
            match queries.prepare(aios::STATEMENT_NAME, aios::SQL, TEXT) {
                Ok(request) => queries.aios = Some(request),
                Err(failure) if failure.fatal => return Err(failure),
                Err(_) => {}
            }
        }
        Ok(queries)
    }

    /// Prepares a statement and gives the request that executes it, for values in this format.
    fn prepare(&mut self, name: &str, sql: &str, format: i16) -> Result<BytesMut, Failure> {
        let mut prepare = BytesMut::new();
        requests::prepare(name, sql, [], &mut prepare)?;
        requests::sync(&mut prepare);
        let mut request = BytesMut::new();
        requests::execute_prepared(name, [], format, &mut request)?;
        let sent = self.connection.socket.write_all(&prepare).is_ok();
        let mut answer = Answer::default();
        while sent && self.read_some() {
            if let AnswerState::Ready(_) = answer.read(&mut self.connection.input)? {
                return answer.error.map_or(Ok(request), Err);
            }
        }
        Err(Failure::client("the connection for pg_stat_activity was lost"))
    }

    /// Asks what the processes do; whether that was possible.
    pub(crate) fn send_activity(&mut self) -> bool {
        self.connection.socket.write_all(&self.activity).is_ok()
    }

    fn read_some(&mut self) -> bool {
        match self.connection.socket.read(self.connection.input.space()) {
            Ok(count) if count > 0 => {
                self.connection.input.received(count);
                true
            }
            Err(error) => error.kind() == io::ErrorKind::Interrupted,
            Ok(_) => false,
        }
    }

    /// The rows by process; none once the connection is of no use.
    pub(crate) fn read_activity(&mut self) -> Option<Activities> {
        let mut activities = Activities::new();
        let is_whole = self.read_rows(|body| {
            let activity = activity::parse_row(body)?;
            activities.insert(activity.pid, activity);
            Some(())
        });
        is_whole.map(|()| activities)
    }

    /// What is being read asynchronously now; none where that can't be asked.
    pub(crate) fn reads_under_way(&mut self) -> Option<Vec<AioRow>> {
        let request = self.aios.as_ref()?;
        let mut rows = Vec::new();
        let sent = self.connection.socket.write_all(request).ok();
        let read = sent.and_then(|()| {
            self.read_rows(|body| {
                rows.push(aios::parse_row(body)?);
                Some(())
            })
        });
        if read.is_none() {
            // An error here (a right that was taken away) must not be asked for again.
            self.aios = None;
        }
        read.map(|()| rows)
    }

    /// Hands over the rows of an answer up to its end; none when it holds an error or something else.
    fn read_rows(&mut self, mut take: impl FnMut(&[u8]) -> Option<()>) -> Option<()> {
        let mut outcome = Some(());
        loop {
            while let Some(frame) = self.connection.input.next_frame().ok()? {
                match frame.tag {
                    b'D' => outcome = outcome.and(take(frame.body)),
                    b'Z' => return outcome,
                    b'E' => outcome = None,
                    _ => {}
                }
            }
            if !self.read_some() {
                return None;
            }
        }
    }

    /// The process that serves this connection.
    pub(crate) fn backend_pid(&self) -> i32 {
        self.connection.session.process_id
    }

    /// Ends the session.
    pub(crate) fn end(self) {
        self.connection.end();
    }
}
