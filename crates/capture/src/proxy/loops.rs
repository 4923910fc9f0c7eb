//! The loop that moves all bytes: epoll, one thread.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token, Waker};

use super::pair::{Pair, Surroundings};
use super::queue::{Queue, Totals};
use super::recording::Recorder;
use super::settings::Settings;
use super::stream::Stream;
use crate::format::event::EndReason;

const LISTENER: Token = Token(0);
const STOP: Token = Token(1);
const SCRATCH_BYTES: usize = 64 << 10;
/// What was recorded is handed on at the latest after so long.
const TURN: Duration = Duration::from_millis(50);
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// As the server's own authentication_timeout.
const WAITING_NS_MAX: u64 = 60_000_000_000;

/// Ends the proxy from another thread.
#[derive(Clone)]
pub struct Stopper(Arc<Waker>);

impl Stopper {
    /// Asks the proxy to end.
    pub fn stop(&self) {
        // Where it fails there is no loop any more.
        let _ = self.0.wake();
    }
}

/// A proxy that listens.
pub struct Proxy {
    settings: Settings,
    poll: Poll,
    listener: TcpListener,
    stopper: Stopper,
    recorder: Recorder,
    started: Instant,
    /// Time 0, nanoseconds of Unix time.
    pub started_unix_ns: u64,
    pairs: Vec<Option<Box<Pair>>>,
    free: Vec<usize>,
    keys: HashMap<Vec<u8>, u32>,
}

impl Proxy {
    /// Listens, and makes the capture's folder.
    ///
    /// # Errors
    /// When the address is taken or the folder can't be written.
    pub fn start(settings: Settings) -> io::Result<Self> {
        let poll = Poll::new()?;
        let mut listener = TcpListener::bind(settings.listen).map_err(|error| {
            let text = format!("{} can't be listened on: {error}", settings.listen);
            io::Error::new(error.kind(), text)
        })?;
        poll.registry()
            .register(&mut listener, LISTENER, Interest::READABLE)?;
        let stopper = Stopper(Arc::new(Waker::new(poll.registry(), STOP)?));
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let started_unix_ns = u64::try_from(unix.as_nanos()).unwrap_or(0);
        let queue = Queue::start(&settings.folder, started_unix_ns).map_err(|error| {
            let text = format!("{} can't be written: {error}", settings.folder.display());
            io::Error::new(error.kind(), text)
        })?;
        let recorder = Recorder::new(queue, settings.queue_bytes_max);
        Ok(Self {
            settings,
            poll,
            listener,
            stopper,
            recorder,
            started: Instant::now(),
            started_unix_ns,
            pairs: Vec::new(),
            free: Vec::new(),
            keys: HashMap::new(),
        })
    }

    /// Where it listens: the port too, where 0 was asked for.
    ///
    /// # Errors
    /// When the system doesn't say.
    pub fn address(&self) -> io::Result<std::net::SocketAddr> {
        self.listener.local_addr()
    }

    /// What ends it.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Passes on and records until it is stopped; gives the last numbers when all is written.
    ///
    /// # Errors
    /// When the system has no more events.
    pub fn run(mut self, mut report: impl FnMut(&Totals)) -> io::Result<Totals> {
        let mut events = Events::with_capacity(1024);
        let mut scratch = vec![0; SCRATCH_BYTES];
        let mut again: Vec<usize> = Vec::new();
        let mut reported = Instant::now();
        loop {
            let wait = match (again.is_empty(), self.recorder.has_waiting()) {
                (false, _) => Duration::ZERO,
                (true, true) => TURN,
                (true, false) => REPORT_INTERVAL,
            };
            let polled = self.poll.poll(&mut events, Some(wait));
            match polled {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                outcome => outcome?,
            }
            let mut touched = std::mem::take(&mut again);
            let mut stops = false;
            for event in &events {
                match event.token() {
                    LISTENER => self.accept(&mut touched),
                    STOP => stops = true,
                    Token(number) => {
                        let (place, is_server) = ((number - 2) / 2, number % 2 == 1);
                        if let Some(Some(pair)) = self.pairs.get_mut(place) {
                            let is_closed = event.is_read_closed() || event.is_error();
                            pair.woken(is_server, event.is_readable(), is_closed);
                            touched.push(place);
                        }
                    }
                }
            }
            if events.is_empty() {
                self.recorder.hand_on();
            }
            for place in touched {
                if self.step(place, &mut scratch, None) {
                    again.push(place);
                }
            }
            if reported.elapsed() >= REPORT_INTERVAL {
                reported = Instant::now();
                self.end_idle(&mut scratch);
                // After a lack of file descriptors nothing tells that there are some again.
                self.accept(&mut again);
                self.recorder.hand_on();
                report(&self.totals());
            }
            if stops {
                return Ok(self.end(&mut scratch));
            }
        }
    }

    fn totals(&self) -> Totals {
        let mut totals = self.recorder.totals();
        totals.open = (self.pairs.len() - self.free.len()) as u64;
        totals
    }

    fn accept(&mut self, touched: &mut Vec<usize>) {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                    ) =>
                {
                    continue;
                }
                // None waits, or there is no file descriptor left: it is tried again each second.
                Err(_) => return,
            };
            let _ = stream.set_nodelay(true);
            let place = self.free.pop().unwrap_or_else(|| {
                self.pairs.push(None);
                self.pairs.len() - 1
            });
            let now_ns = nanoseconds(self.started);
            match Stream::tcp(stream, Token(2 + 2 * place), self.poll.registry()) {
                Ok(client) => {
                    self.pairs[place] = Some(Box::new(Pair::new(client, Token(3 + 2 * place), now_ns)));
                    touched.push(place);
                }
                Err(_) => self.free.push(place),
            }
        }
    }

    /// Lets a pair do what it can, or ends it; whether it has more to do at once.
    fn step(&mut self, place: usize, scratch: &mut [u8], ends: Option<EndReason>) -> bool {
        let Some(Some(pair)) = self.pairs.get_mut(place) else {
            return false;
        };
        let started = self.started;
        let mut around = Surroundings {
            settings: &self.settings,
            registry: self.poll.registry(),
            recorder: &mut self.recorder,
            keys: &mut self.keys,
            scratch,
            clock: &move || nanoseconds(started),
        };
        match ends {
            Some(reason) => pair.close(reason, &mut around),
            None => pair.step(&mut around),
        }
        let goes_on = pair.goes_on && !pair.is_over();
        if pair.is_over() {
            self.pairs[place] = None;
            self.free.push(place);
        }
        goes_on
    }

    /// Ends those that have been on their way into a session, or out of it, for too long.
    fn end_idle(&mut self, scratch: &mut [u8]) {
        let now_ns = nanoseconds(self.started);
        for place in 0..self.pairs.len() {
            let is_late = self.pairs[place].as_ref().is_some_and(|pair| {
                pair.is_waiting() && now_ns.saturating_sub(pair.waiting_since_ns) > WAITING_NS_MAX
            });
            if is_late {
                self.recorder.now_ns = now_ns;
                self.step(place, scratch, Some(EndReason::ClientLost));
            }
        }
    }

    fn end(mut self, scratch: &mut [u8]) -> Totals {
        self.recorder.now_ns = nanoseconds(self.started);
        for place in 0..self.pairs.len() {
            self.step(place, scratch, Some(EndReason::CaptureEnded));
        }
        self.recorder.finish()
    }
}

fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
