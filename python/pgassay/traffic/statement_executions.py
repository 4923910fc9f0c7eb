"""The statements of a capture: each execution with its time and outcome, paired from messages and answers."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from pgassay.traffic.events import ANSWERS, BEGIN, END, MESSAGES, Answer, CaptureEvent, Message

FUNCTION_CALL = "(function call)"
UNKNOWN_STATEMENT = "(prepared before the capture)"
_COUNT_BYTES = 2
_BEGINS = ("BEGIN", "START TRANSACTION")


class Bound(NamedTuple):
    """Values of parameters as sent: a Bind message behind its names, and the types that Parse declared."""

    body: bytes
    types: tuple[int, ...]


class ExecutedStatement(NamedTuple):
    """One execution. Times are nanoseconds from the capture's time 0; `end_ns` is None where no answer came.

    `busy_ns` is what its session spent on it, at some time from `began_ns` on; of a batch (executions without
    Sync or Flush between them, whose answers a server gives together) an even share. `in_pipeline`: other
    statements share it too, and nobody can tell what each took. `protocol` is simple, extended or function.
    `status` is that of the transaction after it, '' within a pipeline. `bound`: the values of an extended
    one.
    """

    session: int
    text: str
    protocol: str
    start_ns: int
    end_ns: int | None
    busy_ns: int
    tag: str = ""
    rows: int = 0
    affected: int | None = None
    sqlstate: str = ""
    left_out_bytes: int = 0
    status: str = ""
    bound: Bound | None = None
    in_pipeline: bool = False
    began_ns: int = 0


class _Prepared(NamedTuple):
    text: str = UNKNOWN_STATEMENT
    types: tuple[int, ...] = ()


class _Portal(NamedTuple):
    text: str = UNKNOWN_STATEMENT
    bound: Bound | None = None


@dataclass
class _Request:
    kind: str
    text: str
    start_ns: int
    batch: int = 0
    left_out_bytes: int = 0
    tag: str = ""
    rows: int = 0
    affected: int | None = None
    sqlstate: str = ""
    bound: Bound | None = None


@dataclass
class _Session:
    number: int
    requests: deque[_Request] = field(default_factory=deque)
    prepared: dict[bytes, _Prepared] = field(default_factory=dict)
    portals: dict[bytes, _Portal] = field(default_factory=dict)
    free_ns: int = 0
    # Counts Syncs and Flushes.
    batch: int = 0
    # Executions of one batch whose answers came.
    answered: list[ExecutedStatement] = field(default_factory=list)


def statements(events: Iterable[CaptureEvent]) -> Iterator[ExecutedStatement]:
    """Each execution, in the order of their ends, those of a batch together; those without an answer when
    their session ends.
    """
    sessions: dict[int, _Session] = {}
    for event in events:
        session = sessions.get(event.session)
        if event.kind == BEGIN:
            sessions[event.session] = _Session(event.session)
        elif session is None:
            continue
        elif event.kind == MESSAGES:
            for message in event.messages:
                _sent(session, message, event.at_ns)
        elif event.kind == ANSWERS:
            for answer in event.answers:
                yield from _answered(session, answer, event.at_ns)
        elif event.kind == END:
            yield from _unanswered(sessions.pop(event.session))
    for session in sessions.values():
        yield from _unanswered(session)


def _sent(session: _Session, message: Message, at_ns: int) -> None:
    tag = message.tag
    if tag in "dcf":
        _in_copy(session)
    if tag == "Q":
        session.requests.append(_Request("Q", message.text or "", at_ns))
    elif tag == "P":
        name, _, rest = message.body.partition(b"\0")
        session.prepared[name] = _Prepared(message.text or "", _types(rest.partition(b"\0")[2]))
    elif tag == "B":
        portal, _, rest = message.body.partition(b"\0")
        name, _, values = rest.partition(b"\0")
        prepared = session.prepared.get(name, _Prepared())
        session.portals[portal] = _Portal(prepared.text, Bound(values, prepared.types))
    elif tag == "E":
        executed = session.portals.get(message.body.partition(b"\0")[0], _Portal())
        session.requests.append(_Request("E", executed.text, at_ns, session.batch, bound=executed.bound))
    elif tag == "F":
        session.requests.append(_Request("F", FUNCTION_CALL, at_ns))
    elif tag == "S":
        session.batch += 1
        session.requests.append(_Request("S", "", at_ns, session.batch))
    elif tag == "H":
        session.batch += 1
    elif tag == "d" and message.left_out_bytes is not None and session.requests:
        session.requests[-1].left_out_bytes += message.left_out_bytes


def _in_copy(session: _Session) -> None:
    """A Sync that was sent behind the COPY itself, as libpq does, is read as its data and ignored."""
    requests = session.requests
    if len(requests) > 1 and requests[-1].kind == "S" and requests[-2].kind == "E":
        requests.pop()


def _types(declared: bytes) -> tuple[int, ...]:
    """The numbers of types behind their count; most drivers declare none."""
    if len(declared) <= _COUNT_BYTES:
        return ()
    return tuple(int.from_bytes(declared[at : at + 4]) for at in range(_COUNT_BYTES, len(declared) - 3, 4))


def _answered(session: _Session, answer: Answer, at_ns: int) -> Iterator[ExecutedStatement]:
    requests = session.requests
    if not requests:
        return
    first = requests[0]
    if answer.tag in "CsIUV":
        first.tag = answer.content.decode("utf-8", "replace") or first.tag
        first.rows += answer.rows.number
        first.affected = answer.affected if answer.affected is not None else first.affected
        if first.kind == "E":
            yield from _executed(session, requests.popleft(), at_ns)
    elif answer.tag == "E":
        first.sqlstate = answer.content.decode("ascii", "replace")
        first.rows += answer.rows.number
        if first.kind == "E":
            # The server skips what follows, to the next Sync.
            while len(requests) > 1 and requests[1].kind == "E":
                del requests[1]
            yield from _executed(session, requests.popleft(), at_ns)
    elif answer.tag == "Z":
        yield from _shared(session)
        status = answer.content.decode("ascii", "replace")
        while requests:
            request = requests.popleft()
            if request.kind in "QF":
                yield _ended(session, request, at_ns, status)
                return
            if request.kind == "S":
                yield ExecutedStatement(session.number, "", "sync", at_ns, at_ns, 0, status=status)
                return


def _executed(session: _Session, request: _Request, at_ns: int) -> Iterator[ExecutedStatement]:
    """An execution's answer came: with the last of its batch all of them are given."""
    session.answered.append(_ended(session, request, at_ns, ""))
    following = session.requests[0].batch if session.requests else session.batch
    if following != request.batch:
        yield from _shared(session)


