//! What holds for any model and any requests, on thousands of drawn ones. The oracle is a closed form.

use pgassay_volume::{Distribution, Kind, Latency, Limiter, Model, Request, Scope, Stripes, Unit, Volume};

mod drawn;
mod oracles;
use drawn::Draw;
use oracles::{TOKEN, closed_form, closed_form_of_allowance, costs};

const AT_ONCE: Distribution = Distribution {
    median_ns: 0.0,
    sigma: 0.0,
    bytes_per_second: None,
};

fn model(limiters: Vec<Limiter>) -> Model {
    Model {
        name: "drawn".to_owned(),
        stripes: Stripes::default(),
        limiters,
        latency: Latency {
            read: AT_ONCE,
            write: AT_ONCE,
            flush: AT_ONCE,
        },
        first_touch: None,
    }
}

fn done(model: &Model, requests: &[Request]) -> Vec<u64> {
    let mut volume = Volume::new(model, 1).unwrap();
    requests
        .iter()
        .map(|request| volume.submit(request).done_ns)
        .collect()
}

#[test]
fn each_request_is_let_through_at_the_nanosecond_of_the_closed_form() {
    let mut draw = Draw::new(1);
    for case in 0..250 {
        let limiter = draw.limiter(Scope::Volume);
        let requests = draw.requests(100);
        let done_ns = done(&model(vec![limiter.clone()]), &requests);
        let arrivals: Vec<(u64, u64)> = requests
            .iter()
            .map(|request| request.arrival_ns)
            .zip(costs(&limiter, &requests, &done_ns))
            .collect();
        let peak = limiter.peak.unwrap_or(limiter.rate);
        let window = (u128::from(peak) * u128::from(limiter.window_ns)).max(u128::from(peak));
        let mut expected = closed_form(peak, window, window, &arrivals);
        if limiter.capacity > 0 {
            let capacity = u128::from(limiter.capacity) * TOKEN;
            let fill = limiter.fill.map_or(capacity, |fill| u128::from(fill) * TOKEN);
            let credits = closed_form(limiter.rate, capacity, fill, &arrivals);
            expected = expected
                .into_iter()
                .zip(credits)
                .map(|(one, other)| one.max(other))
                .collect();
        }
        assert_eq!(done_ns, expected, "case {case}: {limiter:?}");
    }
}

#[test]
fn an_allowance_is_whole_again_after_each_period() {
    let mut draw = Draw::new(10);
    let mut resets = 0;
    for case in 0..300 {
        let rate = draw.magnitude(1_000_000);
        let capacity = draw.magnitude(10_000_000).max(rate / 1000 + 1);
        let period_s = 1 + draw.up_to(100);
        let limiter = Limiter {
            rate,
            // As good as none, so that the allowance alone decides.
            peak: Some(1_000_000_000_000),
            capacity,
            fill: Some(draw.up_to(capacity)),
            unit: Unit::Bytes,
            quantum_bytes: 1,
            merging: false,
            reset_period_s: Some(period_s),
            ..draw.limiter(Scope::Instance)
        };
        let largest = capacity.min(4_000_000_000);
        let requests: Vec<Request> = (0..60)
            .map(|index| Request {
                arrival_ns: 0,
                kind: Kind::Read,
                offset: index << 40,
                length: draw.magnitude(largest) as u32,
            })
            .collect();
        let costs: Vec<u64> = requests.iter().map(|request| u64::from(request.length)).collect();
        let period_ns = period_s * 1_000_000_000;
        let fill = limiter.fill.unwrap();
        let expected = closed_form_of_allowance(rate, capacity, fill, period_ns, &costs);
        let done_ns = done(&model(vec![limiter.clone()]), &requests);
        // The peak of 10^12 a second delays all of them by less than a second.
        for (found, wanted) in done_ns.iter().zip(&expected) {
            assert!(
                (*wanted..=wanted + 1_000_000_000).contains(found),
                "case {case}: {limiter:?}"
            );
            if *found > 1_000_000_000 {
                assert_eq!(found, wanted, "case {case}: {limiter:?}");
            }
        }
        resets += expected.last().unwrap() / period_ns;
    }
    assert!(resets > 300, "{resets} periods were crossed");
}

