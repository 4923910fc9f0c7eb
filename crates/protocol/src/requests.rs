//! What a client sends, appended to a buffer that the caller reuses.

use bytes::BytesMut;
use postgres_protocol::IsNull;
use postgres_protocol::message::frontend;

use crate::failure::Failure;

/// Describe of the unnamed portal, Execute of all its rows, and Sync: what libpq sends after each Bind
/// (src/interfaces/libpq/fe-exec.c, PQsendQueryGuts).
pub const DESCRIBE_EXECUTE_SYNC: &[u8] = b"D\0\0\0\x06P\0E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04";

/// The length of Sync, with which the above ends.
const SYNC_BYTES: usize = 5;

/// The value of a parameter, sent as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument<'a> {
    /// A whole number.
    Integer(i64),
    /// A text.
    Text(&'a str),
}

/// A simple query.
///
/// # Errors
/// When the text holds a zero byte, which the protocol can't carry.
pub fn simple_query(sql: &str, output: &mut BytesMut) -> Result<(), Failure> {
    frontend::query(sql, output).map_err(|error| unsendable(sql, &error))
}

/// Prepares a statement under a name; the server finds the types of parameters for which none is given.
///
/// # Errors
/// When the text holds a zero byte.
pub fn prepare(
    name: &str,
    sql: &str,
    parameter_types: impl IntoIterator<Item = u32>,
    output: &mut BytesMut,
) -> Result<(), Failure> {
    frontend::parse(name, sql, parameter_types, output).map_err(|error| unsendable(sql, &error))
}

/// Executes a prepared statement as libpq does: Bind, Describe, Execute, Sync; text parameters, and results as
/// text (`result_format` 0) or binary (1).
///
/// # Errors
/// When the name holds a zero byte or there are too many parameters for one message.
#[inline]
pub fn execute_prepared<'a>(
    name: &str,
    values: impl IntoIterator<Item = Argument<'a>>,
    result_format: i16,
    output: &mut BytesMut,
) -> Result<(), Failure> {
    let write_value = |value: Argument<'_>, output: &mut BytesMut| {
        match value {
            Argument::Integer(number) => {
                output.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
            }
            Argument::Text(text) => output.extend_from_slice(text.as_bytes()),
        }
        Ok(IsNull::No)
    };
    if frontend::bind("", name, [], values, write_value, [result_format], output).is_err() {
        return Err(Failure::client(format!(
            "the prepared statement {name} can't be bound"
        )));
    }
    output.extend_from_slice(DESCRIBE_EXECUTE_SYNC);
    Ok(())
}

/// Executes a prepared statement whose parameters are texts (none: null), without Sync.
///
/// # Errors
/// When the name holds a zero byte or there are too many parameters for one message.
pub fn execute_texts<'a>(
    name: &str,
    values: impl IntoIterator<Item = Option<&'a str>>,
    output: &mut BytesMut,
) -> Result<(), Failure> {
    let write_value = |value: Option<&str>, output: &mut BytesMut| {
        Ok(match value {
            Some(text) => {
                output.extend_from_slice(text.as_bytes());
                IsNull::No
            }
            None => IsNull::Yes,
        })
    };
    if frontend::bind("", name, [], values, write_value, [0], output).is_err() {
        return Err(Failure::client(format!(
            "the prepared statement {name:?} can't be bound"
        )));
    }
    output.extend_from_slice(&DESCRIBE_EXECUTE_SYNC[..DESCRIBE_EXECUTE_SYNC.len() - SYNC_BYTES]);
    Ok(())
}

/// Ends a batch of messages of the extended protocol.
pub fn sync(output: &mut BytesMut) {
    frontend::sync(output);
}

/// Refuses to supply the data of COPY FROM STDIN.
///
/// # Errors
/// When the reason holds a zero byte.
pub fn copy_fail(reason: &str, output: &mut BytesMut) -> Result<(), Failure> {
    frontend::copy_fail(reason, output).map_err(|error| unsendable(reason, &error))
}

/// A piece of the data of COPY FROM STDIN.
///
/// # Errors
/// When it is too long for one message.
pub fn copy_data(data: &[u8], output: &mut BytesMut) -> Result<(), Failure> {
    let length = i32::try_from(data.len() + 4)
        .map_err(|_| Failure::client("a piece of COPY data is too long for a message"))?;
    output.reserve(data.len() + 5);
    output.extend_from_slice(b"d");
    output.extend_from_slice(&length.to_be_bytes());
    output.extend_from_slice(data);
    Ok(())
}

/// The end of that data.
pub fn copy_done(output: &mut BytesMut) {
    frontend::copy_done(output);
}

/// Asks, on a connection of its own, to cancel what another connection is doing.
pub fn cancel(process_id: i32, secret_key: i32, output: &mut BytesMut) {
    frontend::cancel_request(process_id, secret_key, output);
}

/// Asks, before anything else, whether the server has TLS.
pub fn ssl(output: &mut BytesMut) {
    frontend::ssl_request(output);
}

/// Terminate: the client ends the session.
pub fn terminate(output: &mut BytesMut) {
    frontend::terminate(output);
}

fn unsendable(text: &str, error: &std::io::Error) -> Failure {
    let beginning: String = text.chars().take(60).collect();
    let mut failure = Failure::client(format!("the text {beginning:?} can't be sent: {error}"));
    failure.fatal = false;
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_execution_is_what_libpq_sends() {
        let mut output = BytesMut::new();
        execute_prepared("p1", [Argument::Integer(-42)], 0, &mut output).unwrap();
        let mut expected = b"B\0\0\0\x17\0p1\0\0\0\0\x01\0\0\0\x03-42\0\x01\0\0".to_vec();
        expected.extend_from_slice(b"D\0\0\0\x06P\0E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04");
        assert_eq!(&output[..], expected);
    }

    #[test]
    fn a_zero_byte_is_refused_and_nothing_fatal() {
        let failure = simple_query("select '\0'", &mut BytesMut::new()).unwrap_err();
        assert!(
            !failure.fatal && failure.message.contains("can't be sent"),
            "{failure}"
        );
    }
}
