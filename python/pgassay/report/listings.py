"""Pages that are lists: what the doctor found, builds, results, machines, what the load generator can do."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby

from pgassay.model.build import BuildListing, major_of
from pgassay.model.machines.doctor import DoctorReport, Finding
from pgassay.model.machines.fleet import FleetMachine, FleetStatus
from pgassay.model.workload import ClientCeiling
from pgassay.report.page import Page
from pgassay.report.section import (
    ALARM,
    HTML,
    MARKDOWN,
    QUIET,
    TERMINAL,
    WARNING,
    Block,
    Bullets,
    Cell,
    Column,
    Group,
    Item,
    Paragraph,
    Row,
    Section,
    Table,
    bullets,
    plain_table,
)
from pgassay.words import bare_quantity, percent_fixed, plural, seconds, size

# --- What the doctor found.

_WORDS = {"ok": "ok", "missing": "MISSING", "warning": "warning"}
_TONES = {"ok": "", "missing": ALARM, "warning": WARNING}
_FINDING = (*(Column("", is_figure=False),) * 2, Column("", is_figure=False, where=MARKDOWN | HTML))


def doctor_page(report: DoctorReport) -> Page:
    """A table for each group: how it is, what was found, and what to do about it."""
    return Page(f"What {report.hostname} can do", report, partial(_findings, report), is_wrapped=False)


def _findings(report: DoctorReport) -> list[Section]:
    sections = []
    for group, findings in groupby(report.findings, key=lambda each: each.group):
        rows = tuple(row for each in findings for row in _finding_rows(each))
        sections.append(Section(group.capitalize(), group, (Table(_FINDING, (Group(rows),)),)))
    return [*sections, Section("", "summary", (Paragraph(_summary_of_findings(report)),))]


def _finding_rows(finding: Finding) -> Iterator[Row]:
    """A row; on a terminal, which has no room beside it, the remedy is a row of its own."""
    word = Cell(_WORDS[finding.status], _TONES[finding.status])
    yield Row((word, Cell(finding.text), Cell(finding.remedy)))
    if finding.remedy:
        yield Row((Cell(""), Cell(f"-> {finding.remedy}"), Cell("")), where=TERMINAL)


def _summary_of_findings(report: DoctorReport) -> str:
    counts = {status: sum(item.status == status for item in report.findings) for status in _WORDS}
    return (
        f"{counts['ok']} ok, {plural(counts['warning'], 'warning')}, {counts['missing']} missing. Missing "
        "capabilities matter only to features that use them; 'pgassay calibrate' says what this machine "
        "can detect."
    )


# --- Builds of PostgreSQL.

NO_BUILDS = (
    "No PostgreSQL build was found, and this machine has no apt to unpack one with: install PostgreSQL 16 or "
    "newer with the machine's package manager, or give one with --pg /path/to/bin."
)


def builds_page(
    listings: Sequence[BuildListing], *, major_min: int, removed: Sequence[str] | None = None
) -> Page:
    """A row for each build, and below it what closes a gate; of `removed` builds only what was removed."""
    document = {"schema": 1, "builds": [listing.model_dump() for listing in listings]}
    make = partial(_removed, removed) if removed is not None else partial(_builds, listings, major_min)
    return Page("Builds of PostgreSQL", document, make, is_wrapped=False)


def _removed(sentences: Sequence[str]) -> list[Section]:
    said = tuple(map(Paragraph, sentences or ("nothing was built from source",)))
    return [Section("", "removed", said)]


def _builds(listings: Sequence[BuildListing], major_min: int) -> list[Section]:
    if not listings:
        return [Section("", "builds", (Paragraph(NO_BUILDS),))]
    rows = [
        (
            each.origin,
            each.version,
            each.path or f"(pgassay builds install {each.origin}:{each.version})",
            "yes" if each.gate is None else f"no ({each.gate.name})",
        )
        for each in listings
    ]
    heads = ("origin", "version", "path", "io_uring")
    old = [each.version for each in listings if major_of(each.version) < major_min]
    too_old = f"Too old to be measured: {', '.join(old)}. pgassay measures {major_min} and newer."
    return [
        Section("", "builds", (plain_table(heads, rows, names=len(heads)),)),
        _from_source(listings),
        Section("", "age", (Paragraph(too_old),) if old else ()),
        _gates([each for each in listings if major_of(each.version) >= major_min]),
    ]


def _from_source(listings: Sequence[BuildListing]) -> Section:
    items = []
    for listing in listings:
        if listing.trees:
            tree = listing.trees[0]
            names = [f"{one.name} ({one.commit[:10] or f'tree {one.tree[:10]}'})" for one in listing.trees]
            lacking = f"; without {', '.join(tree.lacking)}, not on this machine" if tree.lacking else ""
            detail = f"{', '.join(names)} by {tree.compiler}{lacking}"
            items.append(Item(listing.path or "", detail=detail))
    return Section("Built from source", "source", (Bullets(tuple(items)),) if items else ())


def _gates(listings: Sequence[BuildListing]) -> Section:
    reasons: dict[str, dict[str, None]] = {}
    for listing in listings:
        if (gate := listing.gate) is not None:
            reasons.setdefault(gate.remedy, {})[f"{gate.name}: {gate.reason}."] = None
    blocks: list[Block] = []
    for remedy, lines in reasons.items():
        blocks += [bullets(lines), Paragraph(f"Remedy: {remedy}.")]
    return Section("Without io_uring", "gates", tuple(blocks))


# --- Stored results.

_TITLE_WIDTH_MAX = 44
# How it ended, where the stored word alone would be a riddle beside the number of blocks.
_STOPPED = {"max-time": "time limit", "blocks": "block limit", "running": "not ended"}


@dataclass(frozen=True)
class ListedResult:
    """One stored result: `verdict` has its sentences.

    `started` is its ISO time; `amount` what it rests on, as '8 blocks'; `ended` why it stopped; `error` says
    why the folder can't be read, '' when it can.
    """

    folder: str
    started: str = ""
    title: str = ""
    amount: str = ""
    ended: str = ""
    verdict: tuple[str, ...] = ()
    error: str = ""


def results_page(results: Sequence[ListedResult]) -> Page:
    """The results of a folder, oldest first: what each is, what it rests on, how it ended; its verdict."""
    ordered = sorted(results, key=lambda each: (each.started, each.folder))
    document = {"schema": 1, "results": [asdict(each) for each in ordered]}
    return Page("Results", document, partial(_results, ordered), is_wrapped=False)


def _results(results: Sequence[ListedResult]) -> list[Section]:
    if not results:
        hint = "No results here: run 'pgassay compare', or name another folder with 'pgassay list FOLDER'."
        return [Section("", "results", (Paragraph(hint),))]
    rows = [_result_cells(each) for each in results]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines: list[Block] = []
    for row in rows:
        *padded, verdict = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        lines.append(Paragraph("  ".join(padded).rstrip(), where=TERMINAL))
        lines.append(Paragraph(f"    {verdict.rstrip()}", QUIET, where=TERMINAL))
    heads = ("folder", "started", "rests on", "ended", "what", "verdict")
    table = plain_table(heads, rows, names=len(heads), where=MARKDOWN | HTML)
    return [Section("", "results", (*lines, table))]


def ended_words(stopped: str) -> str:
    """How it ended, in words."""
    return _STOPPED.get(stopped, stopped)


def _result_cells(each: ListedResult) -> tuple[str, ...]:
    """Folder, start to the minute, amount, how it ended, title, and the first sentence of its verdict."""
    if each.error:
        return each.folder, "", "", "unreadable", "", each.error
    title = each.title
    if len(title) > _TITLE_WIDTH_MAX:
        title = title[: _TITLE_WIDTH_MAX - 1] + "…"
    verdict = each.verdict[0] if each.verdict else "no verdict yet"
    if len(each.verdict) > 1:
        verdict += f" (and {len(each.verdict) - 1} more)"
    started = each.started[:16].replace("T", " ")
    return each.folder, started, each.amount, ended_words(each.ended), title, verdict


# --- The machines of a fleet.

_RENEWED_BEFORE = timedelta(days=3)
_MACHINE = ("machine", "state", "round trip", "host", "part of its host")


def fleet_page(status: FleetStatus, now: datetime) -> Page:
    """The scheduler, a row for each machine, and what to type where one is lost or the certificates end."""
    return Page(f"Fleet of {status.file}", status, partial(_fleet, status, now), is_wrapped=False)


def _fleet(status: FleetStatus, now: datetime) -> list[Section]:
    answers = "answers" if status.scheduler_answers else "does not answer"
    head = f"Scheduler {status.scheduler}: {answers}. {_certificates(status, now)}"
    columns = tuple(Column(head, is_figure=head == "round trip") for head in _MACHINE)
    rows = tuple(Row(tuple(map(Cell, _machine_cells(each)))) for each in status.machines)
    blocks = (Paragraph(head), Table(columns, (Group(rows),)), Paragraph(_summary_of_fleet(status)))
    return [Section("", "machines", blocks)]


def _machine_cells(machine: FleetMachine) -> tuple[str, ...]:
    trip = "" if machine.round_trip_ms is None else f"{bare_quantity(machine.round_trip_ms, 'ms')} ms"
    part = ""
    if machine.is_part_of_host:
        cores = ",".join(map(str, machine.cores))
        part = f"processor {cores}" if len(machine.cores) == 1 else f"processors {cores}"
        part += "" if machine.memory_bytes is None else f", {size(machine.memory_bytes)}"
    host = f"{machine.counts_as} (declared)" if machine.counts_as else machine.host
    return machine.name, machine.state, trip, host, part


def _certificates(status: FleetStatus, now: datetime) -> str:
    """Until when they hold; at their end all machines are lost at once."""
    ends = datetime.fromisoformat(status.certificate_ends)
    until = f"Certificates until {ends:%Y-%m-%d}"
    if ends - now > _RENEWED_BEFORE or status.kind == "existing":
        return f"{until}."
    return f"{until}: run pgassay fleet stop and start before then."


def _summary_of_fleet(status: FleetStatus) -> str:
    ready = sum(machine.state == "ready" for machine in status.machines)
    if ready < len(status.machines) or not status.scheduler_answers:
        remedy = (
            "check that cluster"
            if status.kind == "existing"
            else f"run pgassay fleet start --file {status.file} to restart what has stopped"
        )
        return f"{ready} of {plural(len(status.machines), 'machine')} ready: {remedy}."
    return f"{plural(ready, 'machine')} ready, on {plural(status.hosts, 'host')}."


# --- What the load generator can do.

_CEILING = (
    *("clients", "threads", "transactions/s", "client CPU", "busy"),
    *("p50", "p99", "own delay p99", "memory"),
)


def ceilings_page(workload: str, ceilings: Sequence[ClientCeiling], *, is_held: bool = False) -> Page:
    """A row for each number of clients, and what to make of it. `is_held`: a rate or pauses held the load."""
    document = {"schema": 1, "workload": workload, "ceilings": [each.model_dump() for each in ceilings]}
    title = f"{'Cost' if is_held else 'Maximum'} of the load generator here: {workload}"
    return Page(title, document, partial(_ceilings, title, ceilings, is_held=is_held))


def _ceilings(title: str, ceilings: Sequence[ClientCeiling], *, is_held: bool) -> list[Section]:
    rows = [
        (
            str(each.clients),
            str(each.threads),
            f"{each.transactions_per_s:,.0f}",
            seconds(each.cpu_us / 1e6),
            percent_fixed(each.busy),
            seconds(each.latency_p50_ms / 1e3),
            seconds(each.latency_p99_ms / 1e3),
            seconds(each.own_delay_p99_ms / 1e3),
            size(each.memory_bytes) or "-",
        )
        for each in ceilings
    ]
    most = max(each.transactions_per_s for each in ceilings)
    meaning = f"At most {most:,.0f} transactions a second: a server's figure close to that is the client's."
    if is_held:
        meaning = (
            "What the client costs at this rate or with these pauses, and how late its own threads are. "
            "Without them it tells the most that it can do."
        )
    meaning += (
        " Client CPU is of one transaction, polling for the next answer included; busy is without it. "
        "The server that answers at once takes processors as well."
    )
    return [Section(title, "client", (plain_table(_CEILING, rows), Paragraph(meaning)))]
