//! What the proxy is told.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};

/// Where the server is.
#[derive(Clone, Debug)]
pub enum Target {
    /// On this host.
    Unix(PathBuf),
    /// Anywhere.
    Tcp(SocketAddr),
}

/// Whose sessions are recorded; the others are passed on all the same.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Roles; none: all.
    pub users: Vec<String>,
    /// Databases; none: all.
    pub databases: Vec<String>,
}

/// What the proxy is told.
#[derive(Clone)]
pub struct Settings {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Where the server is.
    pub target: Target,
    /// TLS to the server, and the name that its certificate is to be for.
    pub server_tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    /// TLS to clients that ask for it; without it they are told that there is none.
    pub client_tls: Option<Arc<ServerConfig>>,
    /// Where the capture is written.
    pub folder: PathBuf,
    /// Whether the data of COPY FROM STDIN are kept.
    pub keeps_copy_data: bool,
    /// Whose sessions.
    pub selection: Selection,
    /// What may wait to be written; beyond that sessions leave the capture.
    pub queue_bytes_max: usize,
}

impl Settings {
    /// Whether clients must speak TLS: anywhere but on this host's own loopback.
    pub fn requires_tls(&self) -> bool {
        !self.listen.ip().is_loopback()
    }
}
