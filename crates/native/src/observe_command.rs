//! `observe`: one specification in, a window of observations each output interval out, until standard input closes.

use std::io::{self, BufRead, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use bytes::BytesMut;
use pgassay_load::clock::{monotonic_ns, thread_cpu_ns};
use pgassay_observe::document::{
    AIO_COLUMNS, AioRow, ObserveCommand, ObserveSpec, THREAD_COLUMNS, ThreadRow, WAIT_COLUMNS, Window,
};
use pgassay_observe::tally::Tally;
use pgassay_observe::threads::{Activities, Threads};
use pgassay_observe::{activity, aios};
use pgassay_protocol::{Answer, AnswerState, Failure, Parameters, requests};
use serde_json::json;

use crate::connect::{self, Connection};
use crate::lines::{EXIT_FAILURE, EXIT_USAGE, write_line};

/// A server that does not answer by then is observed by /proc alone.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
const SECOND_NS: f64 = 1e9;
/// Formats of values, as the protocol counts them.
const TEXT: i16 = 0;
const BINARY: i16 = 1;

/// Runs the command and gives its exit status.
pub fn observe() -> i32 {
    let mut lines = io::stdin().lock().lines();
    let line = lines.next().and_then(Result::ok).unwrap_or_default();
    drop(lines);
    let spec = serde_json::from_str::<ObserveSpec>(&line)
        .map_err(|error| error.to_string())
        .and_then(|spec| spec.check().map(|()| spec));
    let spec = match spec {
        Ok(spec) => spec,
        Err(reason) => {
            let reason = format!("the JSON document on standard input can't be used: {reason}");
            write_line(&json!({ "error": Failure::client(reason) }));
            return EXIT_USAGE;
        }
    };
    let (sender, receiver) = channel();
    let reader = thread::Builder::new()
        .name("standard-input".to_owned())
        .spawn(move || {
            for line in io::stdin().lock().lines().map_while(Result::ok) {
                if let Ok(command) = serde_json::from_str::<ObserveCommand>(&line) {
                    if sender.send(command).is_err() {
                        break;
                    }
                }
            }
        });
    if let Err(error) = reader {
        write_line(&json!({ "error": Failure::client(error.to_string()) }));
        return EXIT_FAILURE;
    }
    let mut observer = Observer::new(&spec);
    observer.watch(spec.connect.as_ref(), spec.postmaster_pid);
    observer.run(&receiver);
    0
}

/// A connection and the requests that it repeats.
struct Asking {
    connection: Connection,
    activity: BytesMut,
    /// None where this version has no pg_aios, or the role may not read it.
    aios: Option<BytesMut>,
}

struct Observer {
    asking: Option<Asking>,
    threads: Option<Threads>,
    tally: Tally,
    interval_ns: u64,
    output_ns: u64,
    window_from_ns: u64,
    missed: u32,
    draws: u64,
}

impl Observer {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Both are checked to be small.
    fn new(spec: &ObserveSpec) -> Self {
        Self {
            asking: None,
            threads: None,
            tally: Tally::default(),
            interval_ns: (SECOND_NS / spec.rate_hz) as u64,
            output_ns: (SECOND_NS * spec.output_s) as u64,
            window_from_ns: monotonic_ns(),
            missed: 0,
            draws: monotonic_ns() | 1,
        }
    }

    /// Begins to observe a server, and says what of it can be seen.
    fn watch(&mut self, parameters: Option<&Parameters>, postmaster_pid: Option<i32>) {
        let mut reasons = Vec::new();
        self.asking = parameters.and_then(|parameters| {
            Asking::begin(parameters)
                .map_err(|failure| reasons.push(failure.message))
                .ok()
        });
        self.threads = postmaster_pid.and_then(|pid| {
            Threads::of_server(pid)
                .map_err(|error| reasons.push(format!("the threads of process {pid} can't be read: {error}")))
                .ok()
        });
        let own_pid = self
            .asking
            .as_ref()
            .map(|asking| asking.connection.session.process_id);
        if let (Some(threads), Some(pid)) = (&mut self.threads, own_pid) {
            threads.own_backend(pid);
        }
        write_line(&json!({ "ready": {
            "activity": self.asking.is_some(),
            "threads": self.threads.is_some(),
            "io": self.threads.as_ref().is_some_and(Threads::has_io),
            "backend_pid": own_pid,
            "reasons": reasons,
            "thread_columns": THREAD_COLUMNS,
            "wait_columns": WAIT_COLUMNS,
            "aio_columns": AIO_COLUMNS,
        }}));
        // The first reading only tells what each process is for.
        self.sample();
        self.tally.take();
        self.put_out(true);
    }

    fn run(&mut self, commands: &Receiver<ObserveCommand>) {
        let mut slot_ns = monotonic_ns();
        let mut sample_ns = slot_ns;
        let mut output_ns = self.window_from_ns + self.output_ns;
        loop {
            let next_ns = sample_ns.min(output_ns);
            let wait = Duration::from_nanos(next_ns.saturating_sub(monotonic_ns()));
            match commands.recv_timeout(wait) {
                Ok(ObserveCommand::Edge {}) => {
                    self.put_out(true);
                    output_ns = self.window_from_ns + self.output_ns;
                }
                Ok(ObserveCommand::Server {
                    connect,
                    postmaster_pid,
                }) => self.watch(connect.as_deref(), postmaster_pid),
                Ok(ObserveCommand::End {}) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let now_ns = monotonic_ns();
                    if now_ns >= sample_ns {
                        self.sample();
                        slot_ns += self.interval_ns;
                        // What took too long is left out and counted: two readings at once would be one.
                        while slot_ns + self.interval_ns <= monotonic_ns() {
                            slot_ns += self.interval_ns;
                            self.missed += 1;
                        }
                        sample_ns = slot_ns + self.draw(self.interval_ns);
                    }
                    if now_ns >= output_ns {
                        self.put_out(false);
                        output_ns = self.window_from_ns + self.output_ns;
                    }
                }
            }
        }
        self.put_out(true);
        self.say_goodbye();
        write_line(&json!({ "ended": { "observer_cpu_ns": thread_cpu_ns() } }));
    }

    /// A place within an interval, so that nothing periodic keeps step with the readings (Marsaglia's xorshift).
    fn draw(&mut self, limit: u64) -> u64 {
        self.draws ^= self.draws << 13;
        self.draws ^= self.draws >> 7;
        self.draws ^= self.draws << 17;
        self.draws % limit.max(1)
    }

    /// One reading: the server answers while the files are read, so that both are of one moment.
    fn sample(&mut self) {
        let asked = self.asking.as_mut().is_some_and(Asking::ask);
        if let Some(threads) = &mut self.threads {
            threads.read_states();
        }
        let activities = match (&mut self.asking, asked) {
            (Some(asking), true) => asking.answer(),
            _ => None,
        };
        if activities.is_none() {
            self.asking = None;
        }
        self.tally.begin_sample();
        match &mut self.threads {
            Some(threads) => threads.count(activities.as_ref(), &mut self.tally),
            None => {
                for activity in activities.iter().flatten().map(|(_, activity)| activity) {
                    let ids = (activity.pid, activity.pid);
                    self.tally.see(ids, activity.kind, '-', Some(activity));
                }
            }
        }
    }

    fn put_out(&mut self, edge: bool) {
        let threads: Vec<ThreadRow> = self
            .threads
            .as_mut()
            .map(Threads::read_counters)
            .unwrap_or_default();
        let aios = self.asking.as_mut().and_then(Asking::reads_under_way);
        let (samples, waits) = self.tally.take();
        let clock_ns = monotonic_ns();
        let window = Window {
            from_ns: self.window_from_ns,
            clock_ns,
            edge,
            samples,
            missed: std::mem::take(&mut self.missed),
            threads,
            waits,
            aios: aios.unwrap_or_default(),
        };
        self.window_from_ns = clock_ns;
        write_line(&json!({ "window": window }));
    }

    fn say_goodbye(&mut self) {
        if let Some(mut asking) = self.asking.take() {
            let mut goodbye = BytesMut::new();
            requests::terminate(&mut goodbye);
            // The server may be gone already, which is as good.
            let _ = asking.connection.socket.write_all(&goodbye);
            asking.connection.socket.shut_down();
        }
    }
}

