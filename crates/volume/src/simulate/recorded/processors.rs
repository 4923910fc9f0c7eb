//! Processors that are shared evenly: one clock that runs as fast as each of those who compute gets on.

/// The work that each computing lane has been given so far, whichever lane it is.
///
/// With n lanes on c processors it grows by min(1, c / n) in a unit of time (processor sharing). A lane that
/// began at the reading `a` with work `w` is done when the clock reads `a + w`.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkClock {
    processors: f64,
    work_ns: f64,
    at_ns: u64,
}

impl WorkClock {
    pub(super) fn new(processors: f64) -> Self {
        Self {
            processors,
            work_ns: 0.0,
            at_ns: 0,
        }
    }

    #[inline]
    fn speed(&self, computing: usize) -> f64 {
        if computing as f64 <= self.processors {
            1.0
        } else {
            self.processors / computing as f64
        }
    }

    /// Lets time pass while so many compute; returns the reading.
    #[inline]
    pub(super) fn advance(&mut self, now_ns: u64, computing: usize) -> f64 {
        if now_ns > self.at_ns {
            self.work_ns += (now_ns - self.at_ns) as f64 * self.speed(computing);
            self.at_ns = now_ns;
        }
        self.work_ns
    }

    /// When the clock will read so much, if so many compute until then.
    #[inline]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // never negative; saturates
    pub(super) fn when(&self, reading: f64, computing: usize) -> u64 {
        let left = (reading - self.work_ns).max(0.0) / self.speed(computing);
        // What rounding added may not make it a nanosecond later.
        self.at_ns.saturating_add((left - 1e-3).ceil().max(0.0) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::WorkClock;

    #[test]
    fn three_on_two_processors_get_two_thirds_each() {
        let mut clock = WorkClock::new(2.0);
        assert_eq!(clock.advance(300, 3), 200.0);
        assert_eq!(clock.advance(400, 2), 300.0);
        assert_eq!((clock.when(500.0, 4), clock.when(500.0, 1)), (800, 600));
        // A time that has passed changes nothing.
        assert_eq!(clock.advance(100, 1), 300.0);
    }
}
