//! Where what is in a PostgreSQL data page (`src/include/storage/bufpage.h`), and how pages lie in files.

/// The size of a page.
pub const PAGE_BYTES: usize = 8192;
/// Where the checksum is, two bytes.
pub const CHECKSUM_AT: usize = 8;
/// Pages of a segment: a request never crosses from one into the next.
pub const SEGMENT_PAGES: u64 = 131_072;

pub(crate) const FLAGS_AT: usize = 10;
pub(crate) const LOWER_AT: usize = 12;
pub(crate) const UPPER_AT: usize = 14;
pub(crate) const SPECIAL_AT: usize = 16;
pub(crate) const SIZE_AT: usize = 18;
pub(crate) const HEADER_BYTES: usize = 24;
pub(crate) const VALID_FLAGS: u16 = 0x0007;
/// The size of the page with the version of the layout, 4, in its low byte.
pub(crate) const SIZE_AND_VERSION: u16 = 0x2004;
