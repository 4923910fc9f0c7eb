//! Numbers of seven bits a byte (LEB128), and counted bytes.

/// Appends a number.
#[inline]
pub fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push((number & 0x7F) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Appends bytes behind their number.
#[inline]
pub fn put_bytes(bytes: &mut Vec<u8>, content: &[u8]) {
    put(bytes, content.len() as u64);
    bytes.extend_from_slice(content);
}

/// Takes a number from the front; `None` where there is no whole one.
#[inline]
pub fn get(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for group in 0..10 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let low = u64::from(byte & 0x7F);
        if group == 9 && low > 1 {
            return None;
        }
        number |= low << (7 * group);
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Takes so many bytes from the front; `None` where there are fewer.
#[inline]
pub fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(taken)
}

/// Takes counted bytes from the front.
#[inline]
pub fn get_bytes<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let count = usize::try_from(get(bytes)?).ok()?;
    take(bytes, count)
}

/// Takes a number that must fit into 32 bits.
#[inline]
pub fn get_u32(bytes: &mut &[u8]) -> Option<u32> {
    u32::try_from(get(bytes)?).ok()
}

/// Takes a byte.
#[inline]
pub fn get_byte(bytes: &mut &[u8]) -> Option<u8> {
    Some(take(bytes, 1)?[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_back() {
        for number in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            let mut rest = &bytes[..];
            assert_eq!((get(&mut rest), rest.len()), (Some(number), 0));
            assert_eq!(get(&mut &bytes[..bytes.len() - 1]), None);
        }
    }

    #[test]
    fn a_number_beyond_64_bits_is_none() {
        assert_eq!(get(&mut &[0xFF; 12][..]), None);
        assert_eq!(
            get(&mut &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02][..]),
            None
        );
        assert_eq!(get_bytes(&mut &[5, b'a'][..]), None);
    }
}
