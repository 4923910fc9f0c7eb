"""What limits a running server, what is wrong with it, and where its time goes."""

from collections.abc import Iterator, Sequence
from functools import partial

from pgassay.analysis.causes.registry import rule_of
from pgassay.analysis.causes.rules.bloat import HOLDER_REMEDIES
from pgassay.model.account import Account
from pgassay.model.running_server.diagnosis import Blocker, Diagnosis
from pgassay.model.vacuum_state import Holder
from pgassay.report import text
from pgassay.report.compare import causes
from pgassay.report.compare.accounts import SHOWN, item_label
from pgassay.report.diagnosis.statement_sections import headline_section, query, statements_section
from pgassay.report.page import Page
from pgassay.report.section import (
    HTML,
    QUIET,
    STRONG,
    Block,
    Cell,
    Column,
    Fold,
    Group,
    Paragraph,
    Row,
    Section,
    bullets,
    plain_table,
)
from pgassay.report.section import Table as PlainTable

Table = tuple[str, list[str], list[list[str]]]
# Smaller parts than this of an account are added up.
_SHARE_MIN = 0.01
_ALSO_SHOWN = {"autovacuum": "autovacuum", "checkpointer": "checkpointer", "WAL writer": "WAL writer"}
# A process of the server's own that was at work for less than this is not worth a table.
_BUSY_SHARE_MIN = 0.02
_HOLDER_S_MIN = 60.0
_SHOWN_MIN = 0.0005
_SAMPLED = "Running statements (samples of pg_stat_activity)"


def page_of(diagnosis: Diagnosis) -> Page:
    """The limit, the faults, what to look at next; then what they rest on."""
    return Page(
        f"Diagnosis of {diagnosis.server.name}",
        diagnosis,
        partial(_sections, diagnosis),
        footer=f"Observed at {diagnosis.started_at} by pgassay {diagnosis.pgassay_version}.",
        is_wrapped=False,
    )


def _sections(diagnosis: Diagnosis) -> list[Section]:
    cause_blocks: list[Block] = []
    for sentence, *details in cause_lines(diagnosis):
        cause_blocks.append(Paragraph(sentence, STRONG))
        cause_blocks += [bullets(details)] if details else []
    found, statements = diagnosis.headline, statements_section(diagnosis)
    return [
        Section("", "setting", tuple(Paragraph(line, QUIET) for line in headline(diagnosis))),
        *([headline_section(found)] if found is not None else []),
        *([statements] if statements is not None else []),
        Section("Limit and faults", "verdict", tuple(cause_blocks)),
        *_next(diagnosis),
        *(
            Section(heading, f"table-{number}", (plain_table(heads, rows),))
            for number, (heading, heads, rows) in enumerate(tables(diagnosis), start=1)
        ),
        *_statements_apart(diagnosis),
        *(
            Section(heading, f"notes-{number}", (bullets(lines),))
            for number, (heading, lines) in enumerate(notes(diagnosis), start=1)
        ),
        Section("Cost of observing", "cost", (Paragraph(cost_sentence(diagnosis), QUIET),)),
    ]


def headline(diagnosis: Diagnosis) -> list[str]:
    """What was looked at, and what went on there."""
    server, activity = diagnosis.server, diagnosis.activity
    where = f"on this machine (process {server.postmaster_pid})" if server.is_local else "not on this machine"
    standby = ", a standby" if server.is_standby else ""
    asked = text.figure(diagnosis.seconds_asked, 6)
    ended = f", ended before {asked} s were over" if diagnosis.interrupted else ""
    lines = [
        f"{text.clean(server.name)}: PostgreSQL {text.clean(server.version)}, {where}{standby}; "
        f"{diagnosis.seconds:.1f} s{ended}"
    ]
    known = [
        *_figure(activity.connections_busy, "connections busy"),
        *_figure(activity.parallel_workers or None, "parallel workers"),
        *_figure(activity.connections_idle, "idle"),
        *_figure(activity.transactions_s, "transactions/s"),
        *_figure(activity.postgres_read_mb_s, "MB/s read by PostgreSQL"),
        *_figure(activity.server_read_mb_s, "MB/s from the device"),
        *_figure(activity.device_write_mb_s, "MB/s written to it"),
        *_figure(activity.wal_mb_s, "MB/s of WAL"),
        *_figure(activity.server_cpus, "processors used by the server"),
        *_figure(activity.clients_cpus or None, "by its clients here"),
        *_figure(activity.others_cpus, "by others"),
    ]
    others = [f"{text.clean(name)} {text.figure(cpus, 2)}" for name, cpus in activity.others.items()]
    return [*lines, ", ".join(known) + (f" ({', '.join(others)})" if others else "") + "."]


