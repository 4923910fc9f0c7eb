"""What statistics do not hold comes from a few rows of the source: documents, columns never analysed."""

from collections.abc import Callable

import pytest

from pgassay.environment.server.sessions import ControlSession
from pgassay.running_server.open_server import open_target
from pgassay.tune.facts.read import read_facts
from pgassay.tune.rewrites.tree import read
from pgassay.tune.source.few_rows import with_documents, with_values
from pgassay.tune.source.source_server import open_source
from pgassay.tune.source.uses import uses_of
from pgassay.tune.source.values import Drawn, NoValueError, draw
from server_helpers import best_build
from source_servers import SourceServer, source_server

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]

DATA = """
CREATE TABLE tickets (id int PRIMARY KEY, meta jsonb, old json, plain jsonb);
INSERT INTO tickets SELECT n, jsonb_build_object(
    'browser', CASE WHEN n % 4 = 0 THEN 'lynx' ELSE 'firefox' END, 'order', 'O-' || n,
    'Odd "key"', n), json_build_object('size', n % 7), to_jsonb(n)
FROM generate_series(1, 20000) n;
INSERT INTO tickets VALUES (0, NULL, NULL, NULL), (-1, '[1]', '"text"', 'null');
ANALYZE tickets;
"""
BROWSER = "SELECT count(*) FROM tickets t WHERE t.meta ->> 'browser' = $1"


def values(session: ControlSession, sql: str, rows: float) -> tuple[tuple[str | None, ...], ...]:
    return draw(with_documents(session, uses_of(read(sql), read_facts(session)), rows), {}, rows, {}).sets


def test_values_are_those_of_documents_and_a_key_is_the_one_that_leads_to_so_many_rows() -> None:
    with source_server(best_build()) as server, server.connection() as session:
        session.execute(DATA.encode())
        assert values(session, BROWSER, 15000) == (("firefox",), ("lynx",))
        # A key that pg_stat_statements has taken out: of one row in 20,000, or of half of them.
        by_key = "SELECT id FROM tickets WHERE meta ->> $2 = $1"
        assert {key for _, key in values(session, by_key, 1)} <= {"order", 'Odd "key"'}
        assert values(session, by_key, 9000) == (("firefox", "browser"), ("lynx", "browser"))
        ((one, _), _) = values(session, "SELECT FROM tickets WHERE (old ->> 'size')::int IN ($1, $2)", 5700)
        assert one in {str(size) for size in range(7)}
        for refused in ("plain ->> 'nothing' = $1", "meta ->> 'nothing' = $1"):
            with pytest.raises(NoValueError, match=r"\$1: no document of tickets\.\w+ with such a key"):
                values(session, f"SELECT FROM tickets WHERE {refused}", 1)


NEVER_ANALYZED = """
CREATE TABLE calls (id int, queue int, state text, made date, note text, shape point);
INSERT INTO calls SELECT n, n % 300, CASE WHEN n % 20 = 0 THEN 'closed' ELSE 'open' END,
    date '2024-01-01' + n % 365, NULL, point(n, n) FROM generate_series(1, 5000) n;
CREATE TABLE other (id int, other int);
"""


def test_a_table_that_was_never_analysed_lends_values_of_its_rows() -> None:
    with source_server(best_build()) as server, server.connection() as session:
        session.execute(NEVER_ANALYZED.encode())
        facts = read_facts(session)

        def drawn(condition: str) -> Drawn:
            uses = uses_of(read(f"SELECT FROM calls c CROSS JOIN other o WHERE {condition}"), facts)
            return draw(with_values(session, uses), {}, 10, {})

        found = drawn("state = $1 AND c.id = $2")
        (frequent, an_id), (rare, _) = found.sets
        assert (frequent, rare) == ("open", "closed") and 0 < int(str(an_id)) <= 5000
        assert (
            "values of calls.state are those of a few rows, since the statistics hold none" in found.assumed
        )
        ((early, late), _) = drawn("made > $1 AND made < $2").sets
        assert str(early) < str(late)
        check_expressions(drawn)
        check_local(server)
        for refused in ("note", "shape"):
            with pytest.raises(NoValueError, match=f"a few rows hold a value of calls.{refused}"):
                drawn(f"{refused} = $1")


def check_expressions(drawn: Callable[[str], Drawn]) -> None:
    """What is compared is more than a column: its values are asked, and numbers within it assumed."""
    found = drawn("c.id % $1 = $2")
    (one, another) = found.sets
    assert one[0] == another[0] == "10"
    assert {one[1], another[1]} <= {str(number) for number in range(10)} and one != another
    assert found.assumed == (
        "values of id % 10 are those of a few rows of calls", "10 was assumed for $1 of %"
    )  # fmt: skip
    found = drawn("date_trunc($1, c.made) = $2 AND c.queue + c.id > $3")
    assert found.sets[0][0] == "day" and str(found.sets[0][1]).startswith("2024-")
    assert 0 < int(str(found.sets[0][2])) < 5300
    found = drawn("extract($1 FROM c.made) = $2")
    assert found.sets[0][0] == "day" and 1 <= int(str(found.sets[0][1])) <= 31
    assert len(str(drawn("upper(substr(state, $1, $2)) = $3").sets[0][2])) == 3
    # Refused as before: two tables, a number that nothing tells, another's function.
    for refused in ("c.id + o.id = $1", "c.id + $2 = $1", "mine(c.id) = $1", "public.length(state) = $1"):
        with pytest.raises(NoValueError, match="not compared with a column"):
            drawn(refused)


def check_local(server: SourceServer) -> None:
    """Over TCP it is on this machine for `tune` as for `diagnose`."""
    server.execute("ALTER ROLE postgres PASSWORD 'x'")
    name = f"host=127.0.0.1 port={server.port} user=postgres password=x dbname=postgres"
    assert open_source(name).is_here
    assert open_target(name, "DSN", "pgassay test").local is not None
