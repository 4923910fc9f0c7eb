//! The first packets of a connection: requests for encryption, to cancel, and the startup message.

use super::cut::BadMessage;
use crate::format::event::Begin;

/// As MAX_STARTUP_PACKET_LENGTH of the server.
const PACKET_BYTES_MAX: usize = 10_000;
const CANCEL: u32 = 80_877_102;
const SSL: u32 = 80_877_103;
const GSS: u32 = 80_877_104;
/// The first byte of a TLS handshake: a client that asks for nothing and begins (sslnegotiation=direct).
const TLS_HANDSHAKE: u8 = 0x16;

/// The request for TLS, as it is sent to the server.
pub const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xD2, 0x16, 0x2F];

/// What a client begins with.
#[derive(Debug, PartialEq, Eq)]
pub enum Packet {
    /// It has not come whole.
    Incomplete,
    /// A request for TLS.
    Ssl,
    /// TLS without a request.
    Tls,
    /// A request for GSSAPI encryption.
    Gss,
    /// A request to cancel: process and key.
    Cancel(Vec<u8>),
    /// The startup message, and how many bytes it has.
    Startup(Begin, usize),
}

/// Reads the packet at the front.
///
/// # Errors
/// When it is none.
pub fn packet(bytes: &[u8], is_encrypted: bool) -> Result<Packet, BadMessage> {
    if bytes.first() == Some(&TLS_HANDSHAKE) && !is_encrypted {
        return Ok(Packet::Tls);
    }
    // A length is below 10,000, so its first two bytes are 0.
    if bytes.iter().take(2).any(|byte| *byte != 0) {
        return Err(BadMessage);
    }
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else {
        return Ok(Packet::Incomplete);
    };
    let length = u32::from_be_bytes(*length) as usize;
    if !(8..=PACKET_BYTES_MAX).contains(&length) {
        return Err(BadMessage);
    }
    let Some(body) = rest.get(..length - 4) else {
        return Ok(Packet::Incomplete);
    };
    let (code, body) = body.split_first_chunk::<4>().ok_or(BadMessage)?;
    match u32::from_be_bytes(*code) {
        // What a client sends on before it has the answer could be anybody's (CVE-2021-23222).
        SSL | GSS if bytes.len() > length => Err(BadMessage),
        SSL => Ok(Packet::Ssl),
        GSS => Ok(Packet::Gss),
        CANCEL => Ok(Packet::Cancel(body.to_vec())),
        version if version >> 16 == 3 => {
            let parameters = parameters(body).ok_or(BadMessage)?;
            let begin = Begin {
                protocol: version,
                is_encrypted,
                parameters,
            };
            Ok(Packet::Startup(begin, length))
        }
        _ => Err(BadMessage),
    }
}

fn parameters(body: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    // Names and values in turn, each with its zero, then one more.
    let mut fields = body.strip_suffix(b"\0")?.split(|byte| *byte == 0);
    let mut found = Vec::new();
    while let Some(name) = fields.next() {
        if name.is_empty() {
            return fields.next().is_none().then_some(found);
        }
        found.push((name.to_vec(), fields.next()?.to_vec()));
    }
    Some(found)
}

/// A message that ends the connection, for the client to show.
pub fn fatal(sqlstate: &str, text: &str) -> Vec<u8> {
    let fields = format!("SFATAL\0VFATAL\0C{sqlstate}\0Mpgassay capture: {text}\0\0");
    let mut message = vec![b'E'];
    let length = u32::try_from(fields.len() + 4).unwrap_or(u32::MAX);
    message.extend_from_slice(&length.to_be_bytes());
    message.extend_from_slice(fields.as_bytes());
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_packets_are_told_apart_and_others_refused() {
        assert_eq!(packet(&SSL_REQUEST, false), Ok(Packet::Ssl));
        assert_eq!(packet(&SSL_REQUEST[..5], false), Ok(Packet::Incomplete));
        assert_eq!(packet(&[&SSL_REQUEST[..], b"x"].concat(), false), Err(BadMessage));
        assert_eq!(packet(b"\x16\x03\x01", false), Ok(Packet::Tls));
        let cancel = b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x01\0\0\0\x02";
        assert_eq!(packet(cancel, false), Ok(Packet::Cancel(cancel[8..].to_vec())));
        let startup = b"\0\0\0\x10\0\x03\0\0user\0u\0\0";
        let Ok(Packet::Startup(begin, length)) = packet(startup, true) else {
            panic!();
        };
        assert_eq!(
            (begin.user(), begin.database(), length),
            ("u".into(), "u".into(), 16)
        );
        for bytes in [
            &b"GET / HTTP/1.1"[..],
            b"\0\0\0\x04",
            b"\0\0\xff\xff....",
            b"\xff\xff\xff\xff",
            b"\0\0\0\x08\0\x02\0\0",
            b"\0\0\0\x0d\0\x03\0\0user\0",
        ] {
            assert_eq!(packet(bytes, false), Err(BadMessage), "{bytes:?}");
        }
    }
}
