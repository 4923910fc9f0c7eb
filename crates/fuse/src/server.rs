//! The thread that serves: requests in, the model's deadlines, answers out.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::TryRecvError;
use std::thread;

use pgassay_volume::{Fault, Kind, Model};
use rustix::time::ClockId;

use crate::connection::{Connection, Received};
use crate::figures::{Counting, Second};
use crate::image::Image;
use crate::instance::{Imposed, Instance};
use crate::mailbox::{Command, Event, Facts, Inbox, Mailbox};
use crate::overhead::{KNOWN_NS, measure, measure_ceiling};
use crate::protocol::{
    Answer, Ask, Asked, DISK, EIO, ENOENT, ENOSYS, EPROTO, IN_HEADER, ROOT, TRANSFER_MAX, decode, number,
};
use crate::schedule::{Pending, Schedule, What, now_ns};
use crate::trace::Tracing;
use crate::waiting::Waiting;
use crate::wakeful::Wakeful;

/// The one file's name.
pub const FILE_NAME: &str = "disk";
const SECOND_NS: u64 = 1_000_000_000;
/// Messages taken before the answers are looked at again.
const BATCH: usize = 8;
/// A wait so short is spent awake: to sleep and to be woken by a timer takes as much time of a processor.
const SPIN_NS: u64 = 15_000;
/// An answer is late when it comes later by more than this part of its latency.
const TOLERANCE_PART: u64 = 20;
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

/// When requests are done.
#[derive(Debug)]
enum Regime {
    AtOnce,
    /// Each after a known time, while the overhead is measured.
    Known,
    Model(Box<Imposed>),
}

struct Server<'a> {
    setup: Setup,
    mailbox: &'a Mailbox,
    regime: Regime,
    schedule: Schedule,
    counting: Counting,
    cpu: ClockId,
    overhead_ns: u64,
    /// While answers have times.
    wakeful: Option<Wakeful>,
    tracing: Tracing,
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
        setup,
        mailbox,
        regime: Regime::AtOnce,
        schedule: Schedule::default(),
        counting: Counting::new(now_ns(), cpu),
        cpu,
        overhead_ns: 0,
        wakeful: None,
        tracing: Tracing::default(),
    };
    let mut waiting = Waiting::new(server.setup.connection.as_fd(), inbox.bell.as_fd())?;
    let mut buffer = vec![0; TRANSFER_MAX as usize + ROOM];
    loop {
        server.answer_due(&waiting)?;
        let mut is_drained = false;
        for _ in 0..BATCH {
            match server.setup.connection.receive(&mut buffer)? {
                Received::Message(length) => server.take(&buffer[..length])?,
                Received::Nothing => {
                    is_drained = true;
                    break;
                }
                Received::Over => return Ok(()),
            }
            server.answer_due(&waiting)?;
        }
        match inbox.commands.try_recv() {
            Ok(Command::End { unmounts }) => {
                if !unmounts {
                    server.setup.connection.leave();
                }
                return Ok(());
            }
            Err(TryRecvError::Disconnected) => return Ok(()),
            Ok(command) => {
                server.obey(command, &mut on_event);
                is_drained = false;
            }
            Err(TryRecvError::Empty) => {}
        }
        if let Some(second) = server.second_over() {
            on_event(Event::Second(second));
        }
        if is_drained {
            server.wait(&mut waiting)?;
        }
    }
}

