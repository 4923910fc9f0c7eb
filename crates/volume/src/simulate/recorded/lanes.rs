//! Which lane issues a request, and how long it computed before.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::dependencies::Who;
use super::processors::WorkClock;
use crate::model::SECOND_NS;
use crate::recording::Recorded;

/// What a request of a lane comes after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// So many of the requests of lanes are done, and then a lane has computed.
    Free { after_done: u32, computing_ns: u64 },
    /// The request of a lane before it.
    Request,
}

impl Cause {
    /// What a lane computes before the request.
    pub(super) fn computing_ns(self) -> u64 {
        match self {
            Self::Free { computing_ns, .. } => computing_ns,
            Self::Request => 0,
        }
    }
}

/// So often the number of processors is halved that was had: to less than 1 % of them.
const HALVINGS: usize = 7;

/// What each request of a lane comes after, the readings of the work clock, and the processors that were had.
pub(super) struct Inferred {
    pub(super) causes: Vec<Cause>,
    /// From when on the lane of each request has computed.
    pub(super) began_ns: Vec<u64>,
    pub(super) readings: Vec<f64>,
    pub(super) processors: f64,
}

/// What is known of lanes, before it is known what each of their requests comes after.
pub(super) struct Lanes<'a> {
    pub(super) requests: &'a [Recorded],
    /// The numbers of those that are waited for.
    pub(super) in_lanes: &'a [usize],
    /// For each of these, how many lanes there are around it.
    pub(super) lanes: &'a [u32],
    pub(super) who: Who,
    /// Of each request, whether it is one of several for which all lanes wait: these come when all before them are
    /// done, and the request behind them when all of them are.
    pub(super) bursts: &'a [bool],
    /// Times, in their order, of which the readings of the work clock are wanted.
    pub(super) instants: &'a [u64],
}

