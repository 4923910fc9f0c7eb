//! Where and as whom to connect: already resolved, nothing is looked up in the environment.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;

/// Connection parameters.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// The folder of a Unix socket (begins with '/') or the name or address of a host.
    pub host: String,
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