impl Server<'_> {
    /// Sleeps until there is something to do, or almost: what is left until an answer's time is spent awake.
    fn wait(&mut self, waiting: &mut Waiting) -> io::Result<()> {
        let tick_ns = self.counting.began_ns() + SECOND_NS;
        let answer_ns = self.schedule.wake_ns();
        let wake_ns = answer_ns.map_or(tick_ns, |answer| answer.min(tick_ns));
        if wake_ns <= now_ns() + SPIN_NS {
            return Ok(());
        }
        if waiting.sleep_until(wake_ns)? && answer_ns == Some(wake_ns) {
            self.schedule.woke(wake_ns, now_ns());
        }
        Ok(())
    }

    fn obey(&mut self, command: Command, on_event: &mut impl FnMut(Event)) {
        let now = now_ns();
        match command {
            Command::Impose(model, seed, instance) => match self.impose(&model, seed, instance, now) {
                Ok(facts) => on_event(Event::Imposed(facts)),
                Err(fault) => on_event(Event::Refused(fault.to_string())),
            },
            Command::Release => {
                let last = self.figures(now);
                self.answer_at_once();
                self.tracing.end();
                on_event(Event::Released(last));
            }
            Command::Trace(path) => self.tracing.ask_for(path),
            Command::Traced(traced) => on_event(Event::Traced(traced)),
            Command::MeasureOverhead(device) => {
                self.answer_in_known_time();
                self.beside(move || Command::Measured(measure(&device)));
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
            Command::Measured(found) => {
                self.answer_at_once();
                match found {
                    Ok(overhead) => {
                        self.overhead_ns = overhead.p50_ns;
                        on_event(Event::Overhead(overhead));
                    }
                    Err(error) => on_event(Event::Refused(format!("can't read the device: {error}"))),
                }
            }
            Command::End { .. } => {}
        }
    }

    fn answer_at_once(&mut self) {
        self.regime = Regime::AtOnce;
        self.wakeful = None;
    }

    fn answer_in_known_time(&mut self) {
        self.regime = Regime::Known;
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
        self.tracing.begin(now, self.overhead_ns, on_end)?;
        let clock_ns = imposed.began_ns();
        self.regime = Regime::Model(Box::new(imposed));
        self.counting = Counting::new(now, self.cpu);
        if self.wakeful.is_none() {
            self.wakeful = Wakeful::ask();
        }
        Ok(Facts {
            clock_ns,
            overhead_ns: self.overhead_ns,
            wakeful: self.wakeful.is_some(),
        })
    }

    /// The figures of the second, where one is over and a model holds.
    fn second_over(&mut self) -> Option<Second> {
        let now = now_ns();
        if now < self.counting.began_ns() + SECOND_NS {
            return None;
        }
        let second = self.figures(now);
        matches!(self.regime, Regime::Model(_)).then_some(second)
    }

    fn figures(&mut self, now: u64) -> Second {
        let credits = match &self.regime {
            Regime::Model(imposed) => imposed.levels(now),
            Regime::AtOnce | Regime::Known => Vec::new(),
        };
        self.counting.take(now, self.schedule.len(), credits)
    }

    /// Sends the answers whose time has come.
    fn answer_due(&mut self, waiting: &Waiting) -> io::Result<()> {
        let mut is_any = false;
        loop {
            let now = now_ns();
            let Some(pending) = self.schedule.take_due(now) else {
                if is_any {
                    waiting.complete();
                }
                return Ok(());
            };
            is_any = true;
            let kind = match pending.what {
                What::Read { .. } => Kind::Read,
                What::Write { .. } => Kind::Write,
                What::Flush => Kind::Flush,
            };
            let late_ns = now.saturating_sub(pending.due_ns);
            self.counting.answered(kind, late_ns, pending.tolerance_ns);
            self.tracing.answered(pending.unique, now);
            self.answer(&pending)?;
        }
    }

    fn answer(&mut self, pending: &Pending) -> io::Result<()> {
        let Setup {
            connection, image, ..
        } = &mut self.setup;
        if pending.error != 0 {
            self.counting.failed(pending.error);
            return connection.answer(pending.unique, pending.error, &[]);
        }
        match pending.what {
            What::Read { offset, length } => match image.read(offset, length) {
                Ok(data) => connection.answer(pending.unique, 0, data),
                Err(error) => {
                    let error = number(&error);
                    self.counting.failed(error);
                    connection.answer(pending.unique, error, &[])
                }
            },
            What::Write { bytes } => connection.answer(pending.unique, 0, Answer::written(bytes).bytes()),
            What::Flush => connection.answer(pending.unique, 0, &[]),
        }
    }

    /// Takes a message: what the volume does is scheduled, all else is answered at once.
    fn take(&mut self, message: &[u8]) -> io::Result<()> {
        let Some(Asked { unique, node, ask }) = decode(message) else {
            return if message.len() >= IN_HEADER {
                let unique = message[8..16].try_into().map_or(0, u64::from_ne_bytes);
                self.setup.connection.answer(unique, EIO, &[])
            } else {
                Ok(())
            };
        };
        let bytes = self.setup.image.bytes();
        let answer = match ask {
            Ask::Read { offset, length } if node == DISK => {
                self.schedule_one(
                    Kind::Read,
                    unique,
                    offset,
                    length,
                    0,
                    What::Read { offset, length },
                );
                return Ok(());
            }
            Ask::Write { offset, data } if node == DISK => {
                // Written now and acknowledged when the model says: nobody may rely on it before that.
                let done = self.setup.image.write(offset, data);
                let error = done.as_ref().err().map_or(0, number);
                let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
                self.schedule_one(
                    Kind::Write,
                    unique,
                    offset,
                    length,
                    error,
                    What::Write { bytes: length },
                );
                return Ok(());
            }
            Ask::Flush if node == DISK => {
                // What was acknowledged survives a killed process, as it lies in memory or the page cache.
                self.schedule_one(Kind::Flush, unique, 0, 0, 0, What::Flush);
                return Ok(());
            }
            Ask::Silent => return Ok(()),
            Ask::Init { major, flags } => Answer::init(major, flags).ok_or(EPROTO),
            Ask::Lookup { name } if node == ROOT && name == FILE_NAME.as_bytes() => Ok(Answer::entry(bytes)),
            Ask::Lookup { .. } => Err(ENOENT),
            Ask::GetAttributes | Ask::SetAttributes => Ok(Answer::of_node(node, bytes)),
            Ask::Open => Ok(Answer::opened(true)),
            Ask::OpenFolder => Ok(Answer::opened(false)),
            Ask::ReadFolder { offset } => Ok(Answer::entries(FILE_NAME, offset)),
            Ask::Statistics => Ok(Answer::statistics(bytes)),
            Ask::Nothing | Ask::Destroy | Ask::Flush => Ok(Answer::default()),
            Ask::Read { .. } | Ask::Write { .. } => Err(EIO),
            Ask::Unknown => Err(ENOSYS),
        };
        match answer {
            Ok(answer) => self.setup.connection.answer(unique, 0, answer.bytes()),
            Err(error) => self.setup.connection.answer(unique, error, &[]),
        }
    }

    fn schedule_one(&mut self, kind: Kind, unique: u64, offset: u64, length: u32, error: i32, what: What) {
        let mut now = now_ns();
        let mut tolerance_ns = u64::MAX;
        let due_ns = match &mut self.regime {
            Regime::AtOnce => now,
            Regime::Known => now + KNOWN_NS,
            Regime::Model(imposed) => {
                let completion = imposed.submit(&mut now, kind, offset, length);
                self.counting.arrived(kind, length, &completion);
                self.tracing.issued(unique, now, kind, offset, length);
                let due_ns = imposed.began_ns().saturating_add(completion.done_ns);
                tolerance_ns = due_ns.saturating_sub(now) / TOLERANCE_PART;
                due_ns.saturating_sub(self.overhead_ns)
            }
        };
        self.schedule.add(Pending {
            due_ns,
            unique,
            tolerance_ns,
            error,
            what,
        });
    }
}
