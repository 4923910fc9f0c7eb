//! When requests are let through and what they cost, read off the definitions: no state of any bucket.

use pgassay_volume::{Kind, Limiter, Request, Unit};

/// One token in billionths.
pub const TOKEN: u128 = 1_000_000_000;

/// When a bucket of `depth` tokens (in billionths, `fill` at 0) lets each request through: the first time at which
/// no stretch that began with an earlier request, and not the whole time from 0, has seen more cost than the
/// bucket held and the rate brought since. Quadratic, and without the state of any bucket.
pub fn closed_form(rate: u64, depth: u128, fill: u128, arrivals: &[(u64, u64)]) -> Vec<u64> {
    let rate = u128::from(rate);
    let after = |start_ns: u64, cost: u128, held: u128| {
        u128::from(start_ns) + (cost * TOKEN).saturating_sub(held).div_ceil(rate)
    };
    (0..arrivals.len())
        .map(|last| {
            let mut cost = 0;
            let mut ready = u128::from(arrivals[last].0);
            for (start_ns, units) in arrivals[..=last].iter().rev() {
                cost += u128::from(*units);
                ready = ready.max(after(*start_ns, cost, depth));
            }
            u64::try_from(ready.max(after(0, cost, fill))).unwrap()
        })
        .collect()
}

/// What each request costs, by the rule of merging read off the definition: all latencies are 0 here, so that a
/// request is done when it is let through.
pub fn costs(limiter: &Limiter, requests: &[Request], done_ns: &[u64]) -> Vec<u64> {
    let quantum = u64::from(limiter.quantum_bytes);
    // The runs that can still go on: kind, end, bytes since the run's first unit began, index of its last request.
    let mut runs: Vec<(Kind, u64, u64, usize)> = Vec::new();
    let mut costs = Vec::new();
    for (index, request) in requests.iter().enumerate() {
        let length = u64::from(request.length);
        let end = request.offset + length;
        let joined = runs.iter().position(|run| {
            limiter.merging
                && (run.0, run.1) == (request.kind, request.offset)
                && request.arrival_ns < done_ns[run.3]
        });
        let units = match joined {
            Some(at) => {
                let before = runs[at].2;
                runs[at] = (request.kind, end, before + length, index);
                (before + length).div_ceil(quantum) - before.div_ceil(quantum)
            }
            None => {
                // Eight runs are followed.
                if runs.len() == 8 {
                    runs.remove(0);
                }
                runs.push((request.kind, end, length, index));
                length.div_ceil(quantum)
            }
        };
        costs.push(match limiter.unit {
            Unit::Operations => units,
            Unit::Bytes => units * quantum,
        });
    }
    costs
}

/// When the allowance of an instance lets each request of a backlog from time 0 through: the first time at which
/// the fill, the rate since 0 and the whole allowance of each period that has begun since pay for all of it.
pub fn closed_form_of_allowance(
    rate: u64,
    capacity: u64,
    fill: u64,
    period_ns: u64,
    costs: &[u64],
) -> Vec<u64> {
    let (rate, period_ns) = (u128::from(rate), u128::from(period_ns));
    let mut total = 0_u128;
    costs
        .iter()
        .map(|cost| {
            total += u128::from(*cost);
            let ready = |periods: u128| {
                let paid = u128::from(fill) + periods * u128::from(capacity);
                let flowed = (total.saturating_sub(paid) * TOKEN).div_ceil(rate);
                flowed.max(periods * period_ns)
            };
            let periods = (0..)
                .find(|periods| ready(*periods) <= (periods + 1) * period_ns)
                .unwrap();
            u64::try_from(ready(periods)).unwrap()
        })
        .collect()
}
