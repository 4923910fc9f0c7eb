"""`pgassay capture`: a server's own traffic, recorded by a proxy; and what was recorded."""

import argparse
import sys

from pgassay.cli import options
from pgassay.cli.output import publish
from pgassay.errors import UsageError
from pgassay.value_syntax import quantities

TYPE_CHECKING = False  # typing itself is not worth its import here
if TYPE_CHECKING:
    from pathlib import Path

    from pgassay.traffic.capturing import CaptureProgress, CaptureStart
    from pgassay.traffic.redacting import Redacted

LISTEN_DEFAULT = "127.0.0.1:6432"
# In no time nothing would be recorded.
TIME_S_MIN = 1.0
EPILOG = """examples:
  pgassay capture postgresql://app@db1/shop --out monday
  pgassay capture 'host=/run/postgresql dbname=shop' --out monday --max-time 10m --only users=app,web
  pgassay capture --log postgresql.csv --out yesterday
  pgassay capture show monday
  pgassay capture redact monday --out handout
"""
_OF_A_CAPTURE = (
    *("listen", "out", "max_time", "no_copy_data", "only", "tls_certificate", "tls_key", "log_prefix"),
    "redact",
)
# What is printed of a capture that was made is its totals; 'show' has a page.
_FORMS_OF_SHOW = ("markdown", "text", "html")
# Without a terminal a line of progress comes so often.
_LINE_EVERY_S = 10.0


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "capture",
        help="record a server's own traffic, and summarise it",
        description="A proxy between clients and a server: clients connect to --listen instead of the "
        "server, and every message is passed on immediately and recorded with its time, until Ctrl-C. "
        "'show' sums up what was captured. A capture contains your users' data; 'redact' writes a copy "
        "without them.",
        epilog=EPILOG,
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    parser.add_argument(
        "target",
        nargs="*",
        metavar="DSN|show DIR|redact DIR",
        help="a connection string; or 'show' or 'redact' and a capture's folder",
    )
    parser.add_argument(
        "--listen",
        metavar="ADDRESS:PORT",
        help=f"where clients connect (default {LISTEN_DEFAULT}); from other hosts only with TLS",
    )
    parser.add_argument(
        "--out", type=options.folder, metavar="DIR", help="the capture's folder, which is created"
    )
    time = options.typed(quantities.seconds, least=TIME_S_MIN)
    parser.add_argument("--max-time", type=time, metavar="TIME", help="stop after this long")
    parser.add_argument(
        "--no-copy-data", action="store_true", help="keep only the length of COPY FROM STDIN data"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        action="extend",
        default=[],
        metavar="KEY=NAMES",
        help="record only the sessions of users=a,b or databases=x,y; the others pass unrecorded",
    )
    parser.add_argument(
        "--tls-certificate",
        type=options.folder,
        metavar="FILE",
        help="offer TLS to clients with this certificate (PEM)",
    )
    parser.add_argument("--tls-key", type=options.folder, metavar="FILE", help="its key (PEM)")
    parser.add_argument(
        "--redact",
        action="store_true",
        help="keep no values: when the capture ends they become placeholders (until then they are in "
        "DIR.values)",
    )
    parser.add_argument(
        "--log",
        nargs="+",
        type=options.folder,
        metavar="FILE",
        help="make the capture from a server's log instead: csvlog (.csv), jsonlog (.json), else stderr",
    )
    parser.add_argument(
        "--log-prefix", metavar="TEXT", help="log_line_prefix of a stderr log, if it is not a usual one"
    )
    options.add_formats(
        parser, markdown="of 'show' alone, for an issue", html="of 'show': write an HTML page here as well"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Capture until interrupted, or show a capture."""
    words = arguments.target
    if arguments.log is not None:
        if words:
            raise UsageError(f"--log needs no server: leave '{words[0]}' out")
        _refuse_others(arguments, "--log", ("out", "only", "log", "log_prefix", "redact"))
        return _convert(arguments)
    if not words:
        raise UsageError(
            "name the server: write pgassay capture postgresql://USER@HOST:PORT/DATABASE --out DIR"
        )
    if words[0] in ("show", "redact"):
        if len(words) != 2:
            raise UsageError(
                f"capture {words[0]} takes one folder: write pgassay capture {words[0]} DIR"
                f"{' --out FOLDER' if words[0] == 'redact' else ''}"
            )
        _refuse_others(arguments, words[0], ("out",) if words[0] == "redact" else _FORMS_OF_SHOW)
        return _show(arguments) if words[0] == "show" else _redact(arguments)
    if len(words) > 1:
        raise UsageError(
            f"'{words[1]}' is one word too many: write one connection string, in quotes if it has spaces"
        )
    if "=" not in words[0] and "://" not in words[0]:
        raise UsageError(
            f"'{words[0]}' is not a connection string: write postgresql://USER@HOST:PORT/DATABASE, or "
            "pgassay capture show DIR for what was captured"
        )
    if arguments.log_prefix is not None:
        raise UsageError("--log-prefix is for --log FILE: leave it out, or name the log instead of a server")
    _refuse_others(arguments, "a server to capture", _OF_A_CAPTURE)
    return _capture(arguments)


def _refuse_others(arguments: argparse.Namespace, what: str, taken: tuple[str, ...]) -> None:
    """Raise UsageError for an option that would do nothing: who gave it may rely on it."""
    for name in (*_OF_A_CAPTURE, *_FORMS_OF_SHOW):
        if name not in taken and getattr(arguments, name):
            raise UsageError(f"--{name.replace('_', '-')} does nothing with {what}: leave it out")


def _show(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from pgassay.report.traffic.capture_page import page_of
    from pgassay.traffic.summary import summarise

    publish(page_of(summarise(Path(arguments.target[1]))), arguments)
    return 0


def _redact(arguments: argparse.Namespace) -> int:
    import json
    from dataclasses import asdict
    from pathlib import Path

    if arguments.out is None:
        raise UsageError("say where to write the redacted capture: --out FOLDER")
    done = _redacted(Path(arguments.target[1]), arguments.out)
    if arguments.json:
        document = {"schema": 1, "folder": str(arguments.out), **asdict(done)}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    return 0


def _redacted(folder: "Path", out: "Path") -> "Redacted":
    from pgassay.report.text import plural
    from pgassay.traffic.redacting import redact

    done = redact(folder, out)
    print(
        f"{out}: {plural(done.sessions, 'session')}; {plural(done.literals, 'literal')} and "
        f"{plural(done.parameters, 'parameter')} replaced by placeholders of the same kind and length, "
        f"{plural(done.comments, 'comment')} removed.\n"
        f"Left out: {plural(done.rows, 'row')} that had been kept, all checksums, the content of "
        f"{plural(done.left_out, 'message')} (COPY data, function calls), "
        f"{plural(done.startup, 'startup parameter')}.\n"
        "Kept: names of tables, columns, users, databases and prepared statements; lengths; which values "
        "are equal; times and counts. Check whether a name reveals too much before you share it.\n"
        f"Use it with pgassay capture show {out} and for timing and concurrency. A "
        "replay finds different rows, since ranges and keys differ.",
        file=sys.stderr,
    )
    return done


def _first_folder(arguments: argparse.Namespace) -> "Path":
    """Where the capture is written: with --redact beside --out, which is for the copy without values."""
    from pgassay.traffic.capturing import refuse_full

    out: Path = arguments.out
    if not arguments.redact:
        return out
    refuse_full(out)
    return out.with_name(f"{out.name}.values")


def _take_values_out(arguments: argparse.Namespace, folder: "Path") -> None:
    """With --redact: the copy without values, and the end of what held them."""
    import shutil

    from pgassay.errors import MeasurementError, PgassayError

    if not arguments.redact:
        return
    then = f"write pgassay capture redact {folder} --out {arguments.out}, and remove {folder}"
    try:
        _redacted(folder, arguments.out)
        shutil.rmtree(folder)
    except PgassayError as error:
        raise MeasurementError(
            f"{error}: the capture is in {folder} with its values; remedy that, {then}"
        ) from None
    except OSError as error:
        raise MeasurementError(
            f"{folder} can't be removed ({error.strerror}), and holds values: remove it"
        ) from None
    except KeyboardInterrupt:
        print(f"The capture is in {folder} with its values: {then}", file=sys.stderr)
        raise


def _capture(arguments: argparse.Namespace) -> int:
    import json

    from pgassay.errors import MeasurementError
    from pgassay.traffic.capturing import CaptureRequest, capture

    if arguments.out is None:
        raise UsageError("say where to write the capture: --out DIR")
    if (arguments.tls_certificate is None) != (arguments.tls_key is None):
        raise UsageError("a certificate needs its key: give both --tls-certificate and --tls-key")
    only = _only(arguments.only)
    request = CaptureRequest(
        listen=arguments.listen or LISTEN_DEFAULT,
        connection=arguments.target[0],
        folder=_first_folder(arguments),
        max_s=arguments.max_time,
        copy_data=not arguments.no_copy_data,
        users=only.get("users", ()),
        databases=only.get("databases", ()),
        certificate=_file(arguments.tls_certificate),
        key=_file(arguments.tls_key),
    )
    told = _Told(request.folder)
    try:
        totals = capture(request, told.start, told.progress)
    except MeasurementError as error:
        if not arguments.redact or not any(request.folder.glob("*")):
            raise
        raise MeasurementError(
            f"{error}; its values are in {request.folder}: write pgassay capture redact {request.folder} "
            f"--out {arguments.out}, and remove {request.folder}"
        ) from None
    told.end(totals["failure"])
    _take_values_out(arguments, request.folder)
    if arguments.json:
        sys.stdout.write(json.dumps({"schema": 1, "folder": str(arguments.out), **totals}, indent=2) + "\n")
    return 1 if totals["failure"] else 0


def _convert(arguments: argparse.Namespace) -> int:
    import json
    from dataclasses import asdict

    from pgassay.report.text import plural
    from pgassay.traffic.capturing import made_whole
    from pgassay.traffic.logs.convert_log import convert

    if arguments.out is None:
        raise UsageError("say where to write the capture: --out DIR")
    only = _only(arguments.only)
    folder = _first_folder(arguments)
    with made_whole(folder):
        converted = convert(arguments.log, folder, arguments.log_prefix, only)
    if converted.not_selected:
        print(f"{plural(converted.not_selected, 'other session')} left out, as --only says", file=sys.stderr)
    print(
        f"{plural(converted.statements, 'statement')} of {plural(converted.sessions, 'session')} in "
        f"{folder}, which holds your users' data: pgassay capture show {folder}",
        file=sys.stderr,
    )
    _take_values_out(arguments, folder)
    if arguments.json:
        document = {"schema": 1, "folder": str(arguments.out), **asdict(converted)}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    return 0


def _only(parts: list[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for part in parts:
        key, _, value = part.partition("=")
        names = tuple(name for name in value.split(",") if name)
        if key not in ("users", "databases") or not names:
            raise UsageError(f"--only {part}: write users=NAME,NAME or databases=NAME,NAME")
        found[key] = found.get(key, ()) + names
    return found


def _file(path: "Path | None") -> "Path | None":
    if path is not None and not path.is_file():
        raise UsageError(f"{path}: there is no such file")
    return path


class _Told:
    """What the user reads meanwhile, on standard error."""

    def __init__(self, folder: "Path") -> None:
        self._folder = folder
        self._is_live = sys.stderr.isatty()
        self._next_s = 0.0

    def start(self, start: "CaptureStart") -> None:
        print(
            f"Clients connect to {start.listen} instead of {start.server}, and what they send is recorded in "
            f"{self._folder}.\n"
            "It contains your users' data (statements, parameters, COPY data, some rows): only "
            "you can read the folder.\n"
            "Ctrl-C ends the capture and the connections through it.",
            file=sys.stderr,
        )
        for note in start.notes:
            print(f"note: {note}", file=sys.stderr)
        sys.stderr.flush()

    def progress(self, progress: "CaptureProgress") -> None:
        from pgassay.report.text import duration, size

        if not self._is_live and progress.elapsed_s < self._next_s:
            return
        self._next_s = progress.elapsed_s + _LINE_EVERY_S
        totals = progress.totals
        line = (
            f"{duration(progress.elapsed_s)}: {totals['open']:,} open, {totals['sessions']:,} sessions, "
            f"{progress.statements_per_s:,.0f} statements/s, {size(totals['written_bytes'])} written, "
            f"{totals['dropped']:,} dropped"
        )
        if totals["failure"]:
            line += f"; no longer recording: {totals['failure']}"
        ending = "\x1b[K\r" if self._is_live else "\n"
        sys.stderr.write(line + ending)
        sys.stderr.flush()

    def end(self, failure: str | None) -> None:
        if self._is_live:
            sys.stderr.write("\x1b[K")
        if failure:
            print(f"{self._folder} could not be written completely: {failure}", file=sys.stderr)
        print(f"Captured in {self._folder}: pgassay capture show {self._folder}", file=sys.stderr)
