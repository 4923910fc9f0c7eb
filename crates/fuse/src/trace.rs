//! Requests under a model, recorded in a file: chunks are written by a thread of their own.
//!
//! What waits to be written is bounded. Where the file's disk does not keep up, whole chunks are left out, and
//! the end of the file says how many requests they had.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use pgassay_volume::recording::{Encoder, Recorded, header, trailer};
use pgassay_volume::{Fault, Kind};
use serde::Serialize;

/// Chunks of 64 KiB that may wait to be written: half a second of 500 MB/s in sequence, and far more.
const CHUNKS_WAITING_MAX: usize = 256;
/// A file is no longer: some twenty million requests.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// What became of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traced {
    /// Requests in the file.
    pub requests: u64,
    /// Requests that were served and are not in it.
    pub lost: u64,
    /// How long the file is.
    pub bytes: u64,
    /// Why it ends early, in words.
    pub error: Option<String>,
}

/// What is on its way to the writing thread.
enum Part {
    Chunk(Vec<u8>, u32),
    /// The end, with the number of requests that were left out.
    End(u64),
}

/// A recording, where one was asked for.
#[derive(Debug, Default)]
pub(crate) struct Tracing {
    asked: Option<PathBuf>,
    recorder: Option<Recorder>,
}

#[derive(Debug)]
struct Recorder {
    began_ns: u64,
    /// By the kernel's number.
    on_their_way: HashMap<u64, Recorded>,
    encoder: Encoder,
    parts: SyncSender<Part>,
    lost: u64,
}

impl Tracing {
    /// Records the requests under the next model.
    pub(crate) fn ask_for(&mut self, path: PathBuf) {
        self.asked = Some(path);
    }

    /// Whether requests are recorded.
    pub(crate) fn is_on(&self) -> bool {
        self.recorder.is_some()
    }

    /// Begins, where it was asked for; time 0 is now. `on_end` is told by the writing thread that the file is whole.
    pub(crate) fn begin(
        &mut self,
        now_ns: u64,
        overhead_ns: u64,
        on_end: impl FnOnce(Traced) + Send + 'static,
    ) -> Result<(), Fault> {
        // A model in place of another is another recording.
        self.end();
        let Some(path) = self.asked.take() else {
            return Ok(());
        };
        let start = || -> io::Result<SyncSender<Part>> {
            let mut file = new_file(&path)?;
            file.write_all(&header(now_ns, overhead_ns))?;
            let (parts, written) = sync_channel(CHUNKS_WAITING_MAX);
            thread::Builder::new().name("trace".to_owned()).spawn(move || {
                on_end(write_parts(file, &written));
            })?;
            Ok(parts)
        };
        let parts = start().map_err(|error| Fault(format!("can't record in {}: {error}", path.display())))?;
        self.recorder = Some(Recorder {
            began_ns: now_ns,
            on_their_way: HashMap::new(),
            encoder: Encoder::default(),
            parts,
            lost: 0,
        });
        Ok(())
    }

    /// A request of the volume has come.
    #[inline]
    pub(crate) fn issued(&mut self, unique: u64, now_ns: u64, kind: Kind, offset: u64, length: u32) {
        if let Some(recorder) = &mut self.recorder {
            let issue_ns = now_ns - recorder.began_ns;
            let request = Recorded {
                issue_ns,
                done_ns: issue_ns,
                kind,
                offset,
                length,
            };
            recorder.on_their_way.insert(unique, request);
        }
    }

    /// Its answer is being sent. One that came before the recording began is not in it.
    #[inline]
    pub(crate) fn answered(&mut self, unique: u64, now_ns: u64) {
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        if let Some(mut request) = recorder.on_their_way.remove(&unique) {
            request.done_ns = now_ns - recorder.began_ns;
            if let Some((chunk, count)) = recorder.encoder.add(&request) {
                recorder.hand_on(chunk, count);
            }
        }
    }

    /// Ends the recording; those on their way are not in it. The writing thread tells when the file is whole.
    pub(crate) fn end(&mut self) {
        if let Some(mut recorder) = self.recorder.take() {
            let (chunk, count) = recorder.encoder.take();
            if count > 0 {
                recorder.hand_on(chunk, count);
            }
            let lost = recorder.lost + recorder.on_their_way.len() as u64;
            let parts = recorder.parts;
            // Only here may anybody wait for the file's disk, and not the one who serves.
            let _ = thread::Builder::new()
                .name("trace end".to_owned())
                .spawn(move || {
                    let _ = parts.send(Part::End(lost));
                });
        }
    }
}