impl Lanes<'_> {
    /// What each request of a lane comes after. Where it is known how long processors were busy, as
    /// few lanes as must are taken for waiting for another's request instead of computing: what was computed is no
    /// more than that.
    pub(super) fn causes(&self) -> Inferred {
        let found = self.causes_with(self.in_lanes.len());
        let cpu_s = self.who.cpu_s;
        if self.who.commits > 0 && computing_s(&found.causes) > cpu_s && cpu_s > 0.0 {
            return self.with_fewer_processors(found);
        }
        if self.who.clients > 0 || cpu_s <= 0.0 || computing_s(&found.causes) <= cpu_s {
            return found;
        }
        // The more lanes may be free at once, the more is taken for computing.
        let (mut enough, mut too_many) = (1, self.lanes.iter().copied().max().unwrap_or(1) as usize + 1);
        let mut best = self.causes_with(enough);
        while too_many - enough > 1 {
            let middle = enough.midpoint(too_many);
            let found = self.causes_with(middle);
            if computing_s(&found.causes) <= cpu_s {
                (enough, best) = (middle, found);
            } else {
                too_many = middle;
            }
        }
        best
    }

    /// With as few processors as leave no more computing than they were busy: where every wait for a log is seen, lanes
    /// that did nothing else waited for a processor that somebody else had.
    fn with_fewer_processors(&self, mut found: Inferred) -> Inferred {
        let (mut fewest, mut most) = (self.who.processors_min.min(found.processors), found.processors);
        for _ in 0..HALVINGS {
            let processors = f64::midpoint(fewest, most);
            let who = Who {
                processors,
                ..self.who
            };
            let fewer = Lanes { who, ..*self }.causes_with(self.in_lanes.len());
            if computing_s(&fewer.causes) > self.who.cpu_s {
                most = processors;
                // On a log that is always busy little is seen of computing, so its readings stay.
                (found.causes, found.began_ns) = (fewer.causes, fewer.began_ns);
                found.processors = processors;
            } else {
                fewest = processors;
            }
        }
        found
    }

    /// As [`Lanes::causes`], where at most `free_max` lanes compute at once: of more, those that have been free for longest
    /// wait for something else.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // computing is less than time that passed
    fn causes_with(&self, free_max: usize) -> Inferred {
        let Self {
            requests,
            in_lanes,
            lanes,
            who,
            bursts,
            instants,
        } = *self;
        let mut readings = Vec::with_capacity(instants.len());
        let mut read_until = |clock: &mut WorkClock, now_ns: u64, computing: usize| {
            while let Some(at_ns) = instants.get(readings.len()).filter(|at_ns| **at_ns <= now_ns) {
                readings.push(clock.advance(*at_ns, computing));
            }
            clock.advance(now_ns, computing)
        };
        let mut clock = WorkClock::new(who.processors);
        let mut on_the_way: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
        // In the order of the requests that they will issue. Clients that are known compute from the beginning on.
        let mut free: VecDeque<Free> = VecDeque::new();
        free.resize((who.clients as usize).min(in_lanes.len()), Free::default());
        let mut population = who.clients;
        let (mut done, mut last_done_ns) = (0, 0);
        // A lane that has ended since the last request.
        let mut ended: Option<Free> = None;
        let mut found = Vec::with_capacity(in_lanes.len());
        let mut began_ns = Vec::with_capacity(in_lanes.len());
        for (number, index) in in_lanes.iter().enumerate() {
            let request = &requests[*index];
            while let Some(&Reverse((done_ns, which))) = on_the_way.peek() {
                if done_ns > request.issue_ns {
                    break;
                }
                on_the_way.pop();
                (done, last_done_ns) = (done + 1, done_ns);
                if bursts[in_lanes[which]] {
                    continue;
                }
                let lane = Free {
                    after_done: done,
                    reading: read_until(&mut clock, done_ns, free.len()),
                    at_ns: done_ns,
                };
                let lanes_max = if who.clients > 0 {
                    who.clients
                } else {
                    lanes[which]
                };
                if population > lanes_max {
                    population -= 1;
                    ended = Some(lane);
                } else if free.len() < in_lanes.len() - number {
                    free.push_back(lane);
                    if free.len() > free_max {
                        free.pop_front();
                        population -= 1;
                    }
                }
            }
            on_the_way.push(Reverse((request.done_ns, number)));
            let reading = read_until(&mut clock, request.issue_ns, free.len());
            let ended = ended.take();
            let is_behind_burst = number > 0 && bursts[in_lanes[number - 1]];
            if bursts[*index] && is_behind_burst {
                began_ns.push(request.issue_ns);
                found.push(Cause::Request);
                continue;
            }
            if bursts[*index] || is_behind_burst {
                began_ns.push(last_done_ns);
                found.push(Cause::Free {
                    after_done: done,
                    computing_ns: request.issue_ns - last_done_ns,
                });
                if is_behind_burst {
                    // The lanes had waited for it as well.
                    population += u32::from(free.pop_front().is_none());
                    free.iter_mut().for_each(|lane| {
                        *lane = Free {
                            after_done: done,
                            reading,
                            at_ns: request.issue_ns,
                        };
                    });
                }
                continue;
            }
            let lane = free.pop_front().or_else(|| {
                population += 1;
                ended
            });
            began_ns.push(lane.map_or(request.issue_ns, |lane| lane.at_ns));
            found.push(lane.map_or(Cause::Request, |lane| Cause::Free {
                after_done: lane.after_done,
                computing_ns: (reading - lane.reading).round() as u64,
            }));
        }
        let last_reading = clock.advance(0, free.len());
        readings.resize(instants.len(), last_reading);
        Inferred {
            causes: found,
            began_ns,
            readings,
            processors: who.processors,
        }
    }
}

/// A lane that is free: after so many requests were done, at this reading of the work clock, from this time on.
#[derive(Clone, Copy, Default)]
struct Free {
    after_done: u32,
    reading: f64,
    at_ns: u64,
}

/// Where clients are known, and how long processors were busy: who waited for another's write of a log did not compute
/// meanwhile, so what came before writes of logs is shortened in the proportion of the one to the other.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // shorter than it was
pub(super) fn shorten(causes: &mut [Cause], cpu_s: f64, is_of_log: impl Fn(usize) -> bool) {
    let share = cpu_s / computing_s(causes);
    if cpu_s <= 0.0 || share.is_nan() || share >= 1.0 {
        return;
    }
    for (lane, cause) in causes.iter_mut().enumerate() {
        match cause {
            Cause::Free { computing_ns, .. } if is_of_log(lane) => {
                *computing_ns = (*computing_ns as f64 * share).round() as u64;
            }
            _ => {}
        }
    }
}

fn computing_s(causes: &[Cause]) -> f64 {
    let computing: u64 = causes.iter().map(|cause| cause.computing_ns()).sum();
    computing as f64 / SECOND_NS as f64
}