#[test]
fn no_bucket_is_below_zero_or_above_its_capacity_and_what_is_left_is_what_came_less_what_went() {
    let mut draw = Draw::new(2);
    for _ in 0..300 {
        let mut limiter = draw.limiter(Scope::Volume);
        limiter.capacity = draw.magnitude(1_000_000).max(limiter.rate / 1000 + 1);
        limiter.fill = Some(draw.up_to(limiter.capacity));
        limiter.peak = Some(limiter.rate * 3);
        limiter.merging = false;
        let drawn = model(vec![limiter.clone()]);
        let mut volume = Volume::new(&drawn, 1).unwrap();
        let quantum = u64::from(limiter.quantum_bytes);
        let mut taken = 0_u128;
        for request in draw.requests(60) {
            let units = u64::from(request.length).div_ceil(quantum);
            let cost = if limiter.unit == Unit::Bytes {
                units * quantum
            } else {
                units
            };
            volume.submit(&request);
            taken += u128::from(cost);
            for later_ns in [0, 1, draw.up_to(1_000_000_000)] {
                let now_ns = request.arrival_ns + later_ns;
                let level = &volume.levels(now_ns)[0];
                assert!(level.credits <= limiter.capacity);
                // It never holds more than came in; what overflowed is lost.
                let came =
                    u128::from(limiter.fill.unwrap()) * TOKEN + u128::from(limiter.rate) * u128::from(now_ns);
                assert!(
                    u128::from(level.credits) * TOKEN <= came.saturating_sub(taken * TOKEN)
                        || came < taken * TOKEN
                );
                if came < taken * TOKEN {
                    assert_eq!(level.credits, 0, "requests wait, so nothing is left");
                }
            }
        }
        let much_later = 1_000_000_000_000_000_000;
        assert_eq!(
            volume.levels(much_later)[0].credits,
            limiter.capacity,
            "a pause fills it"
        );
    }
}

#[test]
fn a_chain_is_as_slow_as_the_slowest_of_its_limiters() {
    let mut draw = Draw::new(3);
    for _ in 0..300 {
        let scopes = [Scope::Volume, Scope::Stripes, Scope::Instance];
        // Merging depends on when a request is done, which the others decide too.
        let limiters: Vec<Limiter> = scopes
            .into_iter()
            .map(|scope| Limiter {
                merging: false,
                ..draw.limiter(scope)
            })
            .collect();
        let requests = draw.requests(100);
        let chained = done(&model(limiters.clone()), &requests);
        let alone: Vec<Vec<u64>> = limiters
            .iter()
            .map(|limiter| done(&model(vec![limiter.clone()]), &requests))
            .collect();
        for (index, done_ns) in chained.iter().enumerate() {
            assert_eq!(*done_ns, alone.iter().map(|times| times[index]).max().unwrap());
        }
        let reversed: Vec<Limiter> = limiters.into_iter().rev().collect();
        assert_eq!(
            done(&model(reversed), &requests),
            chained,
            "their order says nothing"
        );
    }
}

#[test]
fn volumes_on_one_instance_share_its_limits() {
    let mut draw = Draw::new(9);
    for _ in 0..100 {
        let shared = Limiter {
            merging: false,
            ..draw.limiter(Scope::Instance)
        };
        let of_instance = model(vec![shared.clone()]);
        let requests = draw.requests(100);
        let mut instance = Volume::new(&of_instance, 1).unwrap();
        let mut volumes = [(); 2].map(|()| Volume::new(&model(vec![]), 1).unwrap());
        let done_ns: Vec<u64> = (0..requests.len())
            .map(|index| {
                let volume = &mut volumes[index % 2];
                volume
                    .submit_through(&requests[index], Some(&mut instance))
                    .done_ns
            })
            .collect();
        assert_eq!(
            done_ns,
            done(&of_instance, &requests),
            "as if all went to one volume"
        );
    }
}

#[test]
fn requests_are_let_through_in_the_order_of_their_arrival() {
    let mut draw = Draw::new(4);
    for _ in 0..300 {
        let limiters = vec![draw.limiter(Scope::Volume), draw.limiter(Scope::Instance)];
        let times = done(&model(limiters), &draw.requests(100));
        assert!(times.is_sorted());
    }
}

#[test]
fn done_is_the_later_of_latency_and_limits() {
    let mut draw = Draw::new(5);
    for seed in 0..200 {
        let limiter = Limiter {
            merging: false,
            ..draw.limiter(Scope::Volume)
        };
        let requests = draw.requests(100);
        let limited = done(&model(vec![limiter.clone()]), &requests);
        let mut late = model(vec![limiter]);
        late.latency.read = Distribution {
            median_ns: 600_000.0,
            sigma: 0.4,
            bytes_per_second: Some(1 << 30),
        };
        late.latency.write = late.latency.read;
        let mut volume = Volume::new(&late, seed).unwrap();
        let mut volume_again = Volume::new(&late, seed).unwrap();
        for (request, ready_ns) in requests.iter().zip(limited) {
            let completion = volume.submit(request);
            let unlimited_ns = request.arrival_ns + completion.latency_ns;
            assert_eq!(completion.done_ns, unlimited_ns.max(ready_ns));
            assert_eq!(completion.queued_ns, completion.done_ns - unlimited_ns);
            assert_eq!(completion, volume_again.submit(request), "the seed decides");
        }
    }
}

