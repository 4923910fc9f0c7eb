"""`pgassay null-server` as its user runs it."""

import signal
import subprocess
from pathlib import Path

import psycopg
import pytest

import whole_tool
from server_helpers import best_build

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
MEMORY_BYTES_MAX = 300 * 1024 * 1024


def test_it_says_what_the_client_can_do_with_few_and_with_thousands_of_connections() -> None:
    finished = whole_tool.run("null-server", "--clients", "4,5000", "--seconds", "1", "--json")
    document = whole_tool.result_of(finished)
    few, many = document["ceilings"]
    assert (document["schema"], few["clients"], many["clients"]) == (1, 4, 5000)
    for each in (few, many):
        assert each["transactions_per_s"] > 0 and each["cpu_us"] > 0 and 0 < each["busy"] <= 1
    assert 0 < few["memory_bytes"] < many["memory_bytes"] < MEMORY_BYTES_MAX
    assert many["latency_p50_ms"] > few["latency_p50_ms"]


def test_its_table_ends_with_what_it_means() -> None:
    finished = whole_tool.run(
        "null-server", "--clients", "1", "--seconds", "0.5", "--workload", "tpcb:rate=50"
    )
    assert finished.returncode == 0, finished.stderr
    # What a rate allows is no maximum.
    assert "Cost of the load generator here: tpcb:rate=50" in finished.stdout
    assert "What the client costs at this rate" in " ".join(finished.stdout.split())
    most = whole_tool.run("null-server", "--clients", "1", "--seconds", "0.5")
    assert "Maximum of the load generator here: select-only" in most.stdout
    assert "close to that is the client's" in " ".join(most.stdout.split())


def test_a_script_that_needs_rows_is_refused_before_it_runs(tmp_path: Path) -> None:
    script = tmp_path / "buy.sql"
    script.write_text("-- \\gset is not meant here\nBEGIN;\nSELECT 1 AS one \\gset\nSELECT :one;\nEND;\n")
    refused = whole_tool.run("null-server", "--workload", f"pgbench:file={script}")
    assert "buy.sql:3 has \\gset" in whole_tool.assert_one_sentence(refused, 2)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--workload", "full-scan"), "one by one"),
        (("--workload", "tpcb:client=ssh:app1"), "run pgassay null-server there"),
        (("--clients", "0"), "--clients"),
        (("--clients", ","), "write --clients 1,8,50"),
        (("--serve", "/nowhere"), "no such folder"),
    ],
)
def test_what_can_t_be_measured_is_refused(words: tuple[str, ...], told: str) -> None:
    assert told in whole_tool.assert_one_sentence(whole_tool.run("null-server", *words), 2)


def test_it_serves_other_clients_until_it_is_interrupted(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("n")
    process = whole_tool.start("null-server", "--serve", folder, stderr=subprocess.PIPE)
    try:
        assert process.stderr is not None
        assert "port 5432" in process.stderr.readline()
        with psycopg.connect(host=str(folder), user="u", dbname="d", autocommit=True) as connection:
            assert connection.execute("SELECT 1").rowcount == 0
        # The line that it prints as an example: pgbench asks for its tables first, and reads the first row.
        pgbench = Path(best_build().bin_directory) / "pgbench"
        words = ("-n", "-S", "-c", "2", "-t", "50", "-h", folder, "-U", "u", "postgres")
        real = subprocess.run([pgbench, *words], capture_output=True, text=True, check=False)
        for done in (real, whole_tool.run("pgbench", *words)):
            assert done.returncode == 0 and "100/100" in done.stdout, done.stderr
        process.send_signal(signal.SIGINT)
        assert process.wait(60) in (0, 130)
        assert not Path(folder, ".s.PGSQL.5432").exists()
    finally:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()