def _figure(value: float | None, unit: str) -> list[str]:
    if value is None:
        return []
    # Less than a thousandth is told as nothing: 1.32e-05 MB/s is no figure for a reader.
    shown = value if abs(value) >= _SHOWN_MIN else 0.0
    return [f"{shown:,.0f} {unit}" if shown >= 1000 else f"{text.figure(shown)} {unit}"]


def cause_lines(diagnosis: Diagnosis) -> Iterator[list[str]]:
    """The lines of each cause: what it is, what it rests on, what mends it."""
    for cause in diagnosis.causes:
        kind = "Limit" if cause.kind == "limit" else "Fault"
        idle_share = cause.evidence.get("idle_share")
        if isinstance(idle_share, float):
            share = text.percent_fixed(idle_share, 1)
            sentence = f"unknown: the server was idle ({share} of the time no connection worked)."
        elif cause.cause == "unknown":
            why = cause.evidence.get("not_known")
            sentence = "unknown" + (f" (missing: {text.clean(str(why))})." if why else ".")
        else:
            rule = rule_of(cause.cause)
            phrase = rule.on_running_server.phrase if rule is not None else None
            sentence = causes.sentence(cause, "the server", phrase or "")
            sentence = sentence.removeprefix("the server: ")
        lines = [f"{kind}: {sentence}", f"{cause.cause}, layer {cause.layer}"]
        figures = causes.figures(cause)
        if figures and cause.cause != "unknown":
            lines.append(f"evidence: {figures}")
        yield [*lines, cause.remedy]
    if len(diagnosis.causes) == 1 and _old_holders(diagnosis):
        yield [
            "Faults: none that takes time yet. Old transactions keep dead rows from being removed: see below."
        ]
    elif len(diagnosis.causes) == 1:
        yield ["Faults: none found."]


def _old_holders(diagnosis: Diagnosis) -> list[Holder]:
    """Those that have kept dead rows for longer than an ordinary transaction lasts."""
    return [each for each in diagnosis.holders if each.seconds is None or each.seconds >= _HOLDER_S_MIN]


def tables(diagnosis: Diagnosis) -> list[Table]:
    """The tables that have rows, in the page's order."""
    made = [*_accounts(diagnosis), _blockers(diagnosis)]
    return [table for table in made if table[2]]


def _next(diagnosis: Diagnosis) -> Iterator[Section]:
    """Where to look for each cause, but for the limit where the headline says what to do."""
    lines = diagnosis.next if diagnosis.headline is None else diagnosis.next[1:]
    if lines:
        yield Section("What to check next", "next", (bullets(lines),))


def _statements_apart(diagnosis: Diagnosis) -> Iterator[Section]:
    """The statements as each source has them, for the page."""
    heading, heads, rows = _called(diagnosis)
    tables = ((_SAMPLED, _sampled(diagnosis)), (heading, plain_table(heads, rows)))
    folds = tuple(
        Fold(title, (table,), is_titled=False, where=HTML) for title, table in tables if table.groups[0].rows
    )
    if folds:
        yield Section(
            "Statements by where they were seen", "statements-seen", folds, titled=frozenset({"html"})
        )


def _accounts(diagnosis: Diagnosis) -> Iterator[Table]:
    for account in diagnosis.accounts:
        name = (SHOWN | _ALSO_SHOWN).get(account.process)
        is_shown = account.process == "backend" or _busy_share(account) > _BUSY_SHARE_MIN
        if name and account.wall_s > 0 and is_shown:
            heading = f"Where the time of {name} went ({text.figure(account.threads)} at a time)"
            yield heading, ["", "seconds", "share"], _items(account, diagnosis)


def _busy_share(account: Account) -> float:
    """The share of its time in which a process of the server's own did not wait for something to do."""
    waits = [item for item in account.items if item.kind == "wait"]
    idle_s = sum(item.seconds for item in waits if item.wait_event_type in ("Activity", ""))
    return 1 - (idle_s + abs(account.residue_s)) / account.wall_s if account.wall_s > 0 else 0.0


