//! `observe`: one specification in, a window of observations each output interval out, until standard input closes.

use std::io::{self, BufRead};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use pgassay_load::clock::{monotonic_ns, thread_cpu_ns};
use pgassay_observe::document::{
    AIO_COLUMNS, ObserveCommand, ObserveSpec, THREAD_COLUMNS, ThreadRow, WAIT_COLUMNS, Window,
};
use pgassay_observe::tally::Tally;
use pgassay_observe::threads::Threads;
use pgassay_protocol::{Failure, Parameters};
use serde_json::json;

use crate::lines::{EXIT_FAILURE, EXIT_USAGE, write_line};
use crate::server_queries::ServerQueries;

const SECOND_NS: f64 = 1e9;

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

struct Observer {
    queries: Option<ServerQueries>,
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
            queries: None,
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
        self.queries = parameters.and_then(|parameters| {
            ServerQueries::begin(parameters)
                .map_err(|failure| reasons.push(failure.message))
                .ok()
        });
        self.threads = postmaster_pid.and_then(|pid| {
            Threads::of_server(pid)
                .map_err(|error| reasons.push(format!("the threads of process {pid} can't be read: {error}")))
                .ok()
        });
        let own_pid = self.queries.as_ref().map(|queries| queries.backend_pid());
        if let (Some(threads), Some(pid)) = (&mut self.threads, own_pid) {
            threads.own_backend(pid);
        }
        write_line(&json!({ "ready": {
            "activity": self.queries.is_some(),
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
        self.write_window(true);
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
                    self.write_window(true);
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
                        self.write_window(false);
                        output_ns = self.window_from_ns + self.output_ns;
                    }
                }
            }
        }
        self.write_window(true);
        if let Some(queries) = self.queries.take() {
            queries.end();
        }
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
        let was_sent = self.queries.as_mut().is_some_and(ServerQueries::send_activity);
        if let Some(threads) = &mut self.threads {
            threads.read_states();
        }
        let activities = match (&mut self.queries, was_sent) {
            (Some(queries), true) => queries.read_activity(),
            _ => None,
        };
        if activities.is_none() {
            self.queries = None;
        }
        self.tally.begin_sample();
        match &mut self.threads {
            Some(threads) => threads.count(activities.as_ref(), &mut self.tally),
            None => {
                for activity in activities.iter().flatten().map(|(_, activity)| activity) {
                    let ids = (activity.pid, activity.pid);
                    self.tally.count(ids, activity.kind, '-', Some(activity));
                }
            }
        }
    }

    fn write_window(&mut self, edge: bool) {
        let threads: Vec<ThreadRow> = self
            .threads
            .as_mut()
            .map(Threads::read_counters)
            .unwrap_or_default();
        let aios = self.queries.as_mut().and_then(ServerQueries::reads_under_way);
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
}
