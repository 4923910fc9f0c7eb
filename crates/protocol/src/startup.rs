//! The beginning of a connection: startup message, authentication (none, cleartext, MD5, SCRAM-SHA-256),
//! parameters, ReadyForQuery.

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{
    ChannelBinding, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramSha256,
};
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;

use crate::failure::Failure;
use crate::input::InputBuffer;
use crate::message::{error_response, parse, unexpected};
use crate::parameters::{BindingMode, Parameters};

/// A connection that is ready for queries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The server process.
    pub process_id: i32,
    /// What a request to cancel must show.
    pub secret_key: i32,
    /// The parameter `server_version` as sent, e.g. "18.4 (Debian 18.4-1)".
    pub server_version: String,
}

/// What SCRAM can bind itself to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Channel {
    /// A connection without TLS.
    #[default]
    Plain,
    /// TLS, with the hash of the server's certificate (RFC 5929, tls-server-end-point); none where its way of
    /// signing has no such hash.
    Tls(Option<Vec<u8>>),
}

enum Authentication {
    Expected,
    ScramBegun(Box<ScramSha256>),
    Done,
}

/// A connection on its way to being ready.
pub struct Startup {
    user: String,
    password: Option<String>,
    channel: Channel,
    binding: BindingMode,
    is_bound: bool,
    authentication: Authentication,
    session: Session,
}

impl Startup {
    /// Writes the startup message.
    ///
    /// # Errors
    /// When a parameter holds a zero byte.
    pub fn begin(parameters: &Parameters, channel: Channel, output: &mut BytesMut) -> Result<Self, Failure> {
        let mut pairs = vec![
            ("user", parameters.user.as_str()),
            ("database", parameters.dbname.as_str()),
            ("application_name", parameters.application_name.as_str()),
            (
                "client_encoding",
                parameters.client_encoding.as_deref().unwrap_or("UTF8"),
            ),
        ];
        if !parameters.options.is_empty() {
            pairs.push(("options", parameters.options.as_str()));
        }
        frontend::startup_message(pairs, output)
            .map_err(|error| Failure::client(format!("a connection parameter can't be sent: {error}")))?;
        Ok(Self {
            user: parameters.user.clone(),
            password: parameters.password.clone(),
            channel,
            binding: parameters.channel_binding,
            is_bound: false,
            authentication: Authentication::Expected,
            session: Session {
                process_id: 0,
                secret_key: 0,
                server_version: String::new(),
            },
        })
    }

    /// Takes what has arrived, writes what must be sent, and gives the session once the server is ready.
    ///
    /// # Errors
    /// When the server refuses the connection, asks for what isn't at hand, or doesn't keep the protocol.
    pub fn receive(
        &mut self,
        input: &mut InputBuffer,
        output: &mut BytesMut,
    ) -> Result<Option<Session>, Failure> {
        while let Some(frame) = input.next_frame()? {
            let is_authenticated = matches!(self.authentication, Authentication::Done);
            match frame.tag {
                b'R' if !is_authenticated => self.authenticate(parse(b'R', frame.body)?, output)?,
                b'E' => {
                    return Err(Failure {
                        fatal: true,
                        ..error_response(frame.body)?
                    });
                }
                b'N' => {}
                b'S' if is_authenticated => self.take_parameter(&parse(b'S', frame.body)?),
                b'K' if is_authenticated => {
                    if let Message::BackendKeyData(key) = parse(b'K', frame.body)? {
                        self.session.process_id = key.process_id();
                        self.session.secret_key = key.secret_key();
                    }
                }
                b'Z' if is_authenticated => return Ok(Some(self.session.clone())),
                tag => {
                    return Err(unexpected(
                        tag,
                        "while the connection was being opened; check host and port",
                    ));
                }
            }
        }
        Ok(None)
    }

    fn take_parameter(&mut self, message: &Message) {
        if let Message::ParameterStatus(parameter) = message {
            if parameter.name().is_ok_and(|name| name == "server_version") {
                self.session.server_version = parameter.value().unwrap_or_default().to_owned();
            }
        }
    }

