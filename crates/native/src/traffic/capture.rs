//! `capture`: a proxy between clients and a server that records what they say.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pgassay_capture::proxy::{Proxy, Selection, Settings, Target, Totals};
use pgassay_protocol::{Failure, Parameters, SslMode};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::lines::{EXIT_FAILURE, EXIT_USAGE, fail, read_document, watch_input, write_line};
use crate::link::allow_many_sockets;
use crate::tls;

const QUEUE_BYTES_DEFAULT: usize = 64 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaptureSpec {
    listen: SocketAddr,
    connect: Parameters,
    folder: PathBuf,
    #[serde(default = "yes")]
    copy_data: bool,
    #[serde(default)]
    users: Vec<String>,
    #[serde(default)]
    databases: Vec<String>,
    #[serde(default)]
    tls: Option<Certificate>,
    #[serde(default)]
    queue_bytes: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Certificate {
    certificate: PathBuf,
    key: PathBuf,
}

fn yes() -> bool {
    true
}

/// Runs the command and gives its exit status; ends, with the capture whole, when standard input closes.
pub fn capture() -> i32 {
    let settings = match read_document::<CaptureSpec>().and_then(settings) {
        Ok(settings) => settings,
        Err(failure) => return fail(&failure, EXIT_USAGE),
    };
    allow_many_sockets();
    match run(settings) {
        Ok(totals) => {
            write_line(&json!({ "ended": document(&totals) }));
            0
        }
        Err(error) => fail(&Failure::client(error.to_string()), EXIT_FAILURE),
    }
}

fn run(settings: Settings) -> io::Result<Totals> {
    let proxy = Proxy::start(settings)?;
    let stopper = proxy.stopper();
    write_line(&json!({
        "ready": { "listen": proxy.address()?.to_string(), "started_unix_ns": proxy.started_unix_ns }
    }));
    watch_input(move || stopper.stop())?;
    proxy.run(|totals| write_line(&json!({ "progress": document(totals) })))
}

fn settings(spec: CaptureSpec) -> Result<Settings, Failure> {
    let client_tls = spec.tls.as_ref().map(server_config).transpose()?;
    if client_tls.is_none() && !spec.listen.ip().is_loopback() {
        return Err(Failure::client(format!(
            "{} can be reached from other hosts: give a certificate and its key, or listen on 127.0.0.1",
            spec.listen
        )));
    }
    let parameters = &spec.connect;
    let is_encrypted = parameters.socket_path().is_none() && parameters.sslmode != SslMode::Disable;
    let (target, server_tls) = match parameters.socket_path() {
        Some(path) => (Target::Unix(path), None),
        None => {
            let address = resolve(parameters)?;
            let tls = is_encrypted
                .then(|| tls::client_config(parameters, address.ip()))
                .transpose()?;
            (Target::Tcp(address), tls)
        }
    };
    Ok(Settings {
        listen: spec.listen,
        target,
        server_tls,
        client_tls,
        folder: spec.folder,
        keeps_copy_data: spec.copy_data,
        selection: Selection {
            users: spec.users,
            databases: spec.databases,
        },
        queue_bytes_max: spec.queue_bytes.unwrap_or(QUEUE_BYTES_DEFAULT),
    })
}

fn resolve(parameters: &Parameters) -> Result<SocketAddr, Failure> {
    let host = parameters.hostaddr.as_deref().unwrap_or(&parameters.host);
    (host, parameters.port)
        .to_socket_addrs()
        .ok()
        .and_then(|mut addresses| addresses.next())
        .ok_or_else(|| Failure::client(format!("the host {host:?} has no address: correct the DSN")))
}

fn server_config(files: &Certificate) -> Result<Arc<ServerConfig>, Failure> {
    let unusable = |path: &Path, reason: String| {
        Failure::client(format!("the file {} can't be used: {reason}", path.display()))
    };
    let chain: Vec<_> = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect)
        .map_err(|error| unusable(&files.certificate, error.to_string()))?;
    let key =
        PrivateKeyDer::from_pem_file(&files.key).map_err(|error| unusable(&files.key, error.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Failure::client(format!("TLS can't be set up: {error}")))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| unusable(&files.certificate, error.to_string()))?;
    // What a client that begins with TLS at once must say (sslnegotiation=direct).
    config.alpn_protocols = vec![b"postgresql".to_vec()];
    Ok(Arc::new(config))
}

fn document(totals: &Totals) -> Value {
    json!({
        "sessions": totals.sessions,
        "open": totals.open,
        "statements": totals.statements,
        "passed_bytes": totals.passed_bytes,
        "written_bytes": totals.written_bytes,
        "dropped": totals.dropped,
        "not_selected": totals.not_selected,
        "replication": totals.replication,
        "bad_messages": totals.bad_messages,
        "without_channel_binding": totals.without_channel_binding,
        "failure": totals.failure,
    })
}
