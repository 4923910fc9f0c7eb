//! SCRAM through a proxy that ends TLS: what was bound to the server's channel can't be bound to the client's.

const SASL: u32 = 10;
const PLUS: &[u8] = b"SCRAM-SHA-256-PLUS";
const PLAIN: &[u8] = b"SCRAM-SHA-256";

/// The body of an authentication request without its offer of channel binding; none where it offers none.
pub fn without_binding(body: &[u8]) -> Option<Vec<u8>> {
    let (kind, mechanisms) = body.split_first_chunk::<4>()?;
    if u32::from_be_bytes(*kind) != SASL {
        return None;
    }
    let offered: Vec<&[u8]> = mechanisms
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .collect();
    if !offered.contains(&PLUS) {
        return None;
    }
    let mut output = kind.to_vec();
    for name in offered.into_iter().filter(|name| *name != PLUS) {
        output.extend_from_slice(name);
        output.push(0);
    }
    output.push(0);
    Some(output)
}

/// Whether a SASLInitialResponse says that the client could have bound to the channel, and takes the server for one
/// that can't (gs2-cbind-flag "y", RFC 5802): a server that can must refuse that.
pub fn could_bind(body: &[u8]) -> bool {
    body.strip_prefix(PLAIN)
        .and_then(|rest| rest.strip_prefix(b"\0"))
        .and_then(|rest| rest.get(4..))
        .is_some_and(|message| message.starts_with(b"y,"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offer_of_channel_binding_is_taken_away_and_nothing_else() {
        let offer = b"\0\0\0\x0aSCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0";
        assert_eq!(without_binding(offer).unwrap(), b"\0\0\0\x0aSCRAM-SHA-256\0\0");
        assert_eq!(without_binding(b"\0\0\0\x0aSCRAM-SHA-256\0\0"), None);
        assert_eq!(without_binding(b"\0\0\0\x00"), None);
        assert_eq!(without_binding(b"\0\0"), None);
    }

    #[test]
    fn a_client_that_could_bind_says_so() {
        assert!(could_bind(b"SCRAM-SHA-256\0\0\0\0\x05y,,n="));
        assert!(!could_bind(b"SCRAM-SHA-256\0\0\0\0\x05n,,n="));
        assert!(!could_bind(b"md5abc\0"));
    }
}