#[cfg(test)]
mod tests {
    use super::super::on_their_way::{in_flight, lanes_nearby};
    use super::*;
    use crate::request::Kind;

    fn read(issue_ns: u64, done_ns: u64) -> Recorded {
        Recorded {
            issue_ns,
            done_ns,
            kind: Kind::Read,
            offset: issue_ns << 20,
            length: 8192,
        }
    }

    fn causes_of(requests: &[Recorded], who: Who) -> Vec<Cause> {
        let in_lanes: Vec<usize> = (0..requests.len()).collect();
        let lanes = lanes_nearby(&in_flight(requests, &in_lanes));
        causes_of_lanes(requests, &in_lanes, &lanes, who, &vec![false; requests.len()])
    }

    fn causes_of_lanes(
        requests: &[Recorded],
        in_lanes: &[usize],
        lanes: &[u32],
        who: Who,
        bursts: &[bool],
    ) -> Vec<Cause> {
        let lanes = Lanes {
            requests,
            in_lanes,
            lanes,
            who,
            bursts,
            instants: &[],
        };
        lanes.causes().causes
    }

    fn free(after_done: u32, computing_ns: u64) -> Cause {
        Cause::Free {
            after_done,
            computing_ns,
        }
    }

    #[test]
    fn a_client_that_asks_for_several_at_once_goes_on_when_all_are_done() {
        let requests = [
            read(5, 100),
            read(110, 200),
            read(111, 250),
            read(112, 220),
            read(260, 300),
        ];
        let one = Who {
            clients: 1,
            ..Who::on(1.0)
        };
        let expected = [
            free(0, 5),
            free(1, 10),
            Cause::Request,
            Cause::Request,
            free(4, 10),
        ];
        assert_eq!(causes_of(&requests, one), expected);
    }

    #[test]
    fn a_client_that_asks_again_before_all_are_done_waited_for_those_that_were() {
        let requests = [read(0, 100), read(1, 200), read(110, 300)];
        let one = Who {
            clients: 1,
            ..Who::on(1.0)
        };
        assert_eq!(
            causes_of(&requests, one),
            [free(0, 0), Cause::Request, free(1, 10)]
        );
    }

    #[test]
    fn behind_a_burst_nobody_has_computed_meanwhile() {
        let requests = [
            read(0, 100),
            read(200, 300),
            read(201, 400),
            read(450, 500),
            read(455, 600),
        ];
        let bursts = [false, true, true, false, false];
        let two = Who {
            clients: 2,
            ..Who::on(2.0)
        };
        let in_lanes: Vec<usize> = (0..5).collect();
        let found = causes_of_lanes(&requests, &in_lanes, &[2; 5], two, &bursts);
        let expected = [free(0, 0), free(1, 100), Cause::Request, free(3, 50), free(3, 5)];
        assert_eq!(found, expected);
    }

    #[test]
    fn who_waited_for_the_write_of_another_did_not_compute() {
        let mut found = vec![free(0, 3000), Cause::Request, free(1, 1000)];
        shorten(&mut found, 1e-6, |lane| lane == 0);
        assert_eq!(found, [free(0, 750), Cause::Request, free(1, 1000)]);
        let same = found.clone();
        shorten(&mut found, 1e-3, |_| true);
        shorten(&mut found, 0.0, |_| true);
        assert_eq!(found, same);
    }

    #[test]
    fn lanes_that_would_compute_for_longer_than_processors_were_busy_wait_for_others() {
        // Two on their way, and the one that is done first always waits for the other: 10 are computed for each pair.
        let requests: Vec<Recorded> = (0..1000_u64)
            .flat_map(|pair| {
                let at = pair * 1000;
                [read(at, at + 500), read(at, at + 990)]
            })
            .collect();
        let computing_ns = |who| (computing_s(&causes_of(&requests, who)) * 1e9).round() as u64;
        assert_eq!(computing_ns(Who::on(2.0)), 999 * (500 + 10));
        let known = Who {
            cpu_s: 12e-6,
            ..Who::on(2.0)
        };
        assert_eq!(computing_ns(known), 999 * 10);
        let enough = Who { cpu_s: 1.0, ..known };
        assert_eq!(computing_ns(enough), 999 * (500 + 10));
    }
}
