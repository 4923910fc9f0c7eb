//! Buckets of tokens in exact arithmetic.
//!
//! Tokens are counted in billionths, so that a rate of r per second brings exactly r billionths in a nanosecond.
//! A wait is rounded up to a whole nanosecond, and what flowed in meanwhile beyond the need stays in the bucket:
//! the n-th request of a backlog is let through at the nanosecond that the closed form gives, for any n.

use crate::model::SECOND_NS;

/// One token in the unit in which buckets count.
pub(crate) const TOKEN: u128 = SECOND_NS as u128;

/// A bucket into which tokens flow at a fixed rate until it is full.
///
/// A request takes what is there and waits for the rest, behind the requests before it. Its cost may exceed what
/// the bucket can hold.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    rate: u64,
    depth: u128,
    level: u128,
    /// The time of `level`: later than now while requests wait.
    at_ns: u64,
}

impl Bucket {
    /// `depth` and `level` in billionths of a token; the depth holds what the rate brings in a nanosecond.
    pub(crate) fn new(rate: u64, depth: u128, level: u128) -> Self {
        let depth = depth.max(u128::from(rate));
        Self {
            rate,
            depth,
            level: level.min(depth),
            at_ns: 0,
        }
    }

    /// Takes the cost, in tokens, and says when all of it has been there: never before an earlier answer.
    #[inline]
    pub(crate) fn take(&mut self, arrival_ns: u64, cost: u64) -> u64 {
        self.advance(arrival_ns);
        let cost = u128::from(cost) * TOKEN;
        if self.level >= cost {
            self.level -= cost;
        } else {
            self.wait_for(cost - self.level);
        }
        self.at_ns
    }

    /// Lets the deficit flow in from now on, with nothing in the bucket.
    #[inline]
    fn wait_for(&mut self, deficit: u128) {
        let rate = u128::from(self.rate);
        let wait_ns = match u64::try_from(deficit) {
            Ok(deficit) => deficit.div_ceil(self.rate),
            Err(_) => u64::try_from(deficit.div_ceil(rate)).unwrap_or(u64::MAX),
        };
        self.level = (rate * u128::from(wait_ns))
            .saturating_sub(deficit)
            .min(self.depth);
        self.at_ns = self.at_ns.saturating_add(wait_ns);
    }

    /// Lets tokens flow in until `now_ns`; a time that has passed already changes nothing.
    #[inline]
    pub(crate) fn advance(&mut self, now_ns: u64) {
        if now_ns > self.at_ns {
            let flowed = u128::from(self.rate) * u128::from(now_ns - self.at_ns);
            self.level = self.depth.min(self.level + flowed);
            self.at_ns = now_ns;
        }
    }

    /// Before this time nothing more passes.
    #[inline]
    pub(crate) fn busy_until_ns(&self) -> u64 {
        self.at_ns
    }

    /// Billionths of a token at `now_ns`; none while requests wait.
    pub(crate) fn level(&self, now_ns: u64) -> u128 {
        if now_ns < self.at_ns {
            return 0;
        }
        let mut later = self.clone();
        later.advance(now_ns);
        later.level
    }
}

/// A rate for ever, and an allowance for what goes beyond it that is whole again after each period.
#[derive(Clone, Debug)]
pub(crate) struct Allowance {
    base: Bucket,
    capacity: u128,
    left: u128,
    period_ns: u64,
    next_reset_ns: u64,
}

impl Allowance {
    /// `capacity` and `left` in billionths of a token.
    ///
    /// The rate counts over a second: a pause within one is made up for before the allowance is touched. It
    /// starts with nothing to make up for.
    pub(crate) fn new(rate: u64, capacity: u128, left: u128, period_s: u64) -> Self {
        let period_ns = period_s.saturating_mul(SECOND_NS);
        Self {
            base: Bucket::new(rate, u128::from(rate) * TOKEN, 0),
            capacity,
            left: left.min(capacity),
            period_ns,
            next_reset_ns: period_ns,
        }
    }

    /// Takes the cost, in tokens, and says when all of it has been there: never before an earlier answer.
    pub(crate) fn take(&mut self, arrival_ns: u64, cost: u64) -> u64 {
        self.advance(arrival_ns);
        let mut due = u128::from(cost) * TOKEN;
        loop {
            let from_base = due.min(self.base.level);
            self.base.level -= from_base;
            due -= from_base;
            let from_left = due.min(self.left);
            self.left -= from_left;
            due -= from_left;
            if due == 0 {
                return self.base.at_ns;
            }
            // What flows in until the allowance is whole again may not suffice.
            let until_reset_ns = self.next_reset_ns - self.base.at_ns;
            let flowing = u128::from(self.base.rate) * u128::from(until_reset_ns);
            if due <= flowing || self.next_reset_ns == u64::MAX {
                self.base.wait_for(due);
                self.reset_until(self.base.at_ns);
                return self.base.at_ns;
            }
            due -= flowing;
            self.base.at_ns = self.next_reset_ns;
            self.reset_until(self.next_reset_ns);
        }
    }

    /// Lets time pass, with every reset until then.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        self.base.advance(now_ns);
        self.reset_until(self.base.at_ns);
    }

    /// Before this time nothing more passes.
    #[inline]
    pub(crate) fn busy_until_ns(&self) -> u64 {
        self.base.at_ns
    }

    fn reset_until(&mut self, now_ns: u64) {
        if now_ns >= self.next_reset_ns && self.next_reset_ns < u64::MAX {
            self.left = self.capacity;
            let periods = (now_ns / self.period_ns).saturating_add(1);
            self.next_reset_ns = self.period_ns.saturating_mul(periods);
        }
    }

    /// Billionths of a token that are left of the allowance at `now_ns`.
    pub(crate) fn level(&self, now_ns: u64) -> u128 {
        let mut later = self.clone();
        later.advance(now_ns);
        later.left
    }
}
