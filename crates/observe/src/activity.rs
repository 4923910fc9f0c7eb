//! What PostgreSQL says that its processes wait for.

use crate::kind::Kind;

/// The name of the prepared statement.
pub const STATEMENT_NAME: &str = "activity";

/// One row for each process but the one that asks. The function below pg_stat_activity, without the view's joins.
pub const SQL: &str = "SELECT pid, backend_type, application_name, state, wait_event_type, wait_event, state_change \
                       FROM pg_catalog.pg_stat_get_activity(NULL) WHERE pid <> pg_catalog.pg_backend_pid()";

/// One process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activity {
    /// The process.
    pub pid: i32,
    /// What it is for.
    pub kind: Kind,
    /// active, idle, idle in transaction …; empty where there is none.
    pub state: String,
    /// IO, Client, LWLock, …; empty where it waits for nothing that it told.
    pub wait_event_type: String,
    /// DataFileRead, ClientRead, …
    pub wait_event: String,
    /// When it came into its state, as the server writes it; empty where there is none.
    pub state_change: String,
}

/// Reads the body of a DataRow of `SQL` in text format; none when it is something else.
pub fn parse_row(body: &[u8]) -> Option<Activity> {
    let [
        pid,
        backend_type,
        application_name,
        state,
        wait_event_type,
        wait_event,
        state_change,
    ] = parse_texts(body)?;
    Some(Activity {
        pid: pid.parse().ok()?,
        kind: Kind::of_backend_type(backend_type, application_name),
        state: state.to_owned(),
        wait_event_type: wait_event_type.to_owned(),
        wait_event: wait_event.to_owned(),
        state_change: state_change.to_owned(),
    })
}

/// The columns of a DataRow in text format, nulls as empty texts; none when it has another number of them.
pub(crate) fn parse_texts<const COLUMNS: usize>(body: &[u8]) -> Option<[&str; COLUMNS]> {
    let (count, mut rest) = body.split_first_chunk::<2>()?;
    if usize::from(u16::from_be_bytes(*count)) != COLUMNS {
        return None;
    }
    let mut values = [""; COLUMNS];
    for value in &mut values {
        let (length, after) = rest.split_first_chunk::<4>()?;
        rest = after;
        // A length of −1 is a null.
        if let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) {
            let (bytes, after) = rest.split_at_checked(length)?;
            *value = std::str::from_utf8(bytes).unwrap_or_default();
            rest = after;
        }
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: &[Option<&str>]) -> Vec<u8> {
        let mut body = u16::try_from(values.len()).unwrap().to_be_bytes().to_vec();
        for value in values {
            let length = value.map_or(-1, |text| i32::try_from(text.len()).unwrap());
            body.extend(length.to_be_bytes());
            body.extend(value.unwrap_or_default().as_bytes());
        }
        body
    }

    #[test]
    fn a_row_with_nulls() {
        let body = row(&[
            Some("42"),
            Some("io worker"),
            Some(""),
            None,
            Some("IO"),
            Some("DataFileRead"),
            None,
        ]);
        let activity = parse_row(&body).unwrap();
        assert_eq!((activity.pid, activity.kind), (42, Kind::IoWorker));
        assert_eq!(
            (activity.state.as_str(), activity.wait_event.as_str()),
            ("", "DataFileRead")
        );
    }

    #[test]
    fn what_is_no_such_row_is_refused_wherever_it_is_cut() {
        let body = row(&[Some("42"), Some("x"), Some("y"), None, None, None, None]);
        assert!(parse_row(&body).is_some());
        for end in 0..body.len() {
            assert_eq!(parse_row(&body[..end]), None, "cut at {end}");
        }
        assert_eq!(parse_row(&row(&[Some("42")])), None);
    }
}
