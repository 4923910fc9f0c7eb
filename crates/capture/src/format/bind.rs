//! A Bind message, as far as its values are looked at.

/// The zero-ended name that a message begins with.
pub fn name(body: &[u8]) -> &[u8] {
    &body[..body.iter().position(|byte| *byte == 0).unwrap_or(body.len())]
}

/// The format of a parameter or column, from what Bind says of all.
pub fn format_of(formats: &[u16], index: usize) -> u16 {
    match formats {
        [] => 0,
        [one] => *one,
        more => more.get(index).copied().unwrap_or(0),
    }
}

/// A Bind message, read.
pub struct Bind<'a> {
    /// The portal's name.
    pub portal: &'a [u8],
    /// The prepared statement's name.
    pub statement: &'a [u8],
    /// Formats of the parameters: of each, one of all, or none where all are texts.
    pub formats: Vec<u16>,
    /// Where values stand; none for NULL.
    pub values: Vec<Option<std::ops::Range<usize>>>,
    /// Formats of the columns that come back.
    pub result_formats: Vec<u16>,
}

impl<'a> Bind<'a> {
    /// Reads it; none where it is no such message.
    pub fn read(body: &'a [u8]) -> Option<Self> {
        let portal = name(body);
        let statement = name(body.get(portal.len() + 1..)?);
        let mut at = portal.len() + statement.len() + 2;
        let formats = numbers(body, &mut at)?;
        let count = u16::from_be_bytes(body.get(at..at + 2)?.try_into().ok()?);
        at += 2;
        let mut values = Vec::with_capacity(usize::from(count));
        for _ in 0..count {
            let length = i32::from_be_bytes(body.get(at..at + 4)?.try_into().ok()?);
            at += 4;
            values.push(match usize::try_from(length) {
                Ok(length) => {
                    body.get(at..at + length)?;
                    at += length;
                    Some(at - length..at)
                }
                Err(_) => None,
            });
        }
        Some(Self {
            portal,
            statement,
            formats,
            values,
            result_formats: numbers(body, &mut at)?,
        })
    }
}

fn numbers(body: &[u8], at: &mut usize) -> Option<Vec<u16>> {
    let count = usize::from(u16::from_be_bytes(body.get(*at..*at + 2)?.try_into().ok()?));
    let bytes = body.get(*at + 2..*at + 2 + 2 * count)?;
    *at += 2 + 2 * count;
    Some(
        bytes
            .chunks(2)
            .map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
            .collect(),
    )
}
