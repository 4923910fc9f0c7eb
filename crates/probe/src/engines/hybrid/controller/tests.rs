//! What the controller decides, given rates.

use std::sync::atomic::Ordering;

use super::*;

const DEPTH: usize = 16;

fn buffered(helpers: &[usize]) -> Vec<Mode> {
    let mut modes = vec![Mode::Own, Mode::Ring];
    modes.extend(helpers.iter().map(|count| Mode::Shared(*count)));
    modes.extend(helpers.last().map(|count| Mode::Given(*count)));
    modes
}

/// Runs for `milliseconds`, given each mode's rate (bytes a microsecond) and the consumer's share of a core;
/// returns for each tenth of a millisecond the mode.
fn run(
    controller: &mut Controller,
    coordinator: &Coordinator,
    milliseconds: u64,
    rate: impl Fn(Mode) -> (u64, f64),
) -> Vec<Mode> {
    let mut usage = controller.from.unwrap_or_default();
    let mut modes = Vec::new();
    let mut requests = coordinator.total().requests as f64;
    for _ in 0..milliseconds * 10 {
        let (bytes, share) = rate(controller.mode());
        modes.push(controller.mode());
        coordinator.bytes.fetch_add(bytes * 100, Ordering::Relaxed);
        requests += bytes as f64 * 100.0 / 131_072.0;
        coordinator.requests.store(requests as u64, Ordering::Relaxed);
        usage.at_ns += 100_000;
        usage.busy_ns += (100_000.0 * share) as u64;
        if controller.is_due(usage.at_ns) {
            controller.decide(usage, coordinator, || 0);
        }
    }
    modes
}

#[test]
fn once_tried_nothing_is_tried_while_the_core_is_free() {
    let coordinator = Coordinator::default();
    let mut controller = Controller::new(0, buffered(&[1]), DEPTH);
    controller.restart(true);
    run(&mut controller, &coordinator, 200, |_| (1000, 0.4));
    let modes = run(&mut controller, &coordinator, 2000, |_| (1000, 0.4));
    assert!(modes.iter().all(|mode| *mode == Mode::Own));
}

#[test]
fn help_is_kept_where_it_helps_and_given_up_when_it_no_longer_does() {
    let coordinator = Coordinator::default();
    let mut controller = Controller::new(0, buffered(&[1, 3]), DEPTH);
    controller.restart(true);
    run(&mut controller, &coordinator, 300, |mode| {
        (1000 + 300 * mode.helpers() as u64, 1.0)
    });
    assert_eq!(controller.mode(), Mode::Shared(3));
    run(&mut controller, &coordinator, 60_000, |_| (100, 0.2));
    assert_eq!(controller.mode().helpers(), 0);
}

#[test]
fn of_modes_that_are_equally_fast_the_cheapest_is_kept() {
    let coordinator = Coordinator::default();
    let mut controller = Controller::new(0, buffered(&[1, 3, 8]), DEPTH);
    controller.restart(true);
    let rate = |mode: Mode| (if mode.helpers() >= 3 { 1500 } else { 1000 }, 1.0);
    run(&mut controller, &coordinator, 300, rate);
    assert_eq!(controller.mode(), Mode::Shared(3));
}

#[test]
fn a_little_faster_is_not_worth_a_helper() {
    let coordinator = Coordinator::default();
    let mut controller = Controller::new(0, buffered(&[1]), DEPTH);
    controller.restart(true);
    let rate = |mode: Mode| (if mode.helpers() > 0 { 1030 } else { 1000 }, 1.0);
    run(&mut controller, &coordinator, 300, rate);
    assert_eq!(controller.mode(), Mode::Own);
}

#[test]
fn trials_that_bring_nothing_become_rare() {
    let coordinator = Coordinator::default();
    let mut controller = Controller::new(0, buffered(&[1]), DEPTH);
    controller.restart(true);
    let modes = run(&mut controller, &coordinator, 20_000, |_| (1000, 1.0));
    let elsewhere = modes.iter().filter(|mode| **mode != Mode::Own).count();
    assert!(elsewhere > 0 && elsewhere * 50 < modes.len(), "{elsewhere}");
}

#[test]
fn a_slow_device_gets_longer_slices() {
    let coordinator = Coordinator::default();
    let mut controller = Controller::new(0, buffered(&[1]), DEPTH);
    controller.restart(true);
    let modes = run(&mut controller, &coordinator, 1000, |_| (200, 1.0));
    let slices = modes.chunk_by(|one, other| one == other);
    let shared = slices.filter(|slice| slice[0].helpers() > 0);
    let shortest = shared.map(<[_]>::len).min();
    assert!(shortest.is_some_and(|tenths| tenths >= 200), "{shortest:?}");
}

