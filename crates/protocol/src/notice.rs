//! What a server says beside its results: NoticeResponse messages (`INFO` of VACUUM VERBOSE, warnings …).

use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::Message;
use serde::Serialize;

use crate::message::{error_response, parse};

/// One message that is no error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// In English whatever `lc_messages` says: INFO, NOTICE, WARNING, DEBUG or LOG.
    pub severity: String,
    /// The primary text, which may have several lines.
    pub message: String,
    /// The server's DETAIL.
    pub detail: Option<String>,
    /// The server's five-character code.
    pub sqlstate: Option<String>,
}

/// Keeps notices as they came, up to a number of bytes; they are read after the clock has stopped.
#[derive(Debug, Default)]
pub struct NoticeStore {
    bodies: Vec<Box<[u8]>>,
    room: usize,
    dropped: u64,
}

impl NoticeStore {
    /// A store for messages of `bytes` bytes together; later ones are counted and dropped.
    #[must_use]
    pub fn with_room(bytes: usize) -> Self {
        Self {
            room: bytes,
            ..Self::default()
        }
    }

    /// How many there was no room for.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Takes the body of a NoticeResponse.
    #[inline]
    pub fn keep(&mut self, body: &[u8]) {
        if body.len() > self.room || self.dropped > 0 {
            self.dropped += 1;
            return;
        }
        self.room -= body.len();
        self.bodies.push(body.into());
    }

    /// The lines that libpq makes of the kept messages, which leave their room to later ones.
    pub fn take_texts(&mut self) -> Vec<String> {
        self.room += self.bodies.iter().map(|body| body.len()).sum::<usize>();
        self.dropped = 0;
        let bodies = std::mem::take(&mut self.bodies);
        let readable = bodies.iter().filter_map(|body| error_response(body).ok());
        readable.map(|notice| notice.notice_text()).collect()
    }

    /// Whether any is kept.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bodies.is_empty()
    }

    /// The kept messages in the order in which they came; a malformed one ends where it can't be read.
    #[must_use]
    pub fn read(&self) -> Vec<Notice> {
        self.bodies.iter().map(|body| read_notice(body)).collect()
    }
}

fn read_notice(body: &[u8]) -> Notice {
    let mut notice = Notice {
        severity: String::new(),
        message: String::new(),
        detail: None,
        sqlstate: None,
    };
    let Ok(Message::NoticeResponse(response)) = parse(b'N', body) else {
        return notice;
    };
    let mut fields = response.fields();
    while let Ok(Some(field)) = fields.next() {
        let value = String::from_utf8_lossy(field.value_bytes()).into_owned();
        match field.type_() {
            // 'V' is the severity in English; 'S' may be translated by lc_messages.
            b'V' => notice.severity = value,
            b'C' => notice.sqlstate = Some(value),
            b'M' => notice.message = value,
            b'D' => notice.detail = Some(value),
            _ => {}
        }
    }
    notice
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &[u8] = b"SINFORMATION\0VINFO\0C00000\0Mvacuuming \"t\"\0Dsecond\0\0";

    #[test]
    fn fields_are_read_and_the_severity_is_the_untranslated_one() {
        let mut store = NoticeStore::with_room(1000);
        store.keep(INFO);
        let expected = Notice {
            severity: "INFO".to_owned(),
            message: "vacuuming \"t\"".to_owned(),
            detail: Some("second".to_owned()),
            sqlstate: Some("00000".to_owned()),
        };
        assert_eq!(store.read(), [expected]);
        assert_eq!(store.dropped(), 0);
    }

    #[test]
    fn what_finds_no_room_is_counted_and_nothing_after_it_is_kept() {
        let mut store = NoticeStore::with_room(INFO.len() + 10);
        store.keep(INFO);
        store.keep(INFO);
        store.keep(b"MX\0\0");
        assert_eq!((store.read().len(), store.dropped()), (1, 2));
    }

    #[test]
    fn texts_are_libpq_s_and_make_room() {
        let mut store = NoticeStore::with_room(INFO.len());
        for _ in 0..2 {
            store.keep(INFO);
            store.keep(INFO);
            assert_eq!(
                store.take_texts(),
                ["INFORMATION:  vacuuming \"t\"\nDETAIL:  second"]
            );
            assert!(store.is_empty());
        }
    }

    #[test]
    fn a_load_keeps_nothing() {
        let mut store = NoticeStore::default();
        store.keep(INFO);
        assert!(store.read().is_empty());
    }

    #[test]
    fn malformed_bodies_end_where_they_cannot_be_read() {
        let mut store = NoticeStore::with_room(1000);
        for body in [&b""[..], b"M", b"VINFO", b"VINFO\0Mcut", b"\xff\xff\0"] {
            store.keep(body);
        }
        let severities: Vec<_> = store.read().into_iter().map(|notice| notice.severity).collect();
        assert_eq!(severities, ["", "", "", "INFO", ""]);
    }
}
