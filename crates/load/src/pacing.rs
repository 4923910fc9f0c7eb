//! An open loop: when transactions are due, whatever the server does.

use std::sync::Arc;

use pgassay_pgbench::random::fraction;
use pgassay_protocol::Failure;
use rand_xoshiro::Xoroshiro128StarStar;

use crate::clock::Schedule;

mod pace;
pub use pace::{Arrivals, Pace, drain_s};

/// A stretch in which the rate changes by the same amount in each second.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    from_s: f64,
    /// Arrivals that are expected before it, and up to its end.
    before: f64,
    until: f64,
    rate: f64,
    slope: f64,
}

impl Stretch {
    /// When so many arrivals are expected to have come: the root of `rate·t + slope·t²/2 = count - before`, in the
    /// form that loses no digits.
    fn seconds_at(&self, count: f64) -> f64 {
        let left = count - self.before;
        if left <= 0.0 && (self.rate > 0.0 || self.slope > 0.0) {
            // Of a ramp that begins at 0 the form below is 0 by 0.
            return self.from_s;
        }
        let root = (self.rate * self.rate + 2.0 * self.slope * left).max(0.0).sqrt();
        self.from_s + 2.0 * left / (self.rate + root)
    }
}

fn stretches(rates: &[(f64, f64)], warmup_s: f64) -> Vec<Stretch> {
    let mut found = Vec::with_capacity(rates.len() + 1);
    let (mut from_s, mut rate) = (0.0, rates[0].1);
    let mut before = 0.0;
    for &(seconds, next_rate) in rates {
        let until_s = (warmup_s + seconds).max(0.0);
        let length = until_s - from_s;
        if length > 0.0 {
            let until = before + (rate + next_rate) / 2.0 * length;
            let slope = (next_rate - rate) / length;
            found.push(Stretch {
                from_s,
                before,
                until,
                rate,
                slope,
            });
            before = until;
        }
        (from_s, rate) = (until_s.max(from_s), next_rate);
    }
    found.push(Stretch {
        from_s,
        before,
        until: f64::INFINITY,
        rate,
        slope: 0.0,
    });
    found
}

/// The arrivals of one thread, one after the other.
///
/// Arrivals of a rate that changes are those of the rate 1 in another time: the n-th of those is due when n are
/// expected (Cinlar, "Introduction to Stochastic Processes", 1975, section 4.7). All are drawn from the seed, so two
/// servers get the same ones.
#[derive(Clone, Debug)]
pub struct Pacer {
    arrivals: Arrivals,
    random: Xoroshiro128StarStar,
    stretches: Arc<[Stretch]>,
    place: usize,
    /// Arrivals of all threads that are expected before the next one.
    expected: f64,
    threads: f64,
    schedule: Schedule,
    due_ns: u64,
}

impl Pacer {
    /// The arrivals of the thread with this number among `threads`; `random` is what it draws from.
    #[allow(clippy::cast_precision_loss)] // A load has few threads.
    pub fn new(
        pace: &Pace,
        schedule: Schedule,
        (thread, threads): (usize, usize),
        random: Xoroshiro128StarStar,
    ) -> Self {
        let warmup_s = (schedule.measured_from_ns - schedule.start_ns) as f64 / 1e9;
        let mut pacer = Self {
            arrivals: pace.arrivals,
            random,
            stretches: stretches(&pace.rates, warmup_s).into(),
            place: 0,
            expected: 0.0,
            threads: threads as f64,
            schedule,
            due_ns: schedule.start_ns,
        };
        if pace.arrivals == Arrivals::Constant {
            pacer.expected = thread as f64;
            pacer.due_ns = pacer.instant();
        } else {
            pacer.draw();
        }
        pacer
    }

    /// When the next one is due; `u64::MAX` when that is past the measured interval.
    #[inline]
    pub fn due_ns(&self) -> u64 {
        if self.due_ns < self.schedule.measured_to_ns {
            self.due_ns
        } else {
            u64::MAX
        }
    }

    /// Takes the next one: when it is due. The one after it is drawn.
    #[inline]
    pub fn take(&mut self) -> u64 {
        let due_ns = self.due_ns;
        self.draw();
        due_ns
    }