#[test]
fn what_the_device_delivers_goes_through_the_ring() {
    let mut controller = Controller::new(0, buffered(&[]), DEPTH);
    controller.restart(true);
    let total = [0, 0, 40, 80, 80, 80].map(|megabytes: u64| megabytes << 20);
    let modes = total.map(|delivered| {
        if controller.has_cache_changed(41_943_040.0, delivered) {
            controller.restart(!controller.is_cached);
        }
        controller.mode()
    });
    let (own, ring) = (Mode::Own, Mode::Ring);
    assert_eq!(modes, [own, own, ring, ring, ring, own]);
}

/// Runs for 300 milliseconds among others that want the cores, given the rate of helpers to whom all is left; the
/// other modes have 100 bytes a microsecond.
fn run_contended(controller: &mut Controller, rate_given: u64) -> Vec<Mode> {
    let coordinator = Coordinator::default();
    let mut usage = Usage::default();
    let mut modes = Vec::new();
    for _ in 0..3000 {
        let is_given = matches!(controller.mode(), Mode::Given(_));
        coordinator.count(if is_given { rate_given } else { 100 } * 1000);
        usage.at_ns += 100_000;
        usage.busy_ns += 100_000;
        usage.delay_ns += 40_000;
        if controller.is_due(usage.at_ns) {
            controller.decide(usage, &coordinator, || 0);
        }
        modes.push(controller.mode());
    }
    modes.dedup();
    modes
}

#[test]
fn where_others_want_the_cores_all_is_given_to_helpers_if_that_helps() {
    let mut controller = Controller::new(0, buffered(&[1, 3]), DEPTH);
    controller.restart(true);
    let modes = run_contended(&mut controller, 150);
    assert_eq!(modes[..2], [Mode::Own, Mode::Given(3)]);
    assert_eq!(controller.mode(), Mode::Given(3));
    assert!(
        modes
            .iter()
            .all(|mode| matches!(mode, Mode::Own | Mode::Given(_)))
    );
}

#[test]
fn where_others_want_the_cores_helpers_are_kept_unless_they_are_clearly_slower() {
    for (rate_given, expected) in [(96, Mode::Given(3)), (80, Mode::Own)] {
        let mut controller = Controller::new(0, buffered(&[1, 3]), DEPTH);
        controller.restart(true);
        run_contended(&mut controller, rate_given);
        assert_eq!(
            controller.kept,
            controller
                .modes
                .iter()
                .position(|mode| *mode == expected)
                .unwrap(),
            "{rate_given}"
        );
        assert!(controller.pause_ns >= CONTENDED_PAUSE_NS_MIN);
    }
}

#[test]
fn a_trial_that_was_contended_is_repeated_with_long_slices() {
    let coordinator = Coordinator::default();
    let mut controller = Controller::new(0, buffered(&[1, 3]), DEPTH);
    controller.restart(true);
    let mut usage = Usage::default();
    let mut modes = Vec::new();
    for tenth in 0..2500 {
        let rate = if controller.mode() == Mode::Given(3) {
            200
        } else {
            100
        };
        coordinator.count(rate * 1000);
        usage.at_ns += 100_000;
        usage.busy_ns += 100_000;
        // Others come after the first observation.
        usage.delay_ns += if tenth < 120 { 0 } else { 40_000 };
        if controller.is_due(usage.at_ns) {
            controller.decide(usage, &coordinator, || 0);
        }
        modes.push(controller.mode());
    }
    assert!(
        modes.contains(&Mode::Shared(1)),
        "it began as a trial of all modes"
    );
    assert_eq!(controller.mode(), Mode::Given(3));
}

#[test]
fn one_controller_tries_at_a_time() {
    let coordinator = Coordinator::default();
    assert!(coordinator.begin_trial());
    let mut controller = Controller::new(0, buffered(&[1]), DEPTH);
    controller.restart(true);
    let modes = run(&mut controller, &coordinator, 200, |_| (1000, 1.0));
    assert!(modes.iter().all(|mode| *mode == modes[0]));
    coordinator.end_trial();
    let modes = run(&mut controller, &coordinator, 300, |_| (1000, 1.0));
    assert!(modes.iter().any(|mode| mode.helpers() == 1));
    assert!(coordinator.begin_trial(), "no trial was left open");
}