def _items(account: Account, diagnosis: Diagnosis) -> list[list[str]]:
    rows, small = [], 0.0
    merged: dict[str, float] = {}
    for item in account.items:
        label = item_label(item)
        if item.kind == "client":
            label = "idle in a transaction" if account.process == "backend" else label
        merged[label] = merged.get(label, 0.0) + item.seconds
    for label, seconds in merged.items():
        if abs(seconds) < _SHARE_MIN * account.wall_s:
            small += seconds
        else:
            rows.append(_row(label, seconds, account.wall_s))
    if small:
        rows.append(_row("everything else", small, account.wall_s))
    is_seen = diagnosis.server.is_local
    rest = "residue" if is_seen else "no wait event: on a processor or waiting for one, not known which"
    return [*rows, _row(rest, account.residue_s, account.wall_s)]


def _row(label: str, seconds: float, wall_s: float) -> list[str]:
    return [label, f"{seconds:.2f}", f"{text.percent_fixed(seconds / wall_s, 1)}"]


def _sampled(diagnosis: Diagnosis) -> PlainTable:
    """On a page alone, which may be a telephone's: events stand below their statement."""
    rows = []
    for each in diagnosis.sampled:
        events = ", ".join(
            f"{text.clean(event) or 'no wait event'} {text.percent_fixed(share)}"
            for event, share in list(each.waits.items())[:2]
        )
        notes = (f"seen in: {events}",) if events else ()
        rows.append(Row((Cell(query(each.query), notes=notes), Cell(text.percent_fixed(each.share)))))
    return PlainTable((Column("", is_figure=False), Column("share")), (Group(tuple(rows)),))


def _called(diagnosis: Diagnosis) -> Table:
    rows = [
        [
            query(each.query),
            f"{each.calls:,}",
            f"{each.total_s:.2f} s",
            f"{text.figure(each.mean_ms)} ms",
            text.size(each.read_bytes),
            text.size(each.temporary_bytes),
        ]
        for each in diagnosis.statements or ()
    ]
    header = ["", "calls", "time", "mean", "read", "temporary"]
    return "Completed statements (differences of pg_stat_statements)", header, rows


def _blockers(diagnosis: Diagnosis) -> Table:
    rows = [
        [
            _who(each),
            str(each.waiting_max),
            f"{each.waiting_s:.1f} s",
            " → ".join(str(pid) for pid in each.chain[:6]),
        ]
        for each in diagnosis.blockers
    ]
    return "Sessions that block others", ["", "waited, at most", "together", "waits → for"], rows


def _who(blocker: Blocker) -> str:
    since = f" for {text.seconds(blocker.transaction_s)}" if blocker.transaction_s is not None else ""
    name = f"process {blocker.pid}" if blocker.pid else "a prepared transaction"
    who = f" ({text.clean(blocker.application or blocker.user)})" if blocker.user else ""
    return f"{name}{who}, {text.clean(blocker.state) or 'state not seen'}{since}: {query(blocker.query)}"


def notes(diagnosis: Diagnosis) -> list[tuple[str, Sequence[str]]]:
    """What else was seen, and what could not be."""
    changes = [
        f"{each.what} changed {each.at_s:.0f} s after the beginning, from {text.figure(each.before)} to "
        f"{text.figure(each.after)} {each.unit}"
        for each in diagnosis.changes
    ]
    held = [
        f"{each.kind} {text.clean(each.name)}: {each.transactions:,} transactions old"
        + (f", {text.duration(each.seconds)}" if each.seconds is not None else "")
        + f". {HOLDER_REMEDIES[each.kind]}"
        for each in _old_holders(diagnosis)
    ]
    found = [
        ("Changes within the interval", changes),
        ("What keeps dead rows from being removed", held),
        ("Not seen", [text.clean(line) for line in diagnosis.missing]),
        ("Warnings", [text.clean(line) for line in diagnosis.warnings]),
    ]
    return [(heading, lines) for heading, lines in found if lines]


def cost_sentence(diagnosis: Diagnosis) -> str:
    """What looking took."""
    cost = diagnosis.sampling
    sessions = (
        "its sessions in the server not measured"
        if cost.sessions_cpu_s is None
        else f"{cost.sessions_cpu_s:.3f} s of its sessions in the server"
    )
    missed = f", {cost.missed} too late" if cost.missed else ""
    return (
        f"Observing took {text.percent_fixed(cost.share_of_core, 2)} of one core: {cost.tool_cpu_s:.3f} s of "
        f"CPU of pgassay, {cost.observer_cpu_s:.3f} s of its sampler, {sessions}; {cost.samples} looks at "
        f"threads and waits, {text.figure(cost.rate_hz, 6)} a second{missed}."
    )
