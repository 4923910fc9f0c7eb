//! Messages of clients, as far as a plan looks into them.

use pgassay_capture::format::bind::name;
use pgassay_capture::format::event::Message;

use super::texts::Text;

/// What a step's messages touch.
#[derive(Default)]
pub struct Touched {
    pub touched: Vec<u32>,
    pub written: Vec<u32>,
    pub is_locking: bool,
    pub commits: bool,
    pub runs: bool,
}

impl Touched {
    /// Adds a statement's.
    pub fn add(&mut self, text: &Text) {
        self.touched.extend(&text.touched);
        self.written.extend(&text.written);
        self.is_locking |= !text.is_plain;
        self.commits |= text.commits;
        self.runs = true;
        for list in [&mut self.touched, &mut self.written] {
            list.sort_unstable();
            list.dedup();
        }
    }
}

/// The message as it goes to a server; one from which a secret was taken becomes an empty statement.
pub fn write(message: &Message, has_secret: bool, bytes: &mut Vec<u8>) {
    if !has_secret {
        return message.write(bytes);
    }
    let body = match message.tag {
        b'P' => [name(&message.body), b"\0\0\0\0"].concat(),
        _ => b"\0".to_vec(),
    };
    let emptied = Message {
        body,
        ..message.clone()
    };
    emptied.write(bytes);
}