impl Recorder {
    fn hand_on(&mut self, chunk: Vec<u8>, count: u32) {
        if self.parts.try_send(Part::Chunk(chunk, count)).is_err() {
            self.lost += u64::from(count);
        }
    }
}

fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

/// Writes until the end; a file without one was cut off.
fn write_parts(mut file: File, parts: &Receiver<Part>) -> Traced {
    let mut traced = Traced {
        bytes: header(0, 0).len() as u64,
        ..Traced::default()
    };
    for part in parts {
        match part {
            Part::Chunk(chunk, count) => {
                let is_room = traced.bytes + chunk.len() as u64 <= FILE_BYTES_MAX;
                if !is_room || traced.error.is_some() {
                    traced.lost += u64::from(count);
                } else if let Err(error) = file.write_all(&chunk) {
                    traced.error = Some(error.to_string());
                    traced.lost += u64::from(count);
                } else {
                    traced.requests += u64::from(count);
                    traced.bytes += chunk.len() as u64;
                }
            }
            Part::End(lost) => {
                traced.lost += lost;
                if traced.error.is_none() {
                    let end = trailer(traced.requests, traced.lost);
                    traced.bytes += end.len() as u64;
                    traced.error = file.write_all(&end).err().map(|error| error.to_string());
                }
                return traced;
            }
        }
    }
    traced
        .error
        .get_or_insert_with(|| "the server of the volume has ended".to_owned());
    traced
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::{Duration, Instant};
    use std::{env, fs, process};

    use pgassay_volume::recording::decode;

    use super::*;

    fn file(name: &str) -> PathBuf {
        env::temp_dir().join(format!("pgassay-trace-{name}-{}", process::id()))
    }

    #[test]
    fn what_was_served_is_in_the_file_with_its_times() {
        let path = file("served");
        let (tell, told) = channel();
        let mut tracing = Tracing::default();
        tracing.answered(1, 50);
        tracing.ask_for(path.clone());
        let on_end = move |traced| tell.send(traced).unwrap();
        tracing.begin(1000, 70, on_end).unwrap();
        for number in 0..20_000 {
            tracing.issued(number, 1000 + number * 10, Kind::Read, number * 8192, 8192);
            if number >= 3 {
                tracing.answered(number - 3, 1000 + number * 10 + 5);
            }
        }
        tracing.end();
        let traced = told.recv_timeout(Duration::from_secs(30)).unwrap();
        let bytes = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let recording = decode(&bytes).unwrap();
        // Three were on their way at the end.
        assert_eq!((traced.requests, traced.lost, traced.error), (19_997, 3, None));
        assert_eq!(traced.bytes, bytes.len() as u64);
        assert_eq!((recording.clock_ns, recording.overhead_ns), (1000, 70));
        assert!(recording.is_complete && recording.lost == 3);
        let expected: Vec<Recorded> = (0..19_997)
            .map(|number| Recorded {
                issue_ns: number * 10,
                done_ns: number * 10 + 35,
                kind: Kind::Read,
                offset: number * 8192,
                length: 8192,
            })
            .collect();
        assert_eq!(recording.requests, expected);
    }

    #[test]
    fn a_file_that_is_there_is_refused_and_left_as_it_is() {
        let path = file("there");
        fs::write(&path, b"mine").unwrap();
        let mut tracing = Tracing::default();
        tracing.ask_for(path.clone());
        let refused = tracing.begin(0, 0, |_| {}).unwrap_err().to_string();
        assert!(refused.contains("can't record in"), "{refused}");
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn nobody_who_serves_waits_for_a_disk_that_does_not_keep_up() {
        // A pipe that nobody reads takes a page or so, then its writer waits.
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let (parts, received) = sync_channel(2);
        let mut recorder = Recorder {
            began_ns: 0,
            on_their_way: HashMap::new(),
            encoder: Encoder::default(),
            parts,
            lost: 0,
        };
        let writing = thread::spawn(move || write_parts(File::from(writer), &received));
        let began = Instant::now();
        while recorder.lost < 3000 {
            recorder.hand_on(vec![0; 1 << 20], 1000);
            assert!(began.elapsed() < Duration::from_secs(30));
        }
        drop(reader);
        let lost = recorder.lost;
        recorder.parts.send(Part::End(lost)).unwrap();
        let traced = writing.join().unwrap();
        assert!(traced.lost >= 3000);
        assert!(traced.error.is_some());
    }
}
