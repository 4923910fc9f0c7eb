//! The last row of each query of an answer, for the few callers who read one.

use crate::failure::Failure;

/// What one query of a request returned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapturedQuery {
    /// The names of its columns.
    pub columns: Vec<String>,
    /// How many rows came.
    pub rows: u64,
    /// The last of them, as texts; none where the value is null.
    pub last: Vec<Option<String>>,
}

/// What the queries of a request returned, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// Those that have ended, and the one that runs.
    pub queries: Vec<CapturedQuery>,
    is_open: bool,
}

impl Captured {
    /// Takes a RowDescription.
    ///
    /// # Errors
    /// When the message is malformed.
    pub(crate) fn describe(&mut self, body: &[u8]) -> Result<(), Failure> {
        let mut message = Message(body);
        let mut columns = Vec::new();
        for _ in 0..message.count()? {
            let end = message
                .0
                .iter()
                .position(|&byte| byte == 0)
                .ok_or_else(malformed)?;
            columns.push(String::from_utf8_lossy(&message.0[..end]).into_owned());
            // The zero, and six numbers about the column's origin, type and format.
            message.take(end + 1 + 18)?;
        }
        self.queries.push(CapturedQuery {
            columns,
            ..CapturedQuery::default()
        });
        self.is_open = true;
        Ok(())
    }

    /// Takes a DataRow.
    ///
    /// # Errors
    /// When the message is malformed.
    pub(crate) fn row(&mut self, body: &[u8]) -> Result<(), Failure> {
        let Some(query) = self.queries.last_mut().filter(|_| self.is_open) else {
            return Ok(());
        };
        let mut message = Message(body);
        query.last.clear();
        for _ in 0..message.count()? {
            let length = i32::from_be_bytes(message.take(4)?.try_into().map_err(|_| malformed())?);
            let value = match usize::try_from(length) {
                Ok(length) => Some(String::from_utf8_lossy(message.take(length)?).into_owned()),
                Err(_) => None,
            };
            query.last.push(value);
        }
        query.rows += 1;
        Ok(())
    }

    /// Takes the end of a query; one that was never described returned no rows.
    pub(crate) fn complete(&mut self) {
        if !self.is_open {
            self.queries.push(CapturedQuery::default());
        }
        self.is_open = false;
    }
}

struct Message<'a>(&'a [u8]);

impl<'a> Message<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Failure> {
        if length > self.0.len() {
            return Err(malformed());
        }
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        Ok(taken)
    }

    fn count(&mut self) -> Result<u16, Failure> {
        let bytes = self.take(2)?.try_into().map_err(|_| malformed())?;
        Ok(u16::from_be_bytes(bytes))
    }
}

fn malformed() -> Failure {
    Failure::client("the server sent a row that can't be read")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_row_is_an_error_and_no_panic() {
        let mut captured = Captured::default();
        captured.describe(b"\0\x01a\0aaaaaaaaaaaaaaaaaa").unwrap();
        for body in [&b""[..], b"\0\x01", b"\0\x01\0\0\0\x05ab", b"\0\x02\0\0\0\x01a"] {
            assert!(captured.row(body).is_err());
        }
        captured.row(b"\0\x01\0\0\0\x02ab").unwrap();
        captured.row(b"\0\x01\xff\xff\xff\xff").unwrap();
        captured.complete();
        captured.complete();
        assert_eq!(captured.queries[0].last, [None]);
        assert_eq!((captured.queries[0].rows, captured.queries[1].rows), (2, 0));
        assert!(Captured::default().describe(b"\0\x01no end").is_err());
    }
}
