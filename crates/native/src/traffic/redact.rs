//! `capture-redact`: a capture without its values, to be handed out.

use std::path::PathBuf;

use pgassay_capture::redact::redact;
use pgassay_protocol::Failure;
use serde::Deserialize;
use serde_json::json;

use crate::lines::{EXIT_FAILURE, EXIT_USAGE, fail, read_document, write_line};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RedactSpec {
    from: PathBuf,
    to: PathBuf,
}

/// Runs the command and gives its exit status.
pub fn capture_redact() -> i32 {
    let spec = match read_document::<RedactSpec>() {
        Ok(spec) => spec,
        Err(failure) => return fail(&failure, EXIT_USAGE),
    };
    match redact(&spec.from, &spec.to) {
        Ok(done) => {
            write_line(&json!({ "redacted": {
                "sessions": done.sessions,
                "literals": done.literals,
                "parameters": done.parameters,
                "comments": done.comments,
                "rows": done.rows,
                "left_out": done.left_out,
                "startup": done.startup,
                "bytes": done.bytes,
            } }));
            0
        }
        Err(fault) => fail(&Failure::client(fault.0), EXIT_FAILURE),
    }
}
