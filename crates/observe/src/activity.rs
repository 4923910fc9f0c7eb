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
    /// When it came into its state, in microseconds of the server's clock; none where it has no state.
    pub state_change_us: Option<i64>,
}

/// Reads the body of a DataRow of `SQL` in binary format, in which the server spends nothing on writing a time for
/// each process; none when it is something else.
pub fn parse_row(body: &[u8]) -> Option<Activity> {
    let [
        pid,
        backend_type,
        application_name,
        state,
        wait_event_type,
        wait_event,
        state_change,
    ] = parse_values(body)?;
    let state_change_us = match state_change {
        [] => None,
        bytes => Some(i64::from_be_bytes(bytes.try_into().ok()?)),
    };
    Some(Activity {
        pid: i32::from_be_bytes(pid.try_into().ok()?),
        kind: Kind::of_backend_type(text(backend_type), text(application_name)),
        state: text(state).to_owned(),
        wait_event_type: text(wait_event_type).to_owned(),
        wait_event: text(wait_event).to_owned(),
        state_change_us,
    })
}

/// A text value; an empty one where the bytes are none in UTF-8.
pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

/// The columns of a DataRow, nulls as no bytes at all; none when it has another number of them.
pub(crate) fn parse_values<const COLUMNS: usize>(body: &[u8]) -> Option<[&[u8]; COLUMNS]> {
    let (count, mut rest) = body.split_first_chunk::<2>()?;
    if usize::from(u16::from_be_bytes(*count)) != COLUMNS {
        return None;
    }
    let mut values: [&[u8]; COLUMNS] = [&[]; COLUMNS];
    for value in &mut values {
        let (length, after) = rest.split_first_chunk::<4>()?;
        rest = after;
        // A length of −1 is a null.
        if let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) {
            (*value, rest) = rest.split_at_checked(length)?;
        }
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PID: Option<&[u8]> = Some(&[0, 0, 0, 42]);

    fn row(values: &[Option<&[u8]>]) -> Vec<u8> {
        let mut body = u16::try_from(values.len()).unwrap().to_be_bytes().to_vec();
        for value in values {
            let length = value.map_or(-1, |bytes| i32::try_from(bytes.len()).unwrap());
            body.extend(length.to_be_bytes());
            body.extend(value.unwrap_or_default());
        }
        body
    }

    #[test]
    fn a_row_with_nulls() {
        let body = row(&[
            PID,
            Some(b"io worker"),
            Some(b""),
            None,
            Some(b"IO"),
            Some(b"DataFileRead"),
            None,
        ]);
        let activity = parse_row(&body).unwrap();
        assert_eq!((activity.pid, activity.kind), (42, Kind::IoWorker));
        assert_eq!(
            (activity.state.as_str(), activity.wait_event.as_str()),
            ("", "DataFileRead")
        );
        assert_eq!(activity.state_change_us, None);
    }

    #[test]
    fn a_backend_has_the_time_of_its_state() {
        let time_us = 830_000_000_000_000_i64.to_be_bytes();
        let kind: Option<&[u8]> = Some(b"client backend");
        let mut values = [PID, kind, None, Some(b"idle"), None, None, Some(&time_us)];
        let activity = parse_row(&row(&values)).unwrap();
        assert_eq!(activity.state_change_us, Some(830_000_000_000_000));
        values[6] = Some(b"2026-11-22 02:26:43+00");
        assert_eq!(parse_row(&row(&values)), None, "a time in text format");
    }

    #[test]
    fn what_is_no_such_row_is_refused_wherever_it_is_cut() {
        let body = row(&[PID, Some(b"x"), Some(b"y"), None, None, None, None]);
        assert!(parse_row(&body).is_some());
        for end in 0..body.len() {
            assert_eq!(parse_row(&body[..end]), None, "cut at {end}");
        }
        assert_eq!(parse_row(&row(&[PID])), None);
    }
}
