"""`pgassay null-server`: what the load generator, or another client, can do at most on this machine."""

import argparse
import sys

from pgassay.cli import options
from pgassay.cli.output import publish
from pgassay.errors import UsageError

TYPE_CHECKING = False  # typing itself is not worth its import here
if TYPE_CHECKING:
    from pgassay.model.workload import LoadSpec

CLIENTS_DEFAULT = "1,8,50"
SECONDS_DEFAULT = 3.0
WARMUP_S = 0.5
EPILOG = """examples:
  pgassay null-server
  pgassay null-server --clients 8,1000 --workload tpcb:protocol=simple
  pgassay null-server --serve /tmp/null      then, elsewhere: pgbench -n -S -c 8 -T 5 -h /tmp/null postgres
"""


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "null-server",
        help="measure the client only, against a server that answers immediately",
        description="Starts a server that answers every query immediately with an empty result and runs a "
        "load against it: the most that the load generator can do on this machine. A real server's "
        "result close to that measures the client, not the server.",
        epilog=EPILOG,
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    parser.add_argument(
        "--clients",
        default=CLIENTS_DEFAULT,
        metavar="N,N",
        help=f"numbers of connections, measured in turn (default {CLIENTS_DEFAULT})",
    )
    parser.add_argument(
        "--workload",
        default="select-only",
        metavar="W[:OPTIONS]",
        help="select-only (default), tpcb, simple-update, sysbench:SCRIPT or pgbench:file=FILE, "
        "with threads=, protocol= and rate=",
    )
    options.add_seconds(parser, "how long to measure each (default 3)", SECONDS_DEFAULT)
    options.add_formats(parser)
    parser.add_argument(
        "--serve",
        type=options.folder,
        metavar="FOLDER",
        help="measure nothing: serve other clients on a socket in this folder, until Ctrl-C",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serve until interrupted, or measure and print."""
    if arguments.serve is not None:
        return _serve(arguments)
    from pgassay.model.workload import BY_SSH
    from pgassay.native.null_server import measure_client
    from pgassay.report.listings import ceilings_page
    from pgassay.value_syntax.quantities import CLIENTS_MAX, whole
    from pgassay.workloads.pgbench_builtin import with_clients
    from pgassay.workloads.registry import parse_workload

    typed = [part for part in arguments.clients.split(",") if part.strip()]
    if not typed:
        raise UsageError("--clients has no number: write --clients 1,8,50")
    clients = [whole(part, "--clients", least=1, most=CLIENTS_MAX) for part in typed]
    workload = parse_workload(arguments.workload)
    load = None if workload.times_statements else workload.load
    if load is None:
        raise UsageError(
            f"{arguments.workload} runs its statements one by one: write a load, as --workload select-only"
        )
    if load.host:
        raise UsageError(
            f"client={BY_SSH}{load.host}: null-server measures the load generator of the machine that it "
            "runs on: leave it out, and run pgassay null-server there"
        )
    _refuse_rows(load)
    load = load.model_copy(update={"duration_s": arguments.seconds, "warmup_s": WARMUP_S})
    ceilings = [measure_client(with_clients(load, count)) for count in clients]
    is_held = load.pace is not None or load.has_pauses
    publish(ceilings_page(arguments.workload, ceilings, is_held=is_held), arguments)
    return 0


def _refuse_rows(load: "LoadSpec") -> None:
    r"""Raise UsageError for a script whose \gset would end the run: it needs a row, and none is answered."""
    for script in load.scripts:
        for number, line in enumerate(script.text.splitlines(), 1):
            if "\\gset" in line and not line.lstrip().startswith("--"):
                raise UsageError(
                    f"{script.name}:{number} has \\gset, which needs a row, and null-server returns none: "
                    "measure a script without it"
                )


def _serve(arguments: argparse.Namespace) -> int:
    import time

    from pgassay.native.null_server import PORT, null_server

    if not arguments.serve.is_dir():
        raise UsageError(f"--serve {arguments.serve}: there is no such folder: make it first")
    with null_server(arguments.serve):
        print(
            f"Answers every query immediately on port {PORT} of {arguments.serve}; Ctrl-C ends it. "
            f"For example: pgbench -n -S -c 8 -T 5 -h {arguments.serve} postgres",
            file=sys.stderr,
        )
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            return 0
