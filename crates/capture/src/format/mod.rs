//! The file's layout, without I/O: numbers, blocks, records, and what a record says.

pub mod bind;
pub mod block;
pub mod decode;
pub mod encode;
pub mod event;
pub mod number;
pub mod texts;

/// The number of the format; a reader refuses others.
pub const VERSION: u32 = 1;

/// What a record is. A reader skips kinds that it doesn't know: each record has its length.
pub mod kind {
    /// A text that later records name by its number.
    pub const TEXT: u8 = 1;
    /// A session's startup message.
    pub const BEGIN: u8 = 2;
    /// The server is ready for the session's first message.
    pub const READY: u8 = 3;
    /// Messages of the client that were read at once.
    pub const MESSAGES: u8 = 4;
    /// The beginning of a long message's body.
    pub const PART: u8 = 5;
    /// Messages of the server that were read at once.
    pub const ANSWERS: u8 = 6;
    /// A request to cancel what a session runs.
    pub const CANCEL: u8 = 7;
    /// The session is over.
    pub const END: u8 = 8;
    /// The session is not in the capture: what stands before is to be ignored.
    pub const DROPPED: u8 = 9;
}
