//! The thread that serves: requests in, the model's deadlines, answers out.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::TryRecvError;
use std::thread;

use pgassay_volume::{Fault, Model};
use rustix::time::ClockId;

use crate::connection::{Connection, Received};
use crate::counters::Counters;
use crate::figures::{Counting, Second};
use crate::image::{Image, Pages};
use crate::instance::{Imposed, Instance};
use crate::mailbox::{Command, Event, Facts, Inbox, Mailbox};
use crate::overhead::{measure, measure_ceiling};
use crate::placing::Placing;
use crate::protocol::{IN_HEADER, TRANSFER_MAX, WRITE_IN};
use crate::requests::{Regime, Requests};
use crate::schedule::{Schedule, now_ns};
use crate::trace::Tracing;
use crate::waiting::{Waiting, Woken};
use crate::wakeful::Wakeful;
use crate::way::Way;

const SECOND_NS: u64 = 1_000_000_000;
/// Messages taken before the answers are looked at again.
const BATCH: usize = 8;
/// A wait so short is spent awake: to sleep and to be woken by a timer takes as much time of a processor.
const SPIN_NS: u64 = 15_000;
/// So long it stays awake after it woke up: to answer, and by a wait that is too short.
const AWAKE_NS: u64 = 2 * SPIN_NS;
/// Messages stay unseen for no longer.
const UNSEEN_MAX_NS: u64 = 1_000_000;
/// What the kernel may put before the data of a write, and more.
const ROOM: usize = 4096;

/// What is served.
#[derive(Debug)]
pub struct Setup {
    /// Where.
    pub connection: Connection,
    /// What.
    pub image: Image,
    /// Whether this process serves another volume already, which counts the CPU time of the whole process.
    pub is_further: bool,
}

/// Whether to look for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    No,
    Now,
    /// They may have come at any time since then.
    Since(u64),
}

struct Server<'a> {
    requests: Requests,
    mailbox: &'a Mailbox,
    cpu: ClockId,
    placing: Placing,
    /// While answers have times.
    wakeful: Option<Wakeful>,
}

/// Serves until it is told to end, or the file system is unmounted. `on_event` is called on this thread and must
/// return at once: whoever waits in it may be waiting for the very volume.
///
/// # Errors
/// When the connection with the kernel breaks.
pub fn serve(
    setup: Setup,
    inbox: &Inbox,
    mailbox: &Mailbox,
    mut on_event: impl FnMut(Event),
) -> io::Result<()> {
    let cpu = if setup.is_further {
        ClockId::ThreadCPUTime
    } else {
        ClockId::ProcessCPUTime
    };
    let mut server = Server {
        requests: Requests {
            connection: setup.connection,
            image: setup.image,
            regime: Regime::AtOnce,
            schedule: Schedule::default(),
            counting: Counting::new(now_ns(), cpu),
            way: Way::default(),
            tracing: Tracing::default(),
        },
        mailbox,
        cpu,
        placing: Placing::of_this_thread(),
        wakeful: None,
    };
    let mut waiting = Waiting::new(server.requests.connection.as_fd(), inbox.bell.as_fd())?;
    // The data of a write begin with a page.
    let mut buffer = Pages::new(TRANSFER_MAX as usize + ROOM, IN_HEADER + WRITE_IN);
    let mut look = Look::Now;
    loop {
        let messages = if look == Look::No { 0 } else { BATCH };
        for _ in 0..messages {
            match server.requests.connection.receive(buffer.bytes_mut())? {
                Received::Message(length) => {
                    let came_ns = if let Look::Since(since_ns) = look {
                        since_ns
                    } else {
                        now_ns()
                    };
                    server.requests.take(&buffer.bytes()[..length], came_ns)?;
                }
                Received::Nothing => {
                    look = Look::No;
                    break;
                }
                Received::Over => return Ok(()),
            }
            server.requests.answer_due(&waiting)?;
        }
        server.requests.answer_due(&waiting)?;
        match inbox.commands.try_recv() {
            Ok(Command::End { unmounts }) => {
                if !unmounts {
                    server.requests.connection.leave();
                }
                return Ok(());
            }
            Err(TryRecvError::Disconnected) => return Ok(()),
            Ok(command) => {
                server.obey(command, &mut on_event);
                look = Look::Now;
            }
            Err(TryRecvError::Empty) => {}
        }
        server.requests.way.look();
        if let Some(second) = server.second_over() {
            on_event(Event::Second(second));
        }
        if look == Look::No {
            look = server.wait(&mut waiting)?;
        }
    }
}

