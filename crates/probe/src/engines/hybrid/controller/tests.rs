//! What the pilot decides, given rates.

use super::*;

const DEPTH: usize = 16;

fn buffered(helpers: &[usize]) -> Vec<Way> {
    let mut ways = vec![Way::Own, Way::Ring];
    ways.extend(helpers.iter().map(|count| Way::Shared(*count)));
    ways.extend(helpers.last().map(|count| Way::Given(*count)));
    ways
}

/// Flies for `milliseconds`, given each way's rate (bytes a microsecond) and the consumer's share of a core;
/// returns for each tenth of a millisecond the way.
fn fly(pilot: &mut Pilot, air: &Airspace, milliseconds: u64, rate: impl Fn(Way) -> (u64, f64)) -> Vec<Way> {
    let mut usage = pilot.from.unwrap_or_default();
    let mut ways = Vec::new();
    let mut requests = air.total().requests as f64;
    for _ in 0..milliseconds * 10 {
        let (bytes, share) = rate(pilot.way());
        ways.push(pilot.way());
        air.bytes.fetch_add(bytes * 100, Ordering::Relaxed);
        requests += bytes as f64 * 100.0 / 131_072.0;
        air.requests.store(requests as u64, Ordering::Relaxed);
        usage.at_ns += 100_000;
        usage.busy_ns += (100_000.0 * share) as u64;
        if pilot.is_due(usage.at_ns) {
            pilot.decide(usage, air, || 0);
        }
    }
    ways
}

#[test]
fn once_tried_nothing_is_tried_while_the_core_is_free() {
    let air = Airspace::default();
    let mut pilot = Pilot::new(0, buffered(&[1]), DEPTH);
    pilot.set_out(true);
    fly(&mut pilot, &air, 200, |_| (1000, 0.4));
    let ways = fly(&mut pilot, &air, 2000, |_| (1000, 0.4));
    assert!(ways.iter().all(|way| *way == Way::Own));
}

#[test]
fn help_is_kept_where_it_helps_and_given_up_when_it_no_longer_does() {
    let air = Airspace::default();
    let mut pilot = Pilot::new(0, buffered(&[1, 3]), DEPTH);
    pilot.set_out(true);
    fly(&mut pilot, &air, 300, |way| {
        (1000 + 300 * way.helpers() as u64, 1.0)
    });
    assert_eq!(pilot.way(), Way::Shared(3));
    fly(&mut pilot, &air, 60_000, |_| (100, 0.2));
    assert_eq!(pilot.way().helpers(), 0);
}

#[test]
fn of_ways_that_are_equally_fast_the_cheapest_is_kept() {
    let air = Airspace::default();
    let mut pilot = Pilot::new(0, buffered(&[1, 3, 8]), DEPTH);
    pilot.set_out(true);
    let rate = |way: Way| (if way.helpers() >= 3 { 1500 } else { 1000 }, 1.0);
    fly(&mut pilot, &air, 300, rate);
    assert_eq!(pilot.way(), Way::Shared(3));
}

#[test]
fn a_little_faster_is_not_worth_a_helper() {
    let air = Airspace::default();
    let mut pilot = Pilot::new(0, buffered(&[1]), DEPTH);
    pilot.set_out(true);
    let rate = |way: Way| (if way.helpers() > 0 { 1030 } else { 1000 }, 1.0);
    fly(&mut pilot, &air, 300, rate);
    assert_eq!(pilot.way(), Way::Own);
}

#[test]
fn trials_that_bring_nothing_become_rare() {
    let air = Airspace::default();
    let mut pilot = Pilot::new(0, buffered(&[1]), DEPTH);
    pilot.set_out(true);
    let ways = fly(&mut pilot, &air, 20_000, |_| (1000, 1.0));
    let elsewhere = ways.iter().filter(|way| **way != Way::Own).count();
    assert!(elsewhere > 0 && elsewhere * 50 < ways.len(), "{elsewhere}");
}

#[test]
fn a_slow_device_gets_longer_slices() {
    let air = Airspace::default();
    let mut pilot = Pilot::new(0, buffered(&[1]), DEPTH);
    pilot.set_out(true);
    let ways = fly(&mut pilot, &air, 1000, |_| (200, 1.0));
    let slices = ways.chunk_by(|one, other| one == other);
    let shared = slices.filter(|slice| slice[0].helpers() > 0);
    let shortest = shared.map(<[_]>::len).min();
    assert!(shortest.is_some_and(|tenths| tenths >= 200), "{shortest:?}");
}

