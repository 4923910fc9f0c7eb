//! `pgassay-native`: the measuring process.

use std::process::ExitCode;

use pgassay_native::lines::EXIT_USAGE;
use pgassay_native::load_command::{load, pgbench, sysbench};
use pgassay_native::mix_command::mix;
use pgassay_native::null_server::null_server;
use pgassay_native::observe_command::observe;
use pgassay_native::probe_command::probe;
use pgassay_native::scripts_command::scripts;
use pgassay_native::simulate_command::simulate;
use pgassay_native::sql_command::sql;
use pgassay_native::sysbench_tables::sysbench_tables;
use pgassay_native::traffic::capture::capture;
use pgassay_native::traffic::redact::capture_redact;
use pgassay_native::traffic::replay::replay;
use pgassay_native::traffic::replay_plan::{capture_sessions, replay_plan};
use pgassay_native::traffic::write::capture_write;
use pgassay_native::volume_command::volume;

const HELP: &str = "\
pgassay-native: the measuring process of pgassay

Usage: pgassay-native COMMAND

Commands (JSON on standard input, JSON lines on standard output):
  sql          run statements one by one and time each
  load         run a closed loop of transactions over many connections
  mix          run statements by several sessions at once and time each
  pgbench      run scripts by pgbench's rules and count as it does
  sysbench     run a script of sysbench's by its rules and count as it does
  sysbench-tables  make sysbench's tables and load them by COPY
  scripts      read scripts of pgbench's language and tell what they send
  null-server  answer every query at once with an empty result
  probe        measure storage as PostgreSQL reads and writes it
  observe      sample what the threads of a server do and wait for
  simulate     run requests against models of volumes, without a device
  capture      stand between clients and a server, and record what they say
  capture-write  write a capture from what was read in a server's log
  capture-redact  write a capture without its values, to be handed out
  capture-sessions  say whose sessions a capture has
  replay-plan  say what a replay of a capture would play
  replay       play a capture against a server, and count what differs
  volume       serve a block device's file that answers as a model says (needs root and FUSE)

  --version    print the version and a checksum of the sources
  --help       print this

When standard input closes, the process ends.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let status = match arguments[..] {
        ["sql"] => sql(),
        ["load"] => load(),
        ["mix"] => mix(),
        ["pgbench"] => pgbench(),
        ["sysbench"] => sysbench(),
        ["sysbench-tables"] => sysbench_tables(),
        ["scripts"] => scripts(),
        ["null-server"] => null_server(),
        ["probe"] => probe(),
        ["observe"] => observe(),
        ["simulate"] => simulate(),
        ["capture"] => capture(),
        ["capture-write"] => capture_write(),
        ["capture-redact"] => capture_redact(),
        ["capture-sessions"] => capture_sessions(),
        ["replay-plan"] => replay_plan(),
        ["replay"] => replay(),
        ["volume"] => volume(),
        ["--version"] => {
            // The second word tells builds of one version apart: Python compares it with the sources beside it.
            println!(
                "pgassay-native {} {}",
                env!("CARGO_PKG_VERSION"),
                env!("PGASSAY_SOURCES")
            );
            0
        }
        ["--help" | "-h"] => {
            println!("{HELP}");
            0
        }
        _ => {
            eprintln!("pgassay-native: expected one command; type `pgassay-native --help` for the list");
            EXIT_USAGE
        }
    };
    ExitCode::from(u8::try_from(status).unwrap_or(u8::MAX))
}