    fn draw(&mut self) {
        match self.arrivals {
            Arrivals::Constant => self.expected += self.threads,
            Arrivals::Poisson => self.expected += self.waiting() * self.threads,
            Arrivals::Pgbench => {
                // getPoissonRand of pgbench.c, around throttle_delay.
                let mean_us = 1e6 / self.stretches[0].rate * self.threads;
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // As in C; never negative.
                let wait_us = (self.waiting() * mean_us + 0.5) as u64;
                self.due_ns = self.due_ns.saturating_add(wait_us.saturating_mul(1000));
                return;
            }
        }
        self.due_ns = self.instant();
    }

    fn waiting(&mut self) -> f64 {
        waiting(&mut self.random)
    }

    fn instant(&mut self) -> u64 {
        while self.expected >= self.stretches[self.place].until {
            self.place += 1;
        }
        let stretch = &self.stretches[self.place];
        let seconds = stretch.seconds_at(self.expected);
        if !seconds.is_finite() {
            // A rate that is 0 from here on.
            return u64::MAX;
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        // Saturates, and is never negative.
        let from_start_ns = (seconds * 1e9).round() as u64;
        self.schedule.start_ns.saturating_add(from_start_ns)
    }
}

/// An exponential variable of mean 1.
pub(crate) fn waiting(random: &mut Xoroshiro128StarStar) -> f64 {
    -(1.0 - fraction(random)).ln()
}

/// Refuses a limit that nothing could keep.
///
/// # Errors
/// A sentence on the limit.
pub fn check_limit(latency_limit_ms: Option<f64>) -> Result<(), Failure> {
    match latency_limit_ms {
        Some(limit) if !(limit > 0.0 && limit <= 1e9) => Err(Failure::client(format!(
            "the load can't be run: latency_limit_ms is {limit}, but must be above 0 and at most 1e9"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgassay_pgbench::random::{Streams, seeded};

    const SECOND_NS: u64 = 1_000_000_000;

    fn schedule(warmup_s: u64, seconds: u64) -> Schedule {
        Schedule {
            start_ns: 5 * SECOND_NS,
            measured_from_ns: (5 + warmup_s) * SECOND_NS,
            measured_to_ns: (5 + warmup_s + seconds) * SECOND_NS,
        }
    }

    fn pace(arrivals: Arrivals, rates: &[(f64, f64)]) -> Pace {
        Pace {
            arrivals,
            rates: rates.to_vec(),
            drain_s: None,
        }
    }

    fn all(pace: &Pace, schedule: Schedule, threads: usize) -> Vec<u64> {
        let mut found = Vec::new();
        for thread in 0..threads {
            let mut pacer = Pacer::new(pace, schedule, (thread, threads), seeded(thread as u64 + 1));
            while pacer.due_ns() != u64::MAX {
                found.push(pacer.take());
            }
        }
        found.sort_unstable();
        found
    }

    #[test]
    fn constant_arrivals_are_even_over_all_threads() {
        let found = all(&pace(Arrivals::Constant, &[(0.0, 1000.0)]), schedule(1, 2), 3);
        assert_eq!(found.len(), 3000);
        assert!(found.windows(2).all(|pair| pair[1] - pair[0] == 1_000_000));
        assert_eq!(found[0], 5 * SECOND_NS);
    }

    #[test]
    #[allow(clippy::cast_precision_loss)]
    fn poisson_arrivals_have_their_rate_and_bunch() {
        let found = all(&pace(Arrivals::Poisson, &[(0.0, 2000.0)]), schedule(0, 50), 2);
        // Five standard deviations of a count of 100 000.
        assert!(found.len().abs_diff(100_000) < 1600, "{}", found.len());
        let gaps: Vec<f64> = found.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!(
            (variance.sqrt() / mean - 1.0).abs() < 0.03,
            "{}",
            variance.sqrt() / mean
        );
        // The wait is exponential: a share of exp(-1) is longer than the mean.
        let longer = gaps.iter().filter(|&&gap| gap > mean).count() as f64 / gaps.len() as f64;
        assert!((longer - (-1.0_f64).exp()).abs() < 0.01, "{longer}");
    }

    #[test]
    fn a_curve_has_ramps_and_steps_and_the_warm_up_its_first_rate() {
        let rates = [
            (0.0, 100.0),
            (10.0, 300.0),
            (10.0, 0.0),
            (20.0, 0.0),
            (20.0, 50.0),
        ];
        let found = all(&pace(Arrivals::Constant, &rates), schedule(2, 30), 1);
        let within = |from: u64, to: u64| {
            let inside = |due: &&u64| (from * SECOND_NS..to * SECOND_NS).contains(due);
            found.iter().filter(inside).count()
        };
        assert_eq!(within(5, 7), 200);
        // The mean rate of a ramp's second is that of its middle.
        assert!(within(7, 8).abs_diff(110) <= 1 && within(16, 17).abs_diff(290) <= 1);
        assert!(within(7, 17).abs_diff(2000) <= 1);
        assert_eq!(within(17, 27), 0);
        assert!(within(27, 37).abs_diff(500) <= 1);
    }

    #[test]
    fn a_ramp_from_0_has_its_constant_arrivals() {
        for threads in 1..4 {
            // With a warm-up at 0, and without one.
            for warmup_s in [0, 2] {
                let ramp = pace(Arrivals::Constant, &[(0.0, 0.0), (10.0, 100.0)]);
                let found = all(&ramp, schedule(warmup_s, 10), threads);
                assert_eq!(found.len(), 500, "{threads} threads, warm-up {warmup_s} s");
                assert_eq!(found[0], (5 + warmup_s) * SECOND_NS);
            }
            // An arrival falls on the instant at which the rate is 0.
            let rates = [(0.0, 100.0), (10.0, 0.0), (20.0, 100.0)];
            let found = all(&pace(Arrivals::Constant, &rates), schedule(0, 20), threads);
            assert_eq!(found.len(), 1000, "{threads} threads");
        }
        // A rate that stays at 0 has none from then on.
        let ending = pace(Arrivals::Constant, &[(0.0, 100.0), (10.0, 0.0)]);
        assert_eq!(all(&ending, schedule(0, 60), 1).len(), 500);
    }

    #[test]
    fn a_rate_that_falls_to_0_ends_the_arrivals() {
        let found = all(
            &pace(Arrivals::Poisson, &[(0.0, 100.0), (1.0, 0.0)]),
            schedule(0, 60),
            1,
        );
        assert!((20..100).contains(&found.len()), "{}", found.len());
        assert!(found.iter().all(|&due| due < 6 * SECOND_NS));
    }

    #[test]
    fn pgbench_s_arrivals_are_whole_microseconds_of_its_own_stream() {
        let pace = pace(Arrivals::Pgbench, &[(0.0, 500.0)]);
        let stream = Streams::new(42, 2, 2).threads.remove(1).throttle;
        let mut pacer = Pacer::new(&pace, schedule(0, 60), (1, 2), stream.clone());
        let mut random = stream;
        let mut trigger_us = 5_000_000_u64;
        for _ in 0..1000 {
            // throttle_delay of 2000 us for one thread, doubled for two.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let wait = (-(1.0 - fraction(&mut random)).ln() * 4000.0 + 0.5) as u64;
            trigger_us += wait;
            assert_eq!(pacer.take(), trigger_us * 1000);
        }
    }

    #[test]
    fn what_can_t_be_kept_is_refused() {
        for (rates, word) in [
            (vec![], "rates"),
            (vec![(0.0, 0.0)], "every rate is 0"),
            (vec![(1.0, 5.0), (0.0, 5.0)], "must not fall"),
            (vec![(0.0, -1.0)], "from 0"),
            (vec![(0.0, f64::NAN)], "from 0"),
        ] {
            let fault = pace(Arrivals::Poisson, &rates).fault().unwrap();
            assert!(fault.contains(word), "{fault}");
        }
        let steps = pace(Arrivals::Pgbench, &[(0.0, 1.0), (1.0, 2.0)]);
        assert!(steps.fault().unwrap().contains("one rate"));
        assert_eq!(pace(Arrivals::Poisson, &[(0.0, 1.0)]).fault(), None);
        assert!(
            check_limit(Some(0.0)).is_err() && check_limit(Some(20.0)).is_ok() && check_limit(None).is_ok()
        );
    }
}
