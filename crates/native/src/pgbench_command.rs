//! `pgbench`: a run by pgbench's rules; messages and progress on the way, and a record out.

use std::process::exit;

use pgassay_load::pgbench::{Event, PgbenchSpec, Said, run};
use pgassay_protocol::Failure;
use serde_json::json;

use crate::lines::{EXIT_ABORTED, EXIT_FAILURE, EXIT_USAGE, fail, read_document, watch_input, write_line};
use crate::link::{LinkConnector, allow_many_sockets};

/// Runs the command and gives its exit status.
pub fn pgbench() -> i32 {
    let spec = match read_document::<PgbenchSpec>().and_then(|spec| spec.check().map(|()| spec)) {
        Ok(spec) => spec,
        Err(failure) => return fail(&failure, EXIT_USAGE),
    };
    if let Err(error) = watch_input(|| exit(EXIT_ABORTED)) {
        return fail(&Failure::client(error.to_string()), EXIT_FAILURE);
    }
    allow_many_sockets();
    let connector = LinkConnector {
        parameters: spec.connect.clone(),
    };
    match run(spec, connector, report) {
        Ok(record) => {
            write_line(&json!({ "record": record }));
            0
        }
        Err(failure) => fail(&failure, EXIT_FAILURE),
    }
}

fn report(event: Event) {
    let document = match event {
        Event::Progress(progress) => json!({ "progress": progress }),
        Event::Said(Said::Error(text)) => json!({ "said": { "level": "error", "text": text } }),
        Event::Said(Said::Detail(text)) => json!({ "said": { "level": "detail", "text": text } }),
        Event::Said(Said::Info(text)) => json!({ "said": { "level": "info", "text": text } }),
    };
    write_line(&document);
}
