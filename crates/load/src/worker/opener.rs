//! Connections are opened beside a worker's loop, which goes on meanwhile.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use mio::Waker;
use pgassay_protocol::{Failure, InputBuffer};

use crate::clock::{monotonic_ns, thread_cpu_ns};
use crate::transport::Connector;

/// A worker opens so many at a time.
const OPENERS_MAX: usize = 8;

/// A connection that was opened, or was not.
pub struct Opened<T> {
    /// Whose it is.
    pub slot: usize,
    /// The connection, or why it could not be opened.
    pub outcome: Result<(T, InputBuffer), Failure>,
    /// How long it took.
    pub took_ns: u64,
    /// The processor time of it.
    pub cpu_ns: u64,
}

/// Threads that open connections.
pub struct Opener<T> {
    requests: Sender<usize>,
    opened: Receiver<Opened<T>>,
}

impl<T: Send + 'static> Opener<T> {
    /// So many threads, and no more than there are connections.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start<C: Connector<Transport = T>>(
        connector: &Arc<C>,
        waker: &Arc<Waker>,
        connections: usize,
    ) -> Result<Self, Failure> {
        let (requests, wanted) = channel();
        let (sender, opened) = channel();
        let wanted = Arc::new(Mutex::new(wanted));
        for _ in 0..connections.min(OPENERS_MAX) {
            let (connector, waker) = (Arc::clone(connector), Arc::clone(waker));
            let (wanted, sender) = (Arc::clone(&wanted), sender.clone());
            let body = move || {
                while let Some(slot) = next_of(&wanted) {
                    let (from_ns, cpu_from_ns) = (monotonic_ns(), thread_cpu_ns());
                    let outcome = connector.connect();
                    let opened = Opened {
                        slot,
                        outcome,
                        took_ns: monotonic_ns() - from_ns,
                        cpu_ns: thread_cpu_ns() - cpu_from_ns,
                    };
                    // The worker is gone at the end of the load.
                    if sender.send(opened).is_err() || waker.wake().is_err() {
                        return;
                    }
                }
            };
            let named = thread::Builder::new().name("load-connect".to_owned());
            let spawned = named.spawn(body);
            spawned.map_err(|error| {
                Failure::client(format!(
                    "the system refused a thread that opens connections: {error}"
                ))
            })?;
        }
        Ok(Self { requests, opened })
    }

    /// Has a connection opened.
    ///
    /// # Errors
    /// When no thread is left that could: each ends where the worker can't be woken any more.
    pub fn open(&self, slot: usize) -> Result<(), Failure> {
        let asked = self.requests.send(slot);
        asked.map_err(|_| Failure::client("no thread is left that opens connections".to_owned()))
    }

    /// The next one that was opened, or was not.
    pub fn next(&self) -> Option<Opened<T>> {
        self.opened.try_recv().ok()
    }
}

fn next_of(wanted: &Mutex<Receiver<usize>>) -> Option<usize> {
    wanted.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}