#[test]
fn adjacent_requests_cost_what_one_of_their_size_does() {
    let mut draw = Draw::new(6);
    for _ in 0..300 {
        let limiter = Limiter {
            unit: Unit::Operations,
            rate: 1,
            quantum_bytes: 262_144,
            merging: true,
            ..draw.limiter(Scope::Volume)
        };
        // Slow, so that each still waits when the next arrives.
        let limiter = Limiter {
            peak: None,
            capacity: 0,
            fill: None,
            window_ns: 1,
            ..limiter
        };
        let mut volume = Volume::new(&model(vec![limiter]), 1).unwrap();
        let (mut offset, mut operations) = (draw.up_to(1 << 40), 0);
        let begin = offset;
        for _ in 0..50 {
            let length = draw.magnitude(600_000) as u32;
            let read = Request {
                arrival_ns: 0,
                kind: Kind::Read,
                offset,
                length,
            };
            operations += u64::from(volume.submit(&read).operations);
            offset += u64::from(length);
            assert_eq!(operations, (offset - begin).div_ceil(262_144));
        }
    }
}

#[test]
fn the_parts_of_a_request_on_a_stripe_set_are_its_bytes_each_once() {
    let mut draw = Draw::new(7);
    for _ in 0..3000 {
        let stripes = Stripes {
            count: 1 + draw.up_to(7) as u32,
            width_bytes: draw.magnitude(300_000),
        };
        let offset = draw.up_to(1 << 22);
        let length = draw.magnitude(1 << 21) as u32;
        let one = |volume| Limiter {
            name: format!("{volume}"),
            scope: Scope::Volume,
            unit: Unit::Bytes,
            rate: 1,
            peak: Some(2),
            capacity: 1 << 40,
            fill: None,
            quantum_bytes: 1,
            merging: false,
            reset_period_s: None,
            window_ns: 1_000_000_000,
        };
        let mut striped = model(vec![one(0)]);
        striped.stripes = stripes;
        let mut volume = Volume::new(&striped, 1).unwrap();
        volume.submit(&Request {
            arrival_ns: 0,
            kind: Kind::Read,
            offset,
            length,
        });
        // Byte by byte where each one lies.
        let mut expected = vec![0_u64; stripes.count as usize];
        let width = u128::from(stripes.width_bytes);
        for chunk in offset / stripes.width_bytes..=(offset + u64::from(length) - 1) / stripes.width_bytes {
            let begin = (u128::from(chunk) * width).max(u128::from(offset));
            let end = (u128::from(chunk + 1) * width).min(u128::from(offset) + u128::from(length));
            expected[(chunk % u64::from(stripes.count)) as usize] += (end - begin) as u64;
        }
        let taken: Vec<u64> = volume
            .levels(0)
            .iter()
            .map(|level| (1 << 40) - level.credits)
            .collect();
        assert_eq!(taken, expected);
    }
}

#[test]
fn extremes_of_every_field_are_survived() {
    let mut draw = Draw::new(8);
    let mut refused = 0;
    for seed in 0..1500 {
        let extreme = |draw: &mut Draw| match draw.up_to(5) {
            0 => 0,
            1 => 1,
            2 => u64::MAX,
            3 => draw.magnitude(1_000_000_000_000),
            _ => draw.magnitude(100_000),
        };
        let limiters = (0..draw.up_to(3))
            .map(|_| Limiter {
                rate: extreme(&mut draw),
                peak: (draw.up_to(1) == 0).then(|| extreme(&mut draw)),
                capacity: extreme(&mut draw),
                reset_period_s: (draw.up_to(2) == 0).then(|| extreme(&mut draw)),
                window_ns: extreme(&mut draw).min(1_000_000_000),
                quantum_bytes: extreme(&mut draw) as u32,
                ..draw.limiter(Scope::Volume)
            })
            .collect();
        let mut drawn = model(limiters);
        drawn.stripes = Stripes {
            count: draw.up_to(5) as u32,
            width_bytes: extreme(&mut draw),
        };
        drawn.latency.read.median_ns = [0.0, 1e12, f64::NAN, -1.0][draw.up_to(3) as usize];
        drawn.latency.read.sigma = [0.0, 3.0, 3.0, 3.0][draw.up_to(3) as usize];
        let Ok(mut volume) = Volume::new(&drawn, seed) else {
            refused += 1;
            continue;
        };
        for _ in 0..30 {
            let request = Request {
                arrival_ns: extreme(&mut draw),
                kind: [Kind::Read, Kind::Write, Kind::Flush][draw.up_to(2) as usize],
                offset: extreme(&mut draw),
                length: extreme(&mut draw) as u32,
            };
            let completion = volume.submit(&request);
            assert!(completion.done_ns >= request.arrival_ns);
            for level in volume.levels(extreme(&mut draw)) {
                assert!(level.credits <= level.capacity);
            }
        }
    }
    assert!(
        (1000..2950).contains(&refused),
        "{refused} of 3000: both must be drawn"
    );
}
