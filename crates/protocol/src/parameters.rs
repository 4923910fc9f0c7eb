//! Where and as whom to connect: already resolved, nothing is looked up in the environment.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;

/// Whether the connection is encrypted and what of the server's certificate is checked; libpq's `sslmode`
/// without its modes that try one thing and then another: the caller has decided.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum SslMode {
    /// Not encrypted.
    #[default]
    Disable,
    /// Encrypted; whoever answers is believed.
    Require,
    /// Encrypted, and the certificate is signed by one of `sslrootcert`.
    VerifyCa,
    /// As `VerifyCa`, and the certificate is for `host`.
    VerifyFull,
}

/// Whether the password is proven for this TLS connection alone; libpq's `channel_binding`.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum BindingMode {
    /// Never.
    Disable,
    /// Where connection and server can.
    #[default]
    Prefer,
    /// Else there is no connection.
    Require,
}

/// How TLS begins; libpq's `sslnegotiation`.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum SslNegotiation {
    /// The server is asked for it first.
    #[default]
    Postgres,
    /// By its handshake.
    Direct,
}

/// Connection parameters, by libpq's names and in its units.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// The folder of a Unix socket (begins with '/') or the name or address of a host.
    pub host: String,
    /// The address to connect to, where `host` is not to be looked up.
    #[serde(default)]
    pub hostaddr: Option<String>,
    /// The port; part of a Unix socket's name as well.
    pub port: u16,
    /// The role.
    pub user: String,
    /// The password, if the server asks for one.
    #[serde(default)]
    pub password: Option<String>,
    /// The database.
    pub dbname: String,
    /// Settings of the session, as `-c name=value …`.
    #[serde(default)]
    pub options: String,
    /// Seen in pg_stat_activity and the server's log.
    #[serde(default = "default_application_name")]
    pub application_name: String,
    /// The encoding of what is sent and answered; UTF8 where it is not given.
    #[serde(default)]
    pub client_encoding: Option<String>,
    /// Encryption of a TCP connection; a Unix socket has none, as in libpq.
    #[serde(default)]
    pub sslmode: SslMode,
    /// A file of certificates, PEM, that may sign the server's.
    #[serde(default)]
    pub sslrootcert: Option<PathBuf>,
    /// Whether SCRAM is bound to the TLS connection.
    #[serde(default)]
    pub channel_binding: BindingMode,
    /// Whether TLS begins at once, as servers from 17 on take it, instead of being asked for.
    #[serde(default)]
    pub sslnegotiation: SslNegotiation,
    /// Seconds until a connection must stand; 0: the time that the server itself gives.
    #[serde(default)]
    pub connect_timeout: u32,
    /// Whether the system asks a silent peer of a TCP connection whether it is still there; 0: it does not.
    #[serde(default = "default_keepalives")]
    pub keepalives: u32,
    /// Seconds of silence until it asks; 0: as the system is set, here and below.
    #[serde(default)]
    pub keepalives_idle: u32,
    /// Seconds until it asks again.
    #[serde(default)]
    pub keepalives_interval: u32,
    /// How many questions without an answer end the connection.
    #[serde(default)]
    pub keepalives_count: u32,
    /// Milliseconds that what was sent may stay unacknowledged.
    #[serde(default)]
    pub tcp_user_timeout: u32,
}

fn default_keepalives() -> u32 {
    1
}

fn default_application_name() -> String {
    "pgassay".to_owned()
}

impl Parameters {
    /// The path of the Unix socket, or none when the host is reached by TCP.
    pub fn socket_path(&self) -> Option<PathBuf> {
        let folder = self.host.strip_prefix('/')?;
        Some(PathBuf::from(format!("/{folder}/.s.PGSQL.{}", self.port)))
    }

    /// The server as a person would name it.
    pub fn server_name(&self) -> String {
        match self.socket_path() {
            Some(path) => path.display().to_string(),
            None => format!("{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Debug for Parameters {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The password must not reach a log.
        write!(
            formatter,
            "Parameters({}@{}/{})",
            self.user,
            self.server_name(),
            self.dbname
        )
    }
}
