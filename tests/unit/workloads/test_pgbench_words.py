"""pgbench's words: numbers that nothing can take get pgbench's message, and no traceback."""

import resource
from types import ModuleType

import psycopg
import pytest

from pgassay.cli.commands.loads import pgbench as pgbench_command
from pgassay.cli.commands.loads import sysbench as sysbench_command
from pgassay.environment.remote.connection_parameters import connection_complaint
from pgassay.errors import UsageError
from pgassay.pgbench import connection
from pgassay.pgbench.messages import PgbenchError
from pgassay.pgbench.options import parse
from pgassay.sysbench import connection as sysbench_connection
from pgassay.sysbench.options import SysbenchError
from pgassay.sysbench.options import parse as parse_sysbench

LONG = "9" * 5000


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["-L", "1e999"], 'invalid latency limit: "1e999"'),
        (["-R", "1e999"], 'invalid rate limit: "1e999"'),
        (["--max-tries", "99999999999"], 'invalid number of maximum tries: "99999999999"'),
        (["--max-tries", LONG], "invalid number of maximum tries"),
        (["-t", LONG], "-t/--transactions must be in range 1..2147483647"),
        (["-f", f"a.sql@{LONG}"], "weight specification out of range (0 .. 2147483647)"),
        (["-f", "a.sql@1_0"], "invalid weight specification: @1_0"),
        (["-c", "2147483647"], "need at least 2147483650 open files, but system limit is"),
    ],
)
def test_a_number_that_is_too_large_is_refused(words: list[str], complaint: str) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if words[0] == "-c" and most == resource.RLIM_INFINITY:
        pytest.skip("there is no limit of open files here")
    with pytest.raises(PgbenchError) as caught:
        parse(words, {})
    assert complaint in str(caught.value)


def test_a_connection_that_is_refused_is_no_aborted_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit status 1, as of all that keeps a run from beginning; 2 is that of a client that was aborted."""

    class Session:
        closed = 0

        def add_notice_handler(self, _handler: object) -> None:
            pass

        def close(self) -> None:
            self.closed += 1

    def refuse(*_arguments: object) -> None:
        raise UsageError("the connection: sslcert can't be used: leave sslcert out")

    session = Session()
    monkeypatch.setattr("psycopg.connect", lambda *_words, **_options: session)
    for module in (connection, sysbench_connection):
        monkeypatch.setattr(module, "resolved_from", refuse)
    with pytest.raises(PgbenchError, match="sslcert can't be used") as caught:
        connection.connect(parse(["shop"], {}), "setup")
    with pytest.raises(SysbenchError, match="FATAL: the connection: sslcert can't be used") as failed:
        sysbench_connection.connect(parse_sysbench(["oltp_insert", "run"]))
    assert (caught.value.exit_code, failed.value.exit_code, session.closed) == (1, 1, 2)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (pgbench_command, ["shop", "postgresql://u:hunter2@h/db"]),
        (pgbench_command, ["--password=hunter2", "shop"]),
        (pgbench_command, ["-D", "postgresql://u:hunter2@h/db"]),
        (sysbench_command, ["oltp_insert", "run", "postgresql://u:hunter2@h/db"]),
        (sysbench_command, ["oltp_insert", "run", "--password=hunter2"]),
    ],
)
def test_a_word_in_the_wrong_place_is_not_repeated_with_its_password(
    capsys: pytest.CaptureFixture[str], command: ModuleType, words: list[str]
) -> None:
    assert command.run_words(words) == 1
    said = capsys.readouterr().err
    assert "***" in said and "hunter2" not in said


@pytest.mark.parametrize(
    "typed", ["postgresql://u:hun@ter/2@h/db", "postgresql://u:hun/ter2@h/db", "postgresql://u:hun@ter2@h/db"]
)
def test_a_password_that_ends_early_is_not_taken_for_a_host(typed: str) -> None:
    with pytest.raises(PgbenchError, match="is %25, %40 or %2F") as caught:
        connection.parameters_of(parse([typed], {}), {})
    assert "hun" not in str(caught.value) and "ter" not in str(caught.value)
    whole = connection.parameters_of(parse(["postgresql://u:hun%40ter%2F2@h:5433/db"], {}), {})
    assert (whole["password"], whole["host"], whole["port"]) == ("hun@ter/2", "h", "5433")


def test_complaints_of_several_hosts_are_libpq_s_own_words() -> None:
    text = (
        'connection is bad: connection to server on socket "/b/.s.PGSQL.2" failed: No such file\n'
        "Multiple connection attempts failed. All failures were:\n"
        "- host: '/a', port: '1', hostaddr: None: connection is bad: connection to server on socket "
        '"/a/.s.PGSQL.1" failed: No such file\n\tIs the server running?\n'
        "- host: 'b', port: '2', hostaddr: '127.0.0.1': connection failed: connection to server at "
        '"b", port 2 failed: refused'
    )
    assert connection_complaint(psycopg.OperationalError(text)).splitlines() == [
        'connection to server on socket "/a/.s.PGSQL.1" failed: No such file',
        "\tIs the server running?",
        'connection to server at "b", port 2 failed: refused',
    ]


def test_numbers_are_read_as_c_reads_them() -> None:
    # By atoi, which stops at the e.
    assert parse(["--max-tries", "3e5"], {}).max_tries == 3
    assert parse(["--max-tries", "1e999"], {}).max_tries == 1
    # Nothing is later than a limit of no microsecond would have it: pgbench has none then.
    assert parse(["-L", "0.0001"], {}).latency_limit_us is None
    assert parse(["-L", "0.5"], {}).latency_limit_us == 500
    assert parse(["--random-seed", LONG], {}).seed == 2**64 - 1


@pytest.mark.parametrize("typed", [LONG, "٣", "²", "--5", ""])
def test_sysbench_s_numbers_are_digits(typed: str) -> None:
    with pytest.raises(
        SysbenchError, match=r"Invalid value for --threads: .*: write a whole number from 1 to"
    ):
        parse_sysbench(["oltp_insert", "run", f"--threads={typed}"])
