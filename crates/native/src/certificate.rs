//! What the names check needs of an X.509 certificate beyond what webpki tells: its common name, and whether it
//! has alternative names at all (RFC 5280, 4.1). libpq falls back to the common name where it has none.

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
/// 2.5.4.3, id-at-commonName.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// 2.5.29.17, id-ce-subjectAltName.
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];

/// The names of a certificate.
#[derive(Debug, PartialEq, Eq)]
pub struct Names {
    /// The first common name of the subject.
    pub common_name: Option<String>,
    /// Whether there is an extension with alternative names, which then decide alone.
    pub has_alternative_names: bool,
}

/// Reads the names of a certificate in DER; none where it is not one.
pub fn names(certificate: &[u8]) -> Option<Names> {
    let (mut to_be_signed, _) =
        expect(SEQUENCE, certificate).and_then(|(content, _)| expect(SEQUENCE, content))?;
    if to_be_signed.first() == Some(&VERSION) {
        to_be_signed = element(to_be_signed)?.rest;
    }
    // Serial number, algorithm, issuer, validity; then comes the subject.
    for _ in 0..4 {
        to_be_signed = element(to_be_signed)?.rest;
    }
    let (subject, mut rest) = expect(SEQUENCE, to_be_signed)?;
    let mut has_alternative_names = false;
    while !rest.is_empty() {
        let field = element(rest)?;
        if field.tag == EXTENSIONS {
            has_alternative_names = has_extension(field.content, ALTERNATIVE_NAMES)?;
        }
        rest = field.rest;
    }
    Some(Names {
        common_name: common_name(subject),
        has_alternative_names,
    })
}

/// Whether a common name is `host`, without regard to case; `*.example.com` stands for one label before the rest.
pub fn matches(common_name: &str, host: &str) -> bool {
    if common_name.eq_ignore_ascii_case(host) {
        return true;
    }
    let Some(rest) = common_name.strip_prefix("*.") else {
        return false;
    };
    // A wildcard for a whole top-level domain is no name of anybody.
    let is_narrow = rest.contains('.');
    host.split_once('.')
        .is_some_and(|(label, domain)| is_narrow && !label.is_empty() && domain.eq_ignore_ascii_case(rest))
}

fn common_name(subject: &[u8]) -> Option<String> {
    let mut rest = subject;
    while !rest.is_empty() {
        let (mut attributes, after) = expect(SET, rest)?;
        while !attributes.is_empty() {
            let (attribute, next) = expect(SEQUENCE, attributes)?;
            let (kind, value) = expect(OBJECT_IDENTIFIER, attribute)?;
            if kind == COMMON_NAME {
                return String::from_utf8(element(value)?.content.to_vec()).ok();
            }
            attributes = next;
        }
        rest = after;
    }
    None
}

fn has_extension(wrapped: &[u8], wanted: &[u8]) -> Option<bool> {
    let (mut extensions, _) = expect(SEQUENCE, wrapped)?;
    while !extensions.is_empty() {
        let (extension, next) = expect(SEQUENCE, extensions)?;
        let (kind, _) = expect(OBJECT_IDENTIFIER, extension)?;
        if kind == wanted {
            return Some(true);
        }
        extensions = next;
    }
    Some(false)
}

struct Element<'a> {
    tag: u8,
    content: &'a [u8],
    rest: &'a [u8],
}

fn expect(tag: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let found = element(bytes)?;
    (found.tag == tag).then_some((found.content, found.rest))
}

/// The first element, by its tag and length (X.690, 8.1); tags of several bytes don't occur in certificates.
fn element(bytes: &[u8]) -> Option<Element<'_>> {
    let (&tag, bytes) = bytes.split_first()?;
    let (&first, mut bytes) = bytes.split_first()?;
    let mut length = usize::from(first);
    if first >= 0x80 {
        let count = usize::from(first & 0x7f);
        if count == 0 || count > 4 || count > bytes.len() {
            return None;
        }
        let (digits, after) = bytes.split_at(count);
        length = digits.iter().fold(0, |sum, &digit| sum << 8 | usize::from(digit));
        bytes = after;
    }
    let (content, rest) = bytes.split_at_checked(length)?;
    Some(Element { tag, content, rest })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrap(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        let content = parts.concat();
        let length = u8::try_from(content.len()).unwrap();
        let head = if length < 0x80 {
            vec![tag, length]
        } else {
            vec![tag, 0x81, length]
        };
        [head, content].concat()
    }

    fn certificate(common_name: &str, extension: Option<&[u8]>) -> Vec<u8> {
        let kind = wrap(OBJECT_IDENTIFIER, &[COMMON_NAME]);
        let attribute = wrap(SEQUENCE, &[&kind, &wrap(0x0c, &[common_name.as_bytes()])]);
        let subject = wrap(SEQUENCE, &[&wrap(SET, &[&attribute])]);
        let sequence = wrap(SEQUENCE, &[]);
        let mut fields = vec![wrap(VERSION, &[&[2, 1, 2]]), vec![2, 1, 7]];
        fields.extend([
            sequence.clone(),
            sequence.clone(),
            sequence.clone(),
            subject,
            sequence,
        ]);
        if let Some(kind) = extension {
            let extension = wrap(SEQUENCE, &[&wrap(OBJECT_IDENTIFIER, &[kind]), &wrap(4, &[b"x"])]);
            fields.push(wrap(EXTENSIONS, &[&wrap(SEQUENCE, &[&extension])]));
        }
        let parts: Vec<&[u8]> = fields.iter().map(Vec::as_slice).collect();
        wrap(SEQUENCE, &[&wrap(SEQUENCE, &parts)])
    }

    #[test]
    fn the_names_of_a_certificate_are_read() {
        for (extension, has) in [
            (None, false),
            (Some(ALTERNATIVE_NAMES), true),
            (Some(COMMON_NAME), false),
        ] {
            let found = names(&certificate("db.example.com", extension)).unwrap();
            assert_eq!(found.common_name.as_deref(), Some("db.example.com"));
            assert_eq!(found.has_alternative_names, has);
        }
    }

    #[test]
    fn whatever_the_bytes_are_nothing_is_read_beyond_them() {
        let whole = certificate("db", Some(ALTERNATIVE_NAMES));
        for end in 0..whole.len() {
            assert_eq!(names(&whole[..end]), None, "cut at {end}");
        }
        for place in 0..whole.len() {
            let mut broken = whole.clone();
            broken[place] = 0xff;
            let _ = names(&broken);
        }
    }

    #[test]
    fn a_common_name_matches_as_in_libpq() {
        assert!(matches("DB.example.com", "db.EXAMPLE.com"));
        assert!(matches("*.example.com", "db.example.com"));
        for (name, host) in [
            ("*.example.com", "example.com"),
            ("*.example.com", "a.db.example.com"),
            ("*.com", "example.com"),
            ("*", "localhost"),
            ("db", "db.example.com"),
            ("*.example.com", ".example.com"),
        ] {
            assert!(!matches(name, host), "{name} {host}");
        }
    }
}