#[test]
fn what_the_device_delivers_goes_through_the_ring() {
    let mut pilot = Pilot::new(0, buffered(&[]), DEPTH);
    pilot.set_out(true);
    let total = [0, 0, 40, 80, 80, 80].map(|megabytes: u64| megabytes << 20);
    let ways = total.map(|delivered| {
        if pilot.finds_otherwise(41_943_040.0, delivered) {
            pilot.set_out(!pilot.is_cached);
        }
        pilot.way()
    });
    let (own, ring) = (Way::Own, Way::Ring);
    assert_eq!(ways, [own, own, ring, ring, ring, own]);
}

/// Flies for 300 milliseconds among others that want the cores, given the rate of helpers to whom all is left; the
/// other ways have 100 bytes a microsecond.
fn fly_crowded(pilot: &mut Pilot, rate_given: u64) -> Vec<Way> {
    let air = Airspace::default();
    let mut usage = Usage::default();
    let mut ways = Vec::new();
    for _ in 0..3000 {
        let is_given = matches!(pilot.way(), Way::Given(_));
        air.count(if is_given { rate_given } else { 100 } * 1000);
        usage.at_ns += 100_000;
        usage.busy_ns += 100_000;
        usage.delay_ns += 40_000;
        if pilot.is_due(usage.at_ns) {
            pilot.decide(usage, &air, || 0);
        }
        ways.push(pilot.way());
    }
    ways.dedup();
    ways
}

#[test]
fn where_others_want_the_cores_all_is_given_to_helpers_if_that_helps() {
    let mut pilot = Pilot::new(0, buffered(&[1, 3]), DEPTH);
    pilot.set_out(true);
    let ways = fly_crowded(&mut pilot, 150);
    assert_eq!(ways[..2], [Way::Own, Way::Given(3)]);
    assert_eq!(pilot.way(), Way::Given(3));
    assert!(ways.iter().all(|way| matches!(way, Way::Own | Way::Given(_))));
}

#[test]
fn where_others_want_the_cores_helpers_are_kept_unless_they_are_clearly_slower() {
    for (rate_given, expected) in [(96, Way::Given(3)), (80, Way::Own)] {
        let mut pilot = Pilot::new(0, buffered(&[1, 3]), DEPTH);
        pilot.set_out(true);
        fly_crowded(&mut pilot, rate_given);
        assert_eq!(
            pilot.kept,
            pilot.ways.iter().position(|way| *way == expected).unwrap(),
            "{rate_given}"
        );
        assert!(pilot.pause_ns >= CROWDED_PAUSE_NS_MIN);
    }
}

#[test]
fn a_trial_that_was_crowded_is_flown_again_with_long_slices() {
    let air = Airspace::default();
    let mut pilot = Pilot::new(0, buffered(&[1, 3]), DEPTH);
    pilot.set_out(true);
    let mut usage = Usage::default();
    let mut ways = Vec::new();
    for tenth in 0..2500 {
        let rate = if pilot.way() == Way::Given(3) { 200 } else { 100 };
        air.count(rate * 1000);
        usage.at_ns += 100_000;
        usage.busy_ns += 100_000;
        // Others come after the first look.
        usage.delay_ns += if tenth < 120 { 0 } else { 40_000 };
        if pilot.is_due(usage.at_ns) {
            pilot.decide(usage, &air, || 0);
        }
        ways.push(pilot.way());
    }
    assert!(ways.contains(&Way::Shared(1)), "it began as a trial of all ways");
    assert_eq!(pilot.way(), Way::Given(3));
}

#[test]
fn one_pilot_tries_at_a_time() {
    let air = Airspace::default();
    air.is_taken.store(true, Ordering::Relaxed);
    let mut pilot = Pilot::new(0, buffered(&[1]), DEPTH);
    pilot.set_out(true);
    let ways = fly(&mut pilot, &air, 200, |_| (1000, 1.0));
    assert!(ways.iter().all(|way| *way == ways[0]));
    air.is_taken.store(false, Ordering::Relaxed);
    let ways = fly(&mut pilot, &air, 300, |_| (1000, 1.0));
    assert!(ways.iter().any(|way| way.helpers() == 1));
    assert!(!air.is_taken.load(Ordering::Relaxed));
}
