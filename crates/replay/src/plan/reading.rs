//! One reading of a capture, in the order of time.

use std::collections::HashMap;
use std::path::Path;

use pgassay_capture::Fault;
use pgassay_capture::format::event::{Begin, EndReason, What};
use pgassay_capture::store::reader::Capture;

use super::early::{Earlier, Held};
use super::links::Links;
use super::makers::Makers;
use super::order::Order;
use super::parts::{Maker, Plan, Session, Wanted};
use super::session::Reading;
use super::shared::{Shared, span};
use super::texts::Texts;
use super::values::Values;

/// Reads a capture.
///
/// # Errors
/// When it can't be read.
pub fn read(folder: &Path, wanted: &Wanted) -> Result<Plan, Fault> {
    let capture = Capture::open(folder)?;
    let mut shared = Shared {
        plan: Plan::default(),
        texts: Texts::new(wanted),
        order: Order::new(wanted.tables),
        values: Values::default(),
    };
    shared.plan.unfinished = capture.unfinished.len();
    let mut open: HashMap<u32, Reading> = HashMap::new();
    let mut early = Earlier::new(wanted.from_ns.unwrap_or(0));
    let mut done: Vec<Reading> = Vec::new();
    let mut from_ns = wanted.from_ns;
    for event in capture.events()? {
        let event = event?;
        if wanted.until_ns.is_some_and(|until_ns| event.at_ns >= until_ns) {
            break;
        }
        if let What::Begin(begin) = &event.what {
            match chosen(begin, event.session, wanted) {
                Some(database) => {
                    let at_ns = early.begun(&event);
                    from_ns.get_or_insert(at_ns);
                    let session = begun(begin, database, at_ns, shared.order.ended());
                    let number = shared.values.database(&begin.database());
                    open.insert(
                        event.session,
                        Reading::new(session, event.session, begin.database(), number),
                    );
                }
                None => shared.plan.left_out += 1,
            }
            continue;
        }
        let Some(reading) = open.get_mut(&event.session) else {
            continue;
        };
        match early.holds(&event) {
            Held::No => {}
            Held::Still => continue,
            Held::Ended => {
                open.remove(&event.session);
                continue;
            }
            Held::Begins(steps) => {
                for (messages, answers) in steps {
                    reading.sent(&messages, early.first_ns, &mut shared);
                    reading.answered(&answers, early.first_ns, &mut shared);
                }
            }
        }
        shared.plan.to_ns = shared.plan.to_ns.max(event.at_ns);
        match event.what {
            What::Messages(messages) => reading.sent(&messages, event.at_ns, &mut shared),
            What::Answers(answers) => reading.answered(&answers, event.at_ns, &mut shared),
            What::Cancel => reading.cancelled(event.at_ns),
            What::End(end) => {
                if let Some(mut reading) = open.remove(&event.session) {
                    reading.finish(&mut shared);
                    if end.reason == EndReason::Refused {
                        shared.plan.left_out += 1;
                        // What its client sent ahead has places in the queues, which nobody would take.
                        for step in &reading.session.steps {
                            let marks = shared.plan.marks[step.marks.range()].to_vec();
                            shared.plan.undone.extend(marks);
                        }
                    } else {
                        if end.reason != EndReason::CaptureEnded {
                            reading.session.end_ns = Some(event.at_ns);
                            reading.session.ended_place = Some(shared.order.end());
                        }
                        done.push(reading);
                    }
                }
            }
            What::Begin(_) | What::Ready | What::Dropped => {}
        }
    }
    for (_, mut reading) in open {
        reading.finish(&mut shared);
        done.push(reading);
    }
    shared.plan.from_ns = from_ns.unwrap_or(0);
    Ok(together(shared, done))
}

/// The server's database that a session is played in; none where it is left out.
fn chosen(begin: &Begin, session: u32, wanted: &Wanted) -> Option<String> {
    let is_wanted = (wanted.users.is_empty() || wanted.users.contains(&begin.user()))
        && wanted.sample.is_none_or(|share| drawn(session) < share);
    wanted
        .databases
        .get(&begin.database())
        .filter(|_| is_wanted)
        .cloned()
}

/// A number from 0 to 1 that is a session's own, so that a larger sample has the sessions of a smaller one.
fn drawn(session: u32) -> f64 {
    // The last steps of MurmurHash3: numbers that follow each other become far apart.
    let mut mixed = session;
    for factor in [0x85eb_ca6b, 0xc2b2_ae35] {
        mixed = (mixed ^ (mixed >> 15)).wrapping_mul(factor);
    }
    f64::from(mixed ^ (mixed >> 16)) / f64::from(u32::MAX)
}

fn begun(begin: &Begin, database: String, at_ns: u64, after_ended: u32) -> Session {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Session {
        begin_ns: at_ns,
        end_ns: None,
        parameters: begin
            .parameters
            .iter()
            .map(|(name, value)| (text(name), text(value)))
            .collect(),
        user: begin.user(),
        database,
        steps: Vec::new(),
        expected: Vec::new(),
        cancels: Vec::new(),
        after_ended,
        ended_place: None,
    }
}

/// Sessions in the order of their beginnings; of the places where values were used, those that have a source.
fn together(shared: Shared<'_>, mut done: Vec<Reading>) -> Plan {
    let Shared {
        mut plan,
        texts,
        order,
        values,
    } = shared;
    done.sort_by_key(|reading| reading.session.begin_ns);
    let all = std::mem::take(&mut plan.places);
    let links = Links::new(&values, &all);
    // Places were written in the order of steps, and a step's lie together.
    for step in done.iter_mut().flat_map(|reading| &mut reading.session.steps) {
        let from = plan.places.len();
        plan.places
            .extend(links.chosen(&all[step.places.range()]).cloned());
        step.places = span(from, plan.places.len());
    }
    plan.queues_of_values = order.ended_queue();
    let ended = wait_for_makers(&mut plan, &values.makers, &mut done);
    plan.queues = ended as usize + 1;
    plan.families = texts.families;
    plan.sessions = done.into_iter().map(|reading| reading.session).collect();
    plan
}

/// Steps wait for those of other sessions that made their values; gives the next free queue.
fn wait_for_makers(plan: &mut Plan, all: &[Maker], done: &mut [Reading]) -> u32 {
    let sessions: HashMap<u32, &Session> = done.iter().map(|each| (each.number, &each.session)).collect();
    let sent_ns = |(session, step): &Maker| {
        let step = sessions
            .get(session)
            .and_then(|found| found.steps.get(*step as usize));
        step.map_or(u64::MAX, |step| step.at_ns)
    };
    let mut makers = Makers::new(all.iter().map(sent_ns).collect());
    for reading in &*done {
        for step in &reading.session.steps {
            for place in &plan.places[step.places.range()] {
                if place.maker != u32::MAX && all[place.maker as usize].0 != reading.number {
                    makers.need(place.source, place.maker);
                }
            }
        }
    }
    let free = makers.settle(all, plan.queues_of_values);
    for reading in done {
        let steps = &mut reading.session.steps;
        let mut first = 0;
        for number in 0..steps.len() {
            if !steps[number].is_within {
                first = number;
            }
            let own = (reading.number, u32::try_from(number).unwrap_or(u32::MAX));
            makers.add(steps, first, own, all, plan);
        }
    }
    free
}
