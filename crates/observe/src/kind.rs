//! What a thread of a server is for.

use serde::Serialize;

/// The kinds of threads that accounts are kept of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum Kind {
    /// Serves a connection.
    #[serde(rename = "backend")]
    Backend,
    /// Serves a connection of pgassay that is no part of the measurement.
    #[serde(rename = "pgassay")]
    Own,
    /// Helps a backend with a parallel plan.
    #[serde(rename = "parallel worker")]
    ParallelWorker,
    /// Reads for others (`io_method=worker`).
    #[serde(rename = "io worker")]
    IoWorker,
    /// A kernel thread that works for a backend's io_uring.
    #[serde(rename = "io_uring worker")]
    IoUringWorker,
    /// The checkpointer.
    #[serde(rename = "checkpointer")]
    Checkpointer,
    /// The background writer.
    #[serde(rename = "background writer")]
    BackgroundWriter,
    /// The WAL writer.
    #[serde(rename = "WAL writer")]
    WalWriter,
    /// The autovacuum launcher and its workers.
    #[serde(rename = "autovacuum")]
    Autovacuum,
    /// The first process.
    #[serde(rename = "postmaster")]
    Postmaster,
    /// Anything else: archiver, replication, logger, background workers of extensions.
    #[serde(rename = "other")]
    Other,
}

impl Kind {
    /// From `backend_type` of pg_stat_activity, and the session's application.
    pub fn of_backend_type(backend_type: &str, application_name: &str) -> Self {
        match backend_type {
            // The measured sessions are called "pgassay" alone.
            "client backend" if application_name.starts_with("pgassay ") => Self::Own,
            "client backend" => Self::Backend,
            "parallel worker" => Self::ParallelWorker,
            "io worker" => Self::IoWorker,
            "checkpointer" => Self::Checkpointer,
            "background writer" => Self::BackgroundWriter,
            "walwriter" => Self::WalWriter,
            "autovacuum launcher" | "autovacuum worker" => Self::Autovacuum,
            _ => Self::Other,
        }
    }

    /// From the process's title, `postgres: [cluster: ]io worker 0` (src/backend/utils/misc/ps_status.c), where
    /// pg_stat_activity has not spoken of it.
    pub fn of_title(title: &str) -> Self {
        let Some(words) = title.strip_prefix("postgres: ") else {
            return Self::Other;
        };
        // A cluster's name (cluster_name, which Debian's packages set) stands before all else.
        let words = words.split_once(": ").map_or(words, |(_, rest)| rest);
        const TITLES: [(&str, Kind); 9] = [
            ("parallel worker ", Kind::ParallelWorker),
            ("io worker", Kind::IoWorker),
            ("checkpointer", Kind::Checkpointer),
            ("background writer", Kind::BackgroundWriter),
            ("walwriter", Kind::WalWriter),
            ("autovacuum ", Kind::Autovacuum),
            ("archiver", Kind::Other),
            ("logical replication ", Kind::Other),
            // Its title goes on as that of a connection.
            ("walsender ", Kind::Other),
        ];
        for (beginning, kind) in TITLES {
            if words.starts_with(beginning) || words.contains(&format!(": {beginning}")) {
                return kind;
            }
        }
        // "user database host activity": only a backend's title names who is connected.
        let is_connected = words.split(' ').nth(2).is_some_and(|host| {
            host.starts_with("[local]") || host.contains('(') || host.contains('.') || host.contains(':')
        });
        if is_connected { Self::Backend } else { Self::Other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_tell_the_kinds() {
        for (title, kind) in [
            ("postgres: io worker 2", Kind::IoWorker),
            ("postgres: main: checkpointer ", Kind::Checkpointer),
            ("postgres: parallel worker for PID 71", Kind::ParallelWorker),
            ("postgres: postgres shop [local] SELECT", Kind::Backend),
            ("postgres: postgres shop 10.0.0.7(5123) idle", Kind::Backend),
            ("postgres: postgres shop ::1(5123) idle", Kind::Backend),
            ("postgres: 16/main: postgres shop [local] idle", Kind::Backend),
            (
                "postgres: walsender replica 10.0.0.7(5123) streaming 0/3000148",
                Kind::Other,
            ),
            (
                "postgres: main: walsender replica 10.0.0.7(5123) streaming 0/3",
                Kind::Other,
            ),
            ("postgres: autovacuum launcher ", Kind::Autovacuum),
            ("postgres: logger ", Kind::Other),
            ("sleep", Kind::Other),
        ] {
            assert_eq!(Kind::of_title(title), kind, "{title}");
        }
    }

    #[test]
    fn a_session_of_pgassay_s_own_is_no_measured_one() {
        assert_eq!(Kind::of_backend_type("client backend", "pgassay"), Kind::Backend);
        assert_eq!(
            Kind::of_backend_type("client backend", "pgassay control"),
            Kind::Own
        );
        assert_eq!(Kind::of_backend_type("io worker", ""), Kind::IoWorker);
    }
}
