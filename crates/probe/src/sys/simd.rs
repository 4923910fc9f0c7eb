//! Functions that are compiled for more than the least processor, and the question whether this one can run them.
//!
//! They name the function that they compile, and are not given it: called through a parameter it was not inlined, and
//! only what is inlined is compiled for the processor. It ran at a third of the speed.

use crate::page::checksum::hash::columns;
use crate::page::layout::PAGE_BYTES;

#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{has_avx2, has_sse41, with_avx2, with_sse41};

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use super::{PAGE_BYTES, columns};

    pub(crate) fn has_avx2() -> bool {
        is_x86_feature_detected!("avx2")
    }

    pub(crate) fn has_sse41() -> bool {
        is_x86_feature_detected!("sse4.1")
    }

    #[inline]
    pub(crate) fn with_avx2(page: &[u8; PAGE_BYTES]) -> u32 {
        assert!(has_avx2(), "this processor has no AVX2");
        // SAFETY: the processor has what the function was compiled for, as just asked (the answer is cached).
        unsafe { avx2(page) }
    }

    #[inline]
    pub(crate) fn with_sse41(page: &[u8; PAGE_BYTES]) -> u32 {
        assert!(has_sse41(), "this processor has no SSE4.1");
        // SAFETY: the processor has what the function was compiled for, as just asked (the answer is cached).
        unsafe { sse41(page) }
    }

    #[target_feature(enable = "avx2")]
    unsafe fn avx2(page: &[u8; PAGE_BYTES]) -> u32 {
        columns(page)
    }

    #[target_feature(enable = "sse4.1")]
    unsafe fn sse41(page: &[u8; PAGE_BYTES]) -> u32 {
        columns(page)
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) use elsewhere::{has_avx2, has_sse41, with_avx2, with_sse41};

#[cfg(not(target_arch = "x86_64"))]
mod elsewhere {
    use super::{PAGE_BYTES, columns};

    pub(crate) fn has_avx2() -> bool {
        false
    }

    pub(crate) fn has_sse41() -> bool {
        false
    }

    pub(crate) fn with_avx2(page: &[u8; PAGE_BYTES]) -> u32 {
        columns(page)
    }

    pub(crate) fn with_sse41(page: &[u8; PAGE_BYTES]) -> u32 {
        columns(page)
    }
}