impl Server<'_> {
    /// Sleeps until there is something to do, or almost: what is left until an answer's time is spent awake.
    fn wait(&mut self, waiting: &mut Waiting) -> io::Result<Look> {
        let tick_ns = self.requests.counting.began_ns() + SECOND_NS;
        let [answer_ns, later_ns] = self.requests.schedule.wakes_ns();
        let wake_ns = answer_ns.map_or(tick_ns, |answer| answer.min(tick_ns));
        let then_ns = if answer_ns == Some(wake_ns) {
            // What comes sooner finds it awake, and a timer that rings then only takes time.
            let slept = later_ns.filter(|&later| later > wake_ns + AWAKE_NS);
            slept.map_or(tick_ns, |later| later.min(tick_ns))
        } else {
            answer_ns.unwrap_or(tick_ns + SECOND_NS)
        };
        let now = now_ns();
        if wake_ns <= now + SPIN_NS {
            return Ok(Look::Now);
        }
        if answer_ns.is_some() && self.placing.settle(now) {
            waiting.moved();
        }
        if wake_ns <= now + UNSEEN_MAX_NS && self.requests.may_be_taken_later(wake_ns) {
            waiting.pause_until(wake_ns, then_ns)?;
            self.requests.way.is_unsure();
            self.woke(wake_ns);
            return Ok(Look::Since(now));
        }
        let woken = waiting.sleep_until(wake_ns, then_ns)?;
        if woken != Woken::ByTime {
            return Ok(Look::Now);
        }
        if answer_ns == Some(wake_ns) {
            self.woke(wake_ns);
        }
        Ok(Look::No)
    }

    fn woke(&mut self, wake_ns: u64) {
        let now = now_ns();
        self.requests.schedule.woke(wake_ns, now);
        self.placing.woke(wake_ns, now);
    }

    fn obey(&mut self, command: Command, on_event: &mut impl FnMut(Event)) {
        let now = now_ns();
        match command {
            Command::Impose(model, seed, instance) => match self.impose(&model, seed, instance, now) {
                Ok(facts) => on_event(Event::Imposed(facts)),
                Err(fault) => on_event(Event::Refused(fault.to_string())),
            },
            Command::Release => {
                let last = self.requests.figures(now);
                self.answer_at_once();
                self.requests.tracing.end();
                on_event(Event::Released(last));
            }
            Command::Trace(path) => self.requests.tracing.ask_for(path),
            Command::Traced(traced) => on_event(Event::Traced(traced)),
            Command::MeasureOverhead(device) => {
                self.answer_in_known_time();
                self.beside(move || {
                    let found = measure(&device);
                    Command::Measured(device, found)
                });
            }
            Command::MeasureCeiling(device) => {
                self.answer_in_known_time();
                self.beside(move || Command::MeasuredCeiling(measure_ceiling(&device)));
            }
            Command::MeasuredCeiling(found) => {
                self.answer_at_once();
                on_event(match found {
                    Ok(ceiling) => Event::Ceiling(ceiling),
                    Err(error) => Event::Refused(format!("can't read the device: {error}")),
                });
            }
            Command::Measured(device, found) => {
                self.answer_at_once();
                match found {
                    Ok(overhead) => {
                        self.requests.way = Way::new(overhead, Counters::of(&device).ok());
                        on_event(Event::Overhead(overhead));
                    }
                    Err(error) => on_event(Event::Refused(format!("can't read the device: {error}"))),
                }
            }
            Command::End { .. } => {}
        }
    }

    fn answer_at_once(&mut self) {
        self.requests.regime = Regime::AtOnce;
        self.wakeful = None;
    }

    fn answer_in_known_time(&mut self) {
        self.requests.regime = Regime::Known;
        self.wakeful = Wakeful::ask();
    }

    /// Does what waits for this very server on a thread of its own.
    fn beside(&self, work: impl FnOnce() -> Command + Send + 'static) {
        let mailbox = self.mailbox.clone();
        let work = move || mailbox.send(work());
        // Without a thread the answer never comes; who asked for it has a time limit.
        let _ = thread::Builder::new().name("measuring".to_owned()).spawn(work);
    }

    fn impose(
        &mut self,
        model: &Model,
        seed: u64,
        instance: Option<Arc<Instance>>,
        now: u64,
    ) -> Result<Facts, Fault> {
        let imposed = Imposed::new(model, seed, instance, now)?;
        let mailbox = self.mailbox.clone();
        let on_end = move |traced| mailbox.send(Command::Traced(traced));
        self.requests
            .tracing
            .begin(now, self.requests.way.measured().p50_ns, on_end)?;
        let clock_ns = imposed.began_ns();
        self.requests.way.begin();
        self.requests.regime = Regime::Model(Box::new(imposed));
        self.requests.counting = Counting::new(now, self.cpu);
        if self.wakeful.is_none() {
            self.wakeful = Wakeful::ask();
        }
        Ok(Facts {
            clock_ns,
            overhead_ns: self.requests.way.measured().p50_ns,
            wakeful: self.wakeful.is_some(),
        })
    }

    /// The figures of the second, where one is over and a model holds.
    fn second_over(&mut self) -> Option<Second> {
        let now = now_ns();
        if now < self.requests.counting.began_ns() + SECOND_NS {
            return None;
        }
        let second = self.requests.figures(now);
        matches!(self.requests.regime, Regime::Model(_)).then_some(second)
    }
}