impl Asking {
    fn begin(parameters: &Parameters) -> Result<Self, Failure> {
        let mut connection = connect::open(parameters)?;
        connection.input.keep_rows();
        connection
            .socket
            .set_read_timeout(Some(ANSWER_TIMEOUT))
            .map_err(|error| Failure::client(error.to_string()))?;
        let mut asking = Self {
            connection,
            activity: BytesMut::new(),
            aios: None,
        };
        asking.activity = asking.prepare(activity::STATEMENT_NAME, activity::SQL, BINARY)?;
        let version = &asking.connection.session.server_version;
        let major = version
            .split(|c: char| !c.is_ascii_digit())
            .next()
            .unwrap_or_default();
        if major.parse().is_ok_and(|major: u32| major >= aios::MAJOR_MIN) {
            match asking.prepare(aios::STATEMENT_NAME, aios::SQL, TEXT) {
                Ok(request) => asking.aios = Some(request),
                Err(failure) if failure.fatal => return Err(failure),
                Err(_) => {}
            }
        }
        Ok(asking)
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
    fn ask(&mut self) -> bool {
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
    fn answer(&mut self) -> Option<Activities> {
        let mut activities = Activities::new();
        let is_whole = self.read_rows(|body| {
            let activity = activity::parse_row(body)?;
            activities.insert(activity.pid, activity);
            Some(())
        });
        is_whole.map(|()| activities)
    }

    /// What is being read asynchronously now; none where that can't be asked.
    fn reads_under_way(&mut self) -> Option<Vec<AioRow>> {
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
}