def _shared(session: _Session) -> Iterator[ExecutedStatement]:
    yield from shared_out(session.answered)
    session.answered = []


def shared_out(batch: list[ExecutedStatement]) -> Iterator[ExecutedStatement]:
    """The executions of a batch, each with its share of what all took; crates/replay/src/plan/batches.rs does
    the same. BEGIN, which drivers send with the first statement, takes next to nothing.
    """
    parts = [each for each in batch if each.tag not in _BEGINS] or batch
    in_pipeline = len({each.text for each in parts}) > 1
    total_ns, given = sum(each.busy_ns for each in batch), 0
    for each in batch:
        if each.tag in _BEGINS and parts is not batch:
            yield each._replace(busy_ns=0, began_ns=batch[0].began_ns)
            continue
        share_ns = total_ns * (given + 1) // len(parts) - total_ns * given // len(parts)
        given += 1
        yield each._replace(busy_ns=share_ns, began_ns=batch[0].began_ns, in_pipeline=in_pipeline)


def _ended(session: _Session, request: _Request, at_ns: int, status: str) -> ExecutedStatement:
    began_ns = max(request.start_ns, session.free_ns)
    session.free_ns = at_ns
    ended = _statement(session, request, at_ns, at_ns - began_ns, status)
    return ended._replace(began_ns=began_ns)


def _unanswered(session: _Session) -> Iterator[ExecutedStatement]:
    yield from _shared(session)
    for request in session.requests:
        if request.kind != "S":
            yield _statement(session, request, None, 0, "")


def _statement(
    session: _Session, request: _Request, end_ns: int | None, busy_ns: int, status: str
) -> ExecutedStatement:
    return ExecutedStatement(
        session=session.number,
        text=request.text,
        protocol={"Q": "simple", "F": "function"}.get(request.kind, "extended"),
        start_ns=request.start_ns,
        end_ns=end_ns,
        busy_ns=busy_ns,
        tag=request.tag,
        rows=request.rows,
        affected=request.affected,
        sqlstate=request.sqlstate,
        left_out_bytes=request.left_out_bytes,
        status=status,
        bound=request.bound,
    )
