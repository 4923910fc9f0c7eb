//! What a run tells meanwhile: of clients that failed, in pgbench's words, and of an interval.

use std::sync::{MutexGuard, PoisonError};

use pgassay_protocol::Failure;

use super::abort::abort_of;
use super::books::Seen;
use super::client_thread::{Run, Said};
use super::stats::Ending;
use crate::clock::monotonic_ns;
use crate::run::queue::Queue;
use crate::transport::Connector;

impl<C: Connector> Run<C> {
    pub(super) fn abort(&mut self, index: usize, failure: &Failure) -> Result<(), Failure> {
        self.books.errors.count(failure);
        let abort = abort_of(&mut self.thread.worker.clients[index], failure);
        if abort.counts {
            let ending = self.ending(index, monotonic_ns(), None);
            self.count(index, ending)?;
        }
        for message in abort.messages {
            self.thread.given.say(Said::Error(message));
        }
        if let Some(place) = abort.place {
            self.thread.given.say(Said::Detail(place));
        }
        self.give_up_client(index);
        Ok(())
    }

    /// The error itself, as --verbose-errors shows it.
    pub(super) fn tell_given_up(&mut self, index: usize) {
        let client = &mut self.thread.worker.clients[index];
        let (number, at, failure) = (client.number(), client.failed_at(), client.given_up().cloned());
        if let (Some(failure), Some(interpreter)) = (failure, client.interpreter()) {
            let (script, command) = interpreter.position();
            let text = failure.libpq_text(interpreter.failed_text(at).as_deref());
            self.thread.given.say(Said::Info(format!(
                "client {number} got an error in command {command} (SQL) of script {script}; {text}"
            )));
        }
    }

    #[allow(clippy::cast_precision_loss)]
    pub(super) fn tell_end(&self, index: usize, is_tried_again: bool, spent_us: u64) {
        let (spec, slot) = (&self.thread.spec, self.slots[index]);
        let what = match is_tried_again {
            true => "repeats the transaction after the error",
            false => "ends the failed transaction",
        };
        let most = if spec.max_tries > 0 {
            format!("/{}", spec.max_tries)
        } else {
            String::new()
        };
        let used = spec.latency_limit_us.map_or_else(String::new, |limit| {
            let percent = 100.0 * spent_us as f64 / limit as f64;
            format!(", {percent:.3}% of the maximum time of tries was used")
        });
        let number = self.thread.worker.clients[index].number();
        self.thread.given.say(Said::Info(format!(
            "client {number} {what} (try {}{most}{used})",
            slot.tries
        )));
    }

    /// From now on the coordinator knows what is due, where there are a rate and progress.
    pub(super) fn begin_queue(&mut self) {
        let tells = self.thread.spec.progress_s.is_some();
        let queue = self.thread.pacer.as_ref().filter(|_| tells).map(Queue::of);
        self.tells_queue = queue.is_some();
        self.seen().queue = queue;
    }

    /// One of what is due, or of what will be, was taken from the pacer.
    pub(super) fn take_of_queue(&self) {
        if let Some(queue) = &mut self.seen().queue {
            queue.take();
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        let shown = &self.thread.given.seen;
        shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows what the coordinator tells of at intervals.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Whole microseconds, never negative.
    pub(super) fn show(&self, ending: Ending) {
        let at_ns = monotonic_ns();
        let mut seen = self.seen();
        seen.stats = self.books.stats;
        if let Some(queue) = &mut seen.queue {
            queue.pass(at_ns);
        }
        if let Ending::Done { latency_us, .. } = ending {
            seen.latency.count(latency_us as u64 * 1000);
        }
    }
}
