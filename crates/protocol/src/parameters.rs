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

/// Connection parameters.
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