    fn authenticate(&mut self, request: Message, output: &mut BytesMut) -> Result<(), Failure> {
        let asks_for_password = matches!(
            request,
            Message::AuthenticationCleartextPassword | Message::AuthenticationMd5Password(_)
        );
        if asks_for_password && self.binding == BindingMode::Require {
            // Whoever stands between must not get it (check_expected_areq of libpq's fe-auth.c).
            return Err(unbound("the server asks for the password without it"));
        }
        match (request, &mut self.authentication) {
            (Message::AuthenticationOk, Authentication::Expected) => {
                if self.binding == BindingMode::Require && !self.is_bound {
                    return Err(unbound("the server did not ask for it"));
                }
                self.authentication = Authentication::Done
            }
            (Message::AuthenticationCleartextPassword, Authentication::Expected) => {
                write_password(self.password()?.as_bytes(), output)?;
            }
            (Message::AuthenticationMd5Password(body), Authentication::Expected) => {
                let hash = md5_hash(self.user.as_bytes(), self.password()?.as_bytes(), body.salt());
                write_password(hash.as_bytes(), output)?;
            }
            (Message::AuthenticationSasl(body), Authentication::Expected) => {
                let offered = body.mechanisms().collect::<Vec<&str>>().unwrap_or_default();
                let (mechanism, binding) = self.mechanism(&offered)?;
                self.is_bound = mechanism == SCRAM_SHA_256_PLUS;
                let scram = ScramSha256::new(self.password()?.as_bytes(), binding);
                frontend::sasl_initial_response(mechanism, scram.message(), output).map_err(scram_failure)?;
                self.authentication = Authentication::ScramBegun(Box::new(scram));
            }
            (Message::AuthenticationSaslContinue(body), Authentication::ScramBegun(scram)) => {
                scram.update(body.data()).map_err(scram_failure)?;
                frontend::sasl_response(scram.message(), output).map_err(scram_failure)?;
            }
            (Message::AuthenticationSaslFinal(body), Authentication::ScramBegun(scram)) => {
                // Checks the server's signature: it knows the password, too.
                scram.finish(body.data()).map_err(scram_failure)?;
                self.authentication = Authentication::Expected;
                self.password = None;
            }
            _ => {
                return Err(Failure::client(
                    "the server asks for a way of authentication that is not supported; allow the role \
                     scram-sha-256, md5, password, peer or trust in pg_hba.conf",
                ));
            }
        }
        Ok(())
    }

    /// Which of the ways that the server offers is gone, and what it is bound to (libpq's fe-auth.c).
    fn mechanism(&self, offered: &[&str]) -> Result<(&'static str, ChannelBinding), Failure> {
        let is_wanted = self.binding != BindingMode::Disable;
        let is_offered = offered.contains(&SCRAM_SHA_256_PLUS);
        match &self.channel {
            Channel::Tls(Some(hash)) if is_wanted && is_offered => {
                let binding = ChannelBinding::tls_server_end_point(hash.clone());
                return Ok((SCRAM_SHA_256_PLUS, binding));
            }
            Channel::Plain if self.binding == BindingMode::Require => {
                return Err(unbound("the connection has no TLS"));
            }
            _ if self.binding == BindingMode::Require => {
                return Err(unbound("the server does not offer SCRAM-SHA-256-PLUS for it"));
            }
            _ => {}
        }
        if !offered.contains(&SCRAM_SHA_256) {
            return Err(Failure::client(format!(
                "the server offers no known SASL mechanism but {offered:?}; SCRAM-SHA-256 is supported"
            )));
        }
        // That the client could have tells the server whether somebody between has hidden its offer.
        let binding = match &self.channel {
            Channel::Tls(Some(_)) if is_wanted => ChannelBinding::unrequested(),
            _ => ChannelBinding::unsupported(),
        };
        Ok((SCRAM_SHA_256, binding))
    }

    fn password(&self) -> Result<&str, Failure> {
        self.password.as_deref().ok_or_else(|| {
            Failure::client(format!(
                "the server asks for a password of role {:?}, but none was given",
                self.user
            ))
        })
    }
}

fn write_password(password: &[u8], output: &mut BytesMut) -> Result<(), Failure> {
    frontend::password_message(password, output)
        .map_err(|_| Failure::client("the password holds a zero byte, which the protocol can't carry"))
}

fn unbound(why: &str) -> Failure {
    Failure::client(format!(
        "channel_binding=require can't be kept: {why}; use sslmode=require and scram-sha-256, or \
         channel_binding=prefer"
    ))
}

fn scram_failure(error: std::io::Error) -> Failure {
    Failure::client(format!("SCRAM authentication failed: {error}"))
}
