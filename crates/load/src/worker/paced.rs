//! An open loop in a worker: free clients take what is due, the one that was free first the next.

use pgassay_protocol::Failure;

use super::Worker;
use super::arriving::Next;
use crate::clock::monotonic_ns;
use crate::meter::Meter;
use crate::transport::Connector;

impl<C: Connector> Worker<C> {
    /// A free client begins what is due, or waits for the next; `true` where there will be none.
    pub(super) fn take_arrival(
        &mut self,
        index: usize,
        now_ns: u64,
        meter: &mut Meter,
    ) -> Result<bool, Failure> {
        let Some(arriving) = &mut self.arriving else {
            return Ok(true);
        };
        match arriving.next(now_ns, meter) {
            Next::Never => Ok(true),
            Next::Later => {
                arriving.idle.push_back(index);
                Ok(false)
            }
            Next::Begin(due_ns) => match self.begin_due(index, due_ns, now_ns) {
                Ok(outcome) => self.follow_begun(index, outcome, meter),
                Err(failure) => self.lose(index, failure, meter),
            },
        }
    }

    /// Begins what is due by now while clients are free. How many clients will have nothing to do any more.
    pub(super) fn begin_what_is_due(&mut self, meter: &mut Meter) -> Result<usize, Failure> {
        let mut ended = 0;
        loop {
            let now_ns = monotonic_ns();
            let Some(arriving) = &mut self.arriving else {
                return Ok(0);
            };
            if arriving.pacer.due_ns() == u64::MAX {
                ended += arriving.idle.len();
                arriving.idle.clear();
                return Ok(ended);
            }
            if arriving.next_begin_ns() > now_ns {
                return Ok(ended);
            }
            let Some(index) = arriving.idle.pop_front() else {
                return Ok(ended);
            };
            self.told_ns = now_ns;
            ended += usize::from(self.take_arrival(index, now_ns, meter)?);
        }
    }

    /// Begins what became due while answers were read: those of 50 clients that came at once take half a millisecond.
    #[inline]
    pub(super) fn begin_between_answers(&mut self, meter: &mut Meter) -> Result<usize, Failure> {
        if self.arriving.is_none() {
            return Ok(0);
        }
        // The answers that are left have waited since the poll told of them.
        let told_ns = self.told_ns;
        let ended = self.begin_what_is_due(meter)?;
        self.told_ns = told_ns;
        Ok(ended)
    }

    /// Counts what was due and has not begun.
    pub(super) fn count_the_queue(&mut self, meter: &mut Meter) {
        let Some(arriving) = &mut self.arriving else {
            return;
        };
        while arriving.pacer.due_ns() != u64::MAX {
            meter.queued(arriving.pacer.take(), arriving.closes_ns);
        }
    }
}
