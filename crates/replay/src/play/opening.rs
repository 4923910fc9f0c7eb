//! Opens connections aside, so that a slow one delays no other session.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use mio::Waker;
use pgassay_load::Transport;
use pgassay_protocol::Failure;

use crate::plan::{Plan, Session};

const THREADS: usize = 4;

/// A connection that is ready.
pub struct Opened<T> {
    /// The stream, non-blocking.
    pub transport: T,
    /// The server process, and what a request to cancel must show.
    pub key: (i32, i32),
}

/// How sessions reach the server.
pub trait Opener: Send + Sync + 'static {
    /// What connections are made of.
    type Transport: Transport;

    /// Opens a session's connection and authenticates.
    ///
    /// # Errors
    /// When the server can't be reached or refuses.
    fn open(&self, session: &Session) -> Result<Opened<Self::Transport>, Failure>;

    /// Asks to cancel what another connection runs.
    fn cancel(&self, key: (i32, i32));
}

enum Job {
    Open(usize),
    Cancel((i32, i32)),
}

/// What came of it: the session, and its connection.
type Done<T> = (usize, Result<Opened<T>, Failure>);

/// The threads that open connections.
pub struct Opening<T> {
    jobs: Sender<Job>,
    done: Receiver<Done<T>>,
}

impl<T: Transport> Opening<T> {
    /// Starts them; `waker` tells that something is there.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start<O: Opener<Transport = T>>(
        opener: Arc<O>,
        plan: &Arc<Plan>,
        waker: Waker,
    ) -> std::io::Result<Self> {
        let (jobs, queue) = channel::<Job>();
        let (results, done) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let waker = Arc::new(waker);
        for number in 0..THREADS {
            let (queue, results, waker) = (Arc::clone(&queue), results.clone(), Arc::clone(&waker));
            let (opener, plan) = (Arc::clone(&opener), Arc::clone(plan));
            let work = move || {
                loop {
                    let job = queue.lock().ok().and_then(|queue| queue.recv().ok());
                    match job {
                        Some(Job::Open(session)) => {
                            let opened = opener.open(&plan.sessions[session]);
                            if results.send((session, opened)).is_err() {
                                return;
                            }
                            // Where it fails the player looks again by itself.
                            let _ = waker.wake();
                        }
                        Some(Job::Cancel(key)) => opener.cancel(key),
                        None => return,
                    }
                }
            };
            thread::Builder::new()
                .name(format!("open-{number}"))
                .spawn(work)?;
        }
        Ok(Self { jobs, done })
    }

    /// Asks for a session's connection.
    pub fn open(&self, session: usize) {
        // The threads end with this alone.
        let _ = self.jobs.send(Job::Open(session));
    }

    /// Asks to cancel what a session runs.
    pub fn cancel(&self, key: (i32, i32)) {
        // As above.
        let _ = self.jobs.send(Job::Cancel(key));
    }

    /// A connection that is there, if one is.
    pub fn take(&self) -> Option<Done<T>> {
        self.done.try_recv().ok()
    }
}
