//! TLS for a connection that is being opened: PostgreSQL's request for it, the handshake, and what of the
//! server's certificate is checked (libpq's sslmode require, verify-ca, verify-full).

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use pgassay_protocol::{Failure, Parameters, SslMode, SslNegotiation, requests};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme,
};

pub mod certificate;
pub mod link;

/// The name of PostgreSQL's protocol in a handshake (src/include/libpq/pqcomm.h, PG_ALPN_PROTOCOL).
const PROTOCOL: &[u8] = b"postgresql";

/// Asks the server for TLS and completes the handshake, all of it before `deadline`.
///
/// # Errors
/// When the server has no TLS, its certificate does not stand the checks that `sslmode` names, or it is silent.
pub fn negotiate(
    stream: &mut TcpStream,
    parameters: &Parameters,
    deadline: Instant,
) -> Result<ClientConnection, Failure> {
    let address = stream.peer_addr().map_err(|error| failed(&error))?;
    let (config, name) = client_config(parameters, address.ip())?;
    if parameters.sslnegotiation == SslNegotiation::Postgres {
        request(stream, deadline)?;
    }
    let mut connection = ClientConnection::new(config, name)
        .map_err(|error| Failure::client(format!("TLS can't begin: {error}")))?;
    while connection.is_handshaking() || connection.wants_write() {
        step(&mut connection, stream, deadline).map_err(|error| refused(&error, parameters))?;
    }
    Ok(connection)
}

/// How to speak TLS to this server, and the name that its certificate is to be for; `address` is where it is.
///
/// # Errors
/// When the files that `sslmode` asks for can't be used, or the host's name is none.
pub fn client_config(
    parameters: &Parameters,
    address: IpAddr,
) -> Result<(Arc<ClientConfig>, ServerName<'static>), Failure> {
    let config = configuration(parameters)?;
    // Where the name is no name of a host nothing but the check of names could need it.
    let name = ServerName::try_from(parameters.host.clone()).or_else(|error| match parameters.sslmode {
        SslMode::VerifyFull => Err(Failure::client(format!(
            "no certificate can be for the host {:?}: {error}",
            parameters.host
        ))),
        _ => Ok(ServerName::from(address)),
    })?;
    Ok((Arc::new(config), name))
}

/// The server answers the request with one byte, before any TLS.
fn request(stream: &mut TcpStream, deadline: Instant) -> Result<(), Failure> {
    let mut request = BytesMut::new();
    requests::ssl(&mut request);
    stream.write_all(&request).map_err(|error| failed(&error))?;
    let mut answer = [0];
    limit_wait(stream, deadline).map_err(|error| failed(&error))?;
    stream.read_exact(&mut answer).map_err(|error| failed(&error))?;
    match answer[0] {
        b'S' => Ok(()),
        b'N' => Err(Failure::client(
            "the server has no TLS: turn on its setting ssl, or use sslmode=disable",
        )),
        _ => Err(Failure::client(
            "the peer does not speak PostgreSQL's protocol: check host and port",
        )),
    }
}

fn step(connection: &mut ClientConnection, stream: &mut TcpStream, deadline: Instant) -> io::Result<()> {
    if connection.wants_write() {
        connection.write_tls(stream)?;
        return Ok(());
    }
    limit_wait(stream, deadline)?;
    if connection.read_tls(stream)? == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    connection.process_new_packets().map_err(|error| {
        // The alert tells the server why; whether it arrives doesn't matter.
        let _ = connection.write_tls(stream);
        io::Error::new(ErrorKind::InvalidData, error)
    })?;
    Ok(())
}

fn limit_wait(stream: &TcpStream, deadline: Instant) -> io::Result<()> {
    let remaining = deadline.saturating_duration_since(Instant::now());
    stream.set_read_timeout(Some(remaining.max(Duration::from_millis(1))))
}

fn failed(error: &io::Error) -> Failure {
    Failure::client(match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            "the server did not answer the request for TLS in time".to_owned()
        }
        _ => format!("the server did not answer the request for TLS: {error}"),
    })
}

