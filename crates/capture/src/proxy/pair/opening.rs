//! The beginning of a pair: the client's first packets, the connection to the server, authentication.

use std::io;

use mio::net::{TcpStream, UnixStream};
use rustls::{ClientConnection, ServerConnection};

use super::super::cut::BadMessage;
use super::super::queue::Record;
use super::super::scram;
use super::super::settings::Target;
use super::super::startup::{Packet, SSL_REQUEST, fatal, packet};
use super::super::stream::Stream;
use super::{Ending, Pair, Phase, Surroundings, unreachable};
use crate::format::event::{Begin, EndReason};

/// No message before a session is ready is longer.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

impl Pair {
    /// Reads the client's packets before its session; whether there is one to connect for.
    pub(super) fn hello(&mut self, around: &mut Surroundings<'_>) -> Result<bool, Ending> {
        loop {
            let is_encrypted = self.client.is_encrypted();
            match packet(&self.packet, is_encrypted)? {
                Packet::Incomplete => {}
                Packet::Ssl => {
                    self.packet.clear();
                    let tls = around.settings.client_tls.clone().filter(|_| !is_encrypted);
                    let answer: &[u8] = if tls.is_some() { b"S" } else { b"N" };
                    self.client.write(answer).map_err(lost)?;
                    if let Some(tls) = tls {
                        let tls = ServerConnection::new(tls).map_err(|_| BadMessage)?;
                        self.client.begin_tls_server(tls, &[]).map_err(lost)?;
                    }
                }
                Packet::Tls => {
                    let tls = around.settings.client_tls.clone().ok_or(BadMessage)?;
                    let tls = ServerConnection::new(tls).map_err(|_| BadMessage)?;
                    let read = std::mem::take(&mut self.packet);
                    self.client.begin_tls_server(tls, &read).map_err(lost)?;
                }
                Packet::Gss => {
                    self.packet.clear();
                    self.client.write(b"N").map_err(lost)?;
                }
                Packet::Cancel(key) => {
                    if let Some(session) = around.keys.get(&key) {
                        around.recorder.add(*session, Record::Cancel);
                    }
                    self.connect(around)?;
                    return Ok(true);
                }
                Packet::Startup(begin, length) => {
                    if around.settings.requires_tls() && !is_encrypted {
                        let text = "connections from other hosts must use TLS: connect with sslmode=require";
                        return Err(Ending::Told(EndReason::Refused, fatal("28000", text)));
                    }
                    self.begin(begin, around);
                    let ahead = self.packet.split_off(length);
                    if !ahead.is_empty() {
                        self.front.take(&ahead, &mut self.recording, around.recorder)?;
                        self.packet.extend_from_slice(&ahead);
                    }
                    self.connect(around)?;
                    return Ok(true);
                }
            }
            match self.client.read(around.scratch) {
                Ok(None) => return Ok(false),
                Ok(Some(0)) | Err(_) => return Err(Ending::Because(EndReason::ClientLost)),
                Ok(Some(count)) => self.packet.extend_from_slice(&around.scratch[..count]),
            }
            around.recorder.now_ns = (around.clock)();
        }
    }

    fn begin(&mut self, begin: Begin, around: &mut Surroundings<'_>) {
        let selection = &around.settings.selection;
        let is_in = |names: &[String], name: &str| names.is_empty() || names.iter().any(|each| each == name);
        let totals = &mut around.recorder.totals;
        if begin.parameter("replication").is_some_and(|mode| is_on(&mode)) {
            totals.replication += 1;
        } else if !is_in(&selection.users, &begin.user()) || !is_in(&selection.databases, &begin.database()) {
            totals.not_selected += 1;
        } else {
            totals.sessions += 1;
            // More sessions than this are beyond any capture.
            self.recording.number = u32::try_from(totals.sessions).unwrap_or(0);
            self.recording.keeps_copy_data = around.settings.keeps_copy_data;
            around.recorder.add(self.recording.number, Record::Begin(begin));
            if !around.recorder.has_room() {
                self.recording.leave(around.recorder);
            }
        }
    }

