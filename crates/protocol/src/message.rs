//! Single messages of the server: what `postgres-protocol` reads of them, and what can't be read.

use bytes::BytesMut;
use postgres_protocol::message::backend::Message;

use crate::failure::Failure;

#[cold]
pub(crate) fn unexpected(tag: u8, place: &str) -> Failure {
    Failure::client(format!(
        "the server sent an unexpected message of type {:?} {place}",
        char::from(tag)
    ))
}

/// Reads a message that `postgres-protocol` knows, from its type and body.
///
/// # Errors
/// When the body can't be read.
pub(crate) fn parse(tag: u8, body: &[u8]) -> Result<Message, Failure> {
    let mut bytes = BytesMut::with_capacity(body.len() + 5);
    bytes.extend_from_slice(&[tag]);
    let length = u32::try_from(body.len() + 4)
        .map_err(|_| Failure::client("the server sent a message longer than the protocol allows"))?;
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(body);
    match Message::parse(&mut bytes) {
        Ok(Some(message)) => Ok(message),
        Ok(None) | Err(_) => Err(unexpected(tag, "that can't be read")),
    }
}

#[cold]
pub(crate) fn error_response(body: &[u8]) -> Result<Failure, Failure> {
    match parse(b'E', body)? {
        Message::ErrorResponse(response) => Ok(Failure::from_response(&response)),
        _ => Err(unexpected(b'E', "that is not an error")),
    }
}
