"""What the samples of sessions say: which statements were at work and waited, and who blocked whom."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pgassay.analysis.diagnosis.interval import Session, SessionsSample
from pgassay.model.running_server.diagnosis import Blocker, SampledStatement

STATEMENTS_MAX = 10
BLOCKERS_MAX = 5
_WAITS_MAX = 4
IN_TRANSACTION = "idle in transaction"
# Constants of SQL (PostgreSQL's manual, 4.1.2), by which texts of one statement differ. A minus behind
# another operator is the sign of one; a backslash is text, but for E'…', where it may stand before a quote.
_SIGN = r"(?:(?:(?<=[-+*/%=<>(,])|(?<=[-+*/%=<>(,]\s))-)?"
_NUMBER = r"(?:0[xXoObB][\da-fA-F_]+|(?:\d[\d_]*(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?)"
# A name may hold dollar signs: none of those begins a constant.
_TAG = r"(?P<tag>(?:[A-Za-z_\x80-\U0010ffff]\w*)?)"
_CONSTANT = (
    rf"(?<![\w$])\${_TAG}\$.*?\$(?P=tag)\$|(?<!\w)[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"
    rf"{_SIGN}(?<![\w.$]){_NUMBER}\b"
)
# A quote in a name or in a comment begins no constant.
_NAME = r'(?P<name>"(?:[^"]|"")*")'
_COMMENT = r"(?P<comment>--[^\n]*|/\*(?:[^/*]|/(?!\*)|\*(?!/)|/\*.*?(?:\*/|\Z))*(?:\*/|\Z))"
_CONSTANTS = re.compile(_CONSTANT, re.DOTALL)
_LEXEMES = re.compile(f"{_NAME}|{_COMMENT}|{_CONSTANT}", re.DOTALL)
_SPACE = re.compile(r"\s+")


def without_constants(query: str) -> str:
    """The text of a statement with ? for each constant and single spaces; a cut one may keep its last."""
    return _SPACE.sub(" ", _LEXEMES.sub(_as_told, query)).strip()


def _as_told(lexeme: re.Match[str]) -> str:
    """A name as it is, a comment without what looks like a constant in it, and ? for a constant."""
    if lexeme["comment"]:
        return _CONSTANTS.sub("?", lexeme["comment"])
    return lexeme["name"] or "?"


def statement_key(query_id: str | None, query: str) -> str:
    """What a statement is known by: its number, else its text without constants."""
    return query_id or without_constants(query)


def sampled_statements(
    samples: Sequence[SessionsSample], seconds: float, limit: int | None = STATEMENTS_MAX
) -> tuple[SampledStatement, ...]:
    """The statements that sessions were seen in, those of most time first.

    seconds: the interval, which all samples share. limit: how many statements, None for all. A session
    between two statements of its transaction counts for the last one, as waiting for its client.
    """
    if not samples:
        return ()
    sample_s = seconds / len(samples)
    waits: dict[tuple[str | None, str], Counter[str]] = {}
    counts: Counter[tuple[str | None, str]] = Counter()
    for session in (each for sample in samples for each in sample.sessions):
        key = _statement(session)
        # What a leader's workers wait for is what it waits for; the time is its own.
        waits.setdefault(key, Counter())[_wait(session)] += 1
        counts[key] += 0 if session.is_worker else 1
    total = max(1, counts.total())
    chosen = sorted(waits, key=lambda key: (-counts[key], key[1]))[:limit]
    return tuple(
        SampledStatement(
            query_id=key[0],
            query=key[1],
            seconds=counts[key] * sample_s,
            share=counts[key] / total,
            waits={event: count / waits[key].total() for event, count in waits[key].most_common(_WAITS_MAX)},
        )
        for key in chosen
    )


def _statement(session: Session) -> tuple[str | None, str]:
    # Texts of one number differ in their constants alone, and the text is what a person knows it by.
    return session.query_id, without_constants(session.query).rstrip("; ")


def _wait(session: Session) -> str:
    if session.state.startswith(IN_TRANSACTION):
        return IN_TRANSACTION
    return f"{session.event_type}:{session.event}" if session.event_type else ""


@dataclass
class _Head:
    """What is gathered of one head of chains over all samples."""

    session: Session | None = None
    waiting_max: int = 0
    waiting: int = 0
    chain: tuple[int, ...] = ()
    samples: list[int] = field(default_factory=list)


def blockers(samples: Sequence[SessionsSample], seconds: float) -> tuple[Blocker, ...]:
    """The heads of chains of locks, those for which others waited longest first."""
    if not samples:
        return ()
    sample_s = seconds / len(samples)
    heads: dict[int, _Head] = {}
    for sample in samples:
        _gather(sample, heads)
    chosen = sorted(heads, key=lambda pid: -heads[pid].waiting)[:BLOCKERS_MAX]
    return tuple(_blocker(pid, heads[pid], sample_s) for pid in chosen)


def _gather(sample: SessionsSample, heads: dict[int, _Head]) -> None:
    sessions = {each.pid: each for each in sample.sessions}
    blocked = {each.pid: each.blocked_by for each in sample.sessions if each.blocked_by}
    behind: dict[int, set[int]] = {}
    for pid in blocked:
        for chain in _chains(pid, blocked):
            head = chain[-1]
            behind.setdefault(head, set()).add(pid)
            found = heads.setdefault(head, _Head())
            if len(chain) > len(found.chain):
                found.chain = chain
    for head, waiting in behind.items():
        found = heads[head]
        found.session = sessions.get(head, found.session)
        found.waiting += len(waiting)
        found.waiting_max = max(found.waiting_max, len(waiting))


def _chains(pid: int, blocked: Mapping[int, tuple[int, ...]]) -> list[tuple[int, ...]]:
    """One way from a session that waits to each head; a circle (a deadlock not yet found) has none."""
    found, seen = [], {pid}
    waiting: list[tuple[int, ...]] = [(pid,)]
    while waiting:
        chain = waiting.pop(0)
        for other in blocked.get(chain[-1], ()):
            if other in seen:
                continue
            seen.add(other)
            if other in blocked:
                waiting.append((*chain, other))
            else:
                found.append((*chain, other))
    return found


def _blocker(pid: int, head: _Head, sample_s: float) -> Blocker:
    session = head.session
    return Blocker(
        pid=pid,
        user=session.user if session else "",
        application=session.application if session else "",
        state=session.state if session else ("prepared transaction" if pid == 0 else ""),
        query=without_constants(session.query) if session else "",
        transaction_s=session.transaction_s if session else None,
        waiting_max=head.waiting_max,
        waiting_s=head.waiting * sample_s,
        chain=head.chain,
    )
