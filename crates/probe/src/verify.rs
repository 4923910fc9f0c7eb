//! Judges every page of a relation's file, as `pg_checksums --check` and the server do.

use std::fs::File;
use std::io::{self, Read};

use serde::{Deserialize, Serialize};

use crate::failure::{Code, Failure};
use crate::page::layout::PAGE_BYTES;
use crate::page::validity::{Verdict, verify};

const FAILURES_MAX: usize = 10;
const CHUNK_BYTES: usize = 128 * PAGE_BYTES;

/// Which file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifySpec {
    /// A segment of a relation.
    pub file: String,
    /// The number of its first page in the relation: 131072 for the segment `.1`.
    #[serde(default)]
    pub first_block: u32,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// All pages.
    pub pages: u64,
    /// The first blocks of the relation that the server would refuse.
    pub failures: Vec<u32>,
    /// How many there are.
    pub failure_count: u64,
    /// Pages of zeros, which were never filled.
    pub new_pages: u64,
}

/// Reads a file to its end and judges its pages.
///
/// # Errors
/// What the system answers, and `short-read` when the file ends within a page.
pub fn verify_file(spec: &VerifySpec) -> Result<Verified, Failure> {
    let failed = |error: io::Error| Failure::of(&error, &format!("reading {}", spec.file));
    let mut file = File::open(&spec.file).map_err(failed)?;
    let mut chunk = Vec::with_capacity(CHUNK_BYTES);
    let mut found = Verified::default();
    loop {
        chunk.clear();
        let part = Read::by_ref(&mut file).take(CHUNK_BYTES as u64);
        let count = { part }.read_to_end(&mut chunk).map_err(failed)?;
        if count % PAGE_BYTES != 0 {
            let message = format!("{} ends within a page", spec.file);
            return Err(Failure::new(Code::ShortRead, message));
        }
        if count == 0 {
            return Ok(found);
        }
        for page in chunk.chunks_exact(PAGE_BYTES) {
            judge(page, spec.first_block, &mut found);
        }
    }
}

fn judge(page: &[u8], first_block: u32, found: &mut Verified) {
    let block = first_block.wrapping_add(found.pages as u32);
    found.pages += 1;
    match verify(page, block) {
        Verdict::Valid => {}
        Verdict::New => found.new_pages += 1,
        Verdict::Broken => {
            found.failure_count += 1;
            if found.failures.len() < FAILURES_MAX {
                found.failures.push(block);
            }
        }
    }
}