fn refused(error: &io::Error, parameters: &Parameters) -> Failure {
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    let roots = parameters
        .sslrootcert
        .as_deref()
        .unwrap_or(Path::new(""))
        .display();
    Failure::client(match cause {
        // An authority of the same name with another key is another authority.
        Some(Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature)) => {
            format!("the server's certificate is signed by none of {roots}: correct sslrootcert")
        }
        Some(Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => format!(
            "the server's certificate is not for the host {:?}: connect by the name it is for, or use \
             sslmode=verify-ca",
            parameters.host
        ),
        Some(Error::InvalidCertificate(reason)) => {
            format!(
                "the server's certificate does not pass the check by {roots} ({reason}): correct sslrootcert"
            )
        }
        Some(error) => format!("TLS failed: {error}"),
        None => return failed(error),
    })
}

fn configuration(parameters: &Parameters) -> Result<ClientConfig, Failure> {
    let provider = Arc::new(ring::default_provider());
    let certificates = match parameters.sslmode {
        SslMode::Disable | SslMode::Require => Vec::new(),
        SslMode::VerifyCa | SslMode::VerifyFull => read_certificates(parameters.sslrootcert.as_deref())?,
    };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates.iter().cloned());
    let verifier = Verifier {
        sslmode: parameters.sslmode,
        host: parameters.host.clone(),
        roots,
        trusted: certificates,
        provider: Arc::clone(&provider),
    };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Failure::client(format!("TLS can't be set up: {error}")))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    // Which protocol the handshake is for: a server takes none without it that begins by one.
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(config)
}

fn read_certificates(file: Option<&Path>) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let file = file.ok_or_else(|| {
        Failure::client(
            "sslmode verifies the server's certificate, and sslrootcert names no file to do it by",
        )
    })?;
    let unusable =
        |reason: String| Failure::client(format!("sslrootcert {} can't be used: {reason}", file.display()));
    let certificates: Vec<_> = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|error| unusable(error.to_string()))?;
    if certificates.is_empty() {
        return Err(unusable("it holds no certificate".to_owned()));
    }
    Ok(certificates)
}

/// The checks of libpq's sslmode (src/interfaces/libpq/fe-secure-openssl.c, fe-secure-common.c).
#[derive(Debug)]
struct Verifier {
    sslmode: SslMode,
    host: String,
    roots: RootCertStore,
    trusted: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    /// `require` believes whoever answers, who may as well have a key of their own: a signature by it proves nothing.
    fn skips_verification(&self) -> bool {
        self.sslmode == SslMode::Require
    }

    fn check_name(&self, certificate: &CertificateDer<'_>, name: &ServerName<'_>) -> Result<(), Error> {
        let names = certificate::names(certificate)
            .ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))?;
        if names.has_alternative_names {
            return verify_server_name(&ParsedCertificate::try_from(certificate)?, name);
        }
        let is_for_host = names
            .common_name
            .is_some_and(|common_name| certificate::matches(&common_name, &self.host));
        if is_for_host {
            return Ok(());
        }
        Err(Error::InvalidCertificate(CertificateError::NotValidForName))
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.skips_verification() {
            return Ok(ServerCertVerified::assertion());
        }
        // A server's own certificate may be what is trusted: one that signed itself, which webpki takes for an
        // authority's and refuses. OpenSSL accepts it.
        if !self.trusted.contains(end_entity) {
            verify_server_cert_signed_by_trust_anchor(
                &ParsedCertificate::try_from(end_entity)?,
                &self.roots,
                intermediates,
                now,
                self.provider.signature_verification_algorithms.all,
            )?;
        }
        if self.sslmode == SslMode::VerifyFull {
            self.check_name(end_entity, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if self.skips_verification() {
            return Ok(HandshakeSignatureValid::assertion());
        }
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if self.skips_verification() {
            return Ok(HandshakeSignatureValid::assertion());
        }
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