    fn connect(&mut self, around: &mut Surroundings<'_>) -> Result<(), Ending> {
        let registry = around.registry;
        let stream = match &around.settings.target {
            Target::Unix(path) => {
                UnixStream::connect(path).and_then(|stream| Stream::unix(stream, self.server_token, registry))
            }
            Target::Tcp(address) => TcpStream::connect(*address)
                .and_then(|stream| Stream::tcp(stream, self.server_token, registry)),
        };
        self.server = Some(stream.map_err(|error| unreachable(&error))?);
        self.phase = Phase::Connecting;
        Ok(())
    }

    pub(super) fn greet(&mut self, around: &mut Surroundings<'_>) -> Result<(), Ending> {
        let Some(server) = &mut self.server else {
            return Ok(());
        };
        if around.settings.server_tls.is_some() {
            server.write(&SSL_REQUEST).map_err(|error| unreachable(&error))?;
            self.phase = Phase::Asking;
        } else {
            let packet = std::mem::take(&mut self.packet);
            server.write(&packet).map_err(|error| unreachable(&error))?;
            self.phase = Phase::Passing;
        }
        Ok(())
    }

    pub(super) fn asked(&mut self, around: &mut Surroundings<'_>) -> Result<bool, Ending> {
        let (Some(server), Some((config, name))) = (&mut self.server, &around.settings.server_tls) else {
            return Ok(false);
        };
        let mut answer = [0];
        let refusal = |text: &str| Ending::Told(EndReason::Refused, fatal("08001", text));
        match server.read(&mut answer).map_err(|error| unreachable(&error))? {
            None => return Ok(false),
            Some(1) if answer[0] == b'S' => {}
            Some(1) if answer[0] == b'N' => {
                return Err(refusal("the server has no TLS: use sslmode=disable in the DSN"));
            }
            // It goes down, or has no room for a process more.
            _ => {
                return Err(refusal(
                    "the server did not answer the request for TLS: see its log",
                ));
            }
        }
        let tls = ClientConnection::new(config.clone(), name.clone())
            .map_err(|error| refusal(&format!("TLS to the server can't begin: {error}")))?;
        server.begin_tls_client(tls);
        let packet = std::mem::take(&mut self.packet);
        server.write(&packet).map_err(|error| unreachable(&error))?;
        self.phase = Phase::Passing;
        Ok(true)
    }

    /// Passes messages of the server on before the session is ready, without an offer of channel binding.
    pub(super) fn filtered(
        &mut self,
        count: usize,
        around: &mut Surroundings<'_>,
    ) -> Result<io::Result<()>, Ending> {
        self.packet.extend_from_slice(&around.scratch[..count]);
        let received = std::mem::take(&mut self.packet);
        let mut rest = &received[..];
        let mut output = Vec::with_capacity(rest.len());
        while let [tag, a, b, c, d, ..] = *rest {
            let length = u32::from_be_bytes([a, b, c, d]) as usize;
            if !(4..=MESSAGE_BYTES_MAX).contains(&length) {
                return Err(BadMessage.into());
            }
            // Once it is ready nothing is looked for any more.
            let end = if self.recording.is_ready {
                rest.len()
            } else {
                length + 1
            };
            let Some((message, after)) = rest.split_at_checked(end) else {
                break;
            };
            self.back.take(message, &mut self.recording, around.recorder)?;
            match scram::without_binding(&message[5..]).filter(|_| tag == b'R' && !self.recording.is_ready) {
                Some(body) => {
                    around.recorder.totals.without_channel_binding += 1;
                    output.push(tag);
                    output.extend_from_slice(&u32::try_from(body.len() + 4).unwrap_or(4).to_be_bytes());
                    output.extend_from_slice(&body);
                }
                None => output.extend_from_slice(message),
            }
            rest = after;
        }
        if self.recording.is_ready && !rest.is_empty() {
            self.back.take(rest, &mut self.recording, around.recorder)?;
            output.extend_from_slice(rest);
            rest = &[];
        }
        self.packet = rest.to_vec();
        self.learn_key(around);
        Ok(self.client.write(&output))
    }
}

fn is_on(mode: &str) -> bool {
    !matches!(mode, "" | "0" | "false" | "off" | "no")
}

fn lost(_: io::Error) -> Ending {
    Ending::Because(EndReason::ClientLost)
}
