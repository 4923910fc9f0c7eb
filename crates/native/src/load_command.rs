//! `load`, `pgbench` and `sysbench`: one specification in, progress and messages on the way, and a record out.

use std::process::exit;

use pgassay_load::pgbench::{Event, PgbenchSpec, Said};
use pgassay_load::sysbench::{self, SysbenchSpec};
use pgassay_load::{LoadSpec, Told};
use pgassay_protocol::{Failure, Parameters};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::lines::{EXIT_ABORTED, EXIT_FAILURE, EXIT_USAGE, fail, read_document, watch_input, write_line};
use crate::link::{LinkConnector, allow_many_sockets};

/// Runs the command and gives its exit status.
pub fn load() -> i32 {
    let report = |told| match told {
        Told::Progress(progress) => write_line(&json!({ "progress": progress })),
        Told::Partial(partial) => write_line(&json!({ "partial": partial })),
    };
    run(LoadSpec::check, |spec: LoadSpec| {
        let connector = connector(&spec.connect);
        pgassay_load::run(&spec, connector, report)
    })
}

/// Runs the scripts of `pgbench` and gives its exit status.
pub fn pgbench() -> i32 {
    run(PgbenchSpec::check, |spec: PgbenchSpec| {
        let connector = connector(&spec.connect);
        pgassay_load::pgbench::run(spec, connector, tell)
    })
}

/// Runs a script of sysbench's by its rules and gives its exit status.
pub fn sysbench() -> i32 {
    let report = |event| match event {
        sysbench::Event::Started => write_line(&json!({ "started": true })),
        sysbench::Event::Progress(progress) => write_line(&json!({ "progress": progress })),
    };
    run(SysbenchSpec::check, |spec: SysbenchSpec| {
        let connector = connector(&spec.connect);
        sysbench::run(spec, connector, report)
    })
}

/// Reads the specification, checks it, and has it run; a closed input ends the process.
fn run<S: DeserializeOwned, R: Serialize>(
    check: impl Fn(&S) -> Result<(), Failure>,
    run: impl FnOnce(S) -> Result<R, Failure>,
) -> i32 {
    let spec = match read_document::<S>().and_then(|spec| check(&spec).map(|()| spec)) {
        Ok(spec) => spec,
        Err(failure) => return fail(&failure, EXIT_USAGE),
    };
    if let Err(error) = watch_input(|| exit(EXIT_ABORTED)) {
        return fail(&Failure::client(error.to_string()), EXIT_FAILURE);
    }
    allow_many_sockets();
    match run(spec) {
        Ok(record) => {
            write_line(&json!({ "record": record }));
            0
        }
        Err(failure) => fail(&failure, EXIT_FAILURE),
    }
}

fn connector(parameters: &Parameters) -> LinkConnector {
    LinkConnector {
        parameters: parameters.clone(),
    }
}

fn tell(event: Event) {
    let document = match event {
        Event::Progress(progress) => json!({ "progress": progress }),
        Event::Said(Said::Error(text)) => json!({ "said": { "level": "error", "text": text } }),
        Event::Said(Said::Detail(text)) => json!({ "said": { "level": "detail", "text": text } }),
        Event::Said(Said::Info(text)) => json!({ "said": { "level": "info", "text": text } }),
    };
    write_line(&document);
}
