//! What the check of names needs of an X.509 certificate beyond what webpki tells: its common name, and whether it
//! has alternative names at all (RFC 5280, 4.1). libpq falls back to the common name where it has none.

use rustls::ClientConnection;
use sha2::{Digest, Sha256, Sha384, Sha512};
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::der::asn1::ObjectIdentifier;

/// id-at-commonName.
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
/// id-ce-subjectAltName.
const ALTERNATIVE_NAMES: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.17");

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
    let certificate = Certificate::from_der(certificate).ok()?;
    let content = certificate.tbs_certificate();
    let common_name = content
        .subject()
        .iter()
        .find(|attribute| attribute.oid == COMMON_NAME);
    Some(Names {
        // Whatever type of string it has: libpq compares bytes as well.
        common_name: common_name.and_then(|found| String::from_utf8(found.value.value().to_vec()).ok()),
        has_alternative_names: content
            .extensions()
            .is_some_and(|extensions| extensions.iter().any(|each| each.extn_id == ALTERNATIVE_NAMES)),
    })
}

/// What SCRAM binds itself to: the hash of the server's certificate, by the hash that it was signed with and at least
/// SHA-256 (RFC 5929, 4.1); none where it was signed without one.
pub fn binding_hash(connection: &ClientConnection) -> Option<Vec<u8>> {
    hash_as_signed(connection.peer_certificates()?.first()?)
}

fn hash_as_signed(certificate: &[u8]) -> Option<Vec<u8>> {
    let read = Certificate::from_der(certificate).ok()?;
    let algorithm = read.signature_algorithm().oid.to_string();
    Some(match algorithm.as_str() {
        // RSA with MD5, SHA-1 and SHA-256, ECDSA with SHA-1 and SHA-256.
        "1.2.840.113549.1.1.4" | "1.2.840.113549.1.1.5" | "1.2.840.113549.1.1.11" => {
            Sha256::digest(certificate).to_vec()
        }
        "1.2.840.10045.4.1" | "1.2.840.10045.4.3.2" => Sha256::digest(certificate).to_vec(),
        // With SHA-384.
        "1.2.840.113549.1.1.12" | "1.2.840.10045.4.3.3" => Sha384::digest(certificate).to_vec(),
        // With SHA-512.
        "1.2.840.113549.1.1.13" | "1.2.840.10045.4.3.4" => Sha512::digest(certificate).to_vec(),
        _ => return None,
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

#[cfg(test)]
mod tests {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    use super::*;

    fn der(pem: &str) -> Vec<u8> {
        CertificateDer::from_pem_slice(pem.as_bytes()).unwrap().to_vec()
    }

    #[test]
    fn the_names_of_a_certificate_are_read() {
        let first = Some("db.example.com");
        for (pem, common_name, has_alternative_names) in [
            // Of version 1, without any extension.
            (
                include_str!("../../tests/certificates/common_name.pem"),
                first,
                false,
            ),
            (
                include_str!("../../tests/certificates/other_extensions.pem"),
                first,
                false,
            ),
            (
                include_str!("../../tests/certificates/alternative_names.pem"),
                first,
                true,
            ),
            (
                include_str!("../../tests/certificates/no_common_name.pem"),
                None,
                true,
            ),
        ] {
            let found = names(&der(pem)).unwrap();
            assert_eq!(found.common_name.as_deref(), common_name);
            assert_eq!(found.has_alternative_names, has_alternative_names);
        }
    }

    #[test]
    fn whatever_the_bytes_are_nothing_is_read_beyond_them() {
        let whole = der(include_str!("../../tests/certificates/alternative_names.pem"));
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
    fn a_certificate_is_hashed_as_it_was_signed() {
        let whole = der(include_str!("../../tests/certificates/alternative_names.pem"));
        let hash = hash_as_signed(&whole).unwrap();
        assert!([32, 48, 64].contains(&hash.len()), "{}", hash.len());
        assert_eq!(hash_as_signed(&whole[1..]), None);
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
