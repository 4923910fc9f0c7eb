"""Whole comparisons on servers that run already: what they say and refuse, and where passwords are not."""

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

import whole_tool
from remote_servers import DATABASE, HOST, PASSWORD, USER, RemoteTestServer, delayed

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
Capture = pytest.CaptureFixture[str]
ROUND_TRIP_S = 0.02
# A machine that is busy enough turns the round trips into the lesser part (percent).
NETWORK_SHARE_MIN = 40
QUICK = ("--workload", "select-only:duration=0.2s,warmup=0s")
# Each of these would give it away, whatever else has been made of it.
PARTS_OF_THE_PASSWORD = (PASSWORD, "s3cret", "pässword", "p%C3%A4")


@pytest.fixture
def libpq_files(tmp_path: Path, server: RemoteTestServer) -> dict[str, str]:
    """The variables of a user who keeps the password in a file, and names the server by a service."""
    passwords, services = tmp_path / "passwords", tmp_path / "services"
    escaped = PASSWORD.replace("\\", "\\\\").replace(":", "\\:")
    passwords.write_text(f"*:*:{DATABASE}:{USER}:{escaped}\n")
    passwords.chmod(0o600)
    services.write_text(
        f"[near]\nhost={HOST}\nport={server.port}\ndbname={DATABASE}\nuser={USER}\nsslmode=verify-full\n"
        f"sslrootcert={server.root}\n"
    )
    return {"PGPASSFILE": str(passwords), "PGSERVICEFILE": str(services)}


def compare(
    *words: str | Path, home: Path, variables: dict[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    environment = whole_tool.environment(home, **(variables or {}))
    return whole_tool.run(*words, env=environment)


def assert_no_password(*texts: str, folders: tuple[Path, ...] = ()) -> None:
    """In no text, and in no file below the folders."""
    contents = [text.encode() for text in texts]
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    assert not folders or files
    contents += [file.read_bytes() for file in files]
    for part in PARTS_OF_THE_PASSWORD:
        assert not [content[:200] for content in contents if part.encode() in content], part


@pytest.mark.slow
def test_a_server_behind_a_slow_network_compared_with_itself(
    server: RemoteTestServer, home: Path, tmp_path: Path
) -> None:
    """Typed with its password, which is used and found nowhere afterwards."""
    out = tmp_path / "out"
    with delayed(server.port, ROUND_TRIP_S) as one, delayed(server.port, ROUND_TRIP_S) as other:
        uris = [
            server.uri(port, sslmode="verify-full", sslrootcert=str(server.root)) for port in (one, other)
        ]
        words = (f"server={','.join(uris)}", *QUICK, "--blocks", "1", "--details", "--out", str(out))
        finished = compare("compare", *words, home=home)
    assert finished.returncode == 0, finished.stderr
    result = whole_tool.result_of(whole_tool.run("report", out, "--json"))
    arm = result["arms"][1]
    assert arm["name"] == f"server={HOST}:{other}/{DATABASE}"
    assert arm["verdict"] in ("equivalent", "inconclusive")
    hidden = next(sentence for sentence in result["warnings"] if "network hides" in sentence)
    assert "1 round trip" in hidden and "measure from a machine nearer to the servers" in hidden
    # A transaction waits for its one round trip: nearly all of its time, unless the machine is very busy.
    share = int(hidden.partition("%")[0].rpartition("(")[2])
    assert share > 10
    # Of the connection's time at least a quarter, or nothing limits it: the same round trips either way.
    causes = {cause["cause"] for cause in result["causes"] if cause["kind"] == "limit"}
    assert causes == {"network"} or share < NETWORK_SHARE_MIN
    experiment = json.loads((out / "experiment.json").read_bytes())
    trips = [server["round_trip_ms"] for server in experiment["environment"]["servers"].values()]
    assert all(trip >= ROUND_TRIP_S * 1e3 for trip in trips)
    assert any("the same server" in sentence for sentence in result["confounds"])
    assert result["cache"] == "as-is"
    assert "network hides" in finished.stdout.replace("\n  ", " ")
    assert "not stored" in finished.stderr
    markdown = whole_tool.run("report", out, "--markdown").stdout
    listing = whole_tool.run("list", tmp_path).stdout
    assert_no_password(finished.stdout, finished.stderr, markdown, listing, folders=(out, home))
    again = next(line for line in finished.stdout.splitlines() if line.startswith("Again:"))
    assert f"host={HOST}" in again and "sslmode=verify-full" in again


def test_no_process_is_given_the_password(home: Path, tmp_path: Path, libpq_files: dict[str, str]) -> None:
    """Neither in arguments nor in variables: it travels on standard input alone."""
    words = ("work_mem=1MB,2MB", "--server", "service=near", *QUICK, "--blocks", "1")
    words = (*words, "--out", tmp_path / "out")
    process = whole_tool.start("compare", *words, env=whole_tool.environment(home, **libpq_files))
    seen = set()
    while process.poll() is None:
        for pid, text in _children(process.pid):
            seen.add(pid)
            assert_no_password(text)
        time.sleep(0.005)
    out, said = process.communicate()
    assert process.returncode == 0, said
    assert len(seen) > 1, "the native binary was seen at work"
    assert_no_password(out, said, folders=(tmp_path / "out", home))


def _children(pid: int) -> list[tuple[int, str]]:
    """The process and its children: arguments and environment."""
    found = []
    for each in (pid, *_children_of(pid)):
        try:
            parts = [(Path("/proc") / str(each) / name).read_bytes() for name in ("cmdline", "environ")]
        except OSError:
            continue
        found.append((each, b" ".join(parts).decode("utf-8", "replace")))
    return found


def _children_of(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def test_one_server_and_a_setting_and_going_on_later(
    server: RemoteTestServer, home: Path, tmp_path: Path, libpq_files: dict[str, str]
) -> None:
    """A statement tells which setting its session has; `resume` asks libpq's files for the password."""
    out = tmp_path / "out"
    file = tmp_path / "sleep.sql"
    file.write_text("SELECT pg_sleep(CASE current_setting('work_mem') WHEN '8MB' THEN 0.5 ELSE 0.005 END);\n")
    words = ("work_mem=8MB,4MB", "--server", server.uri(), "--workload", f"sql:{file}", "--out", out)
    first = compare("compare", *words, "--blocks", "1", home=home)
    assert first.returncode == 0, first.stderr
    without = whole_tool.run("resume", out, "--blocks", "2", env=whole_tool.environment(home))
    said = whole_tool.assert_one_sentence(without, 2)
    assert "password file" in said and "never stored" in said
    resumed = whole_tool.run(
        "resume", out, "--blocks", "2", "--json", env=whole_tool.environment(home, **libpq_files)
    )
    result = whole_tool.result_of(resumed)
    assert result["blocks"] == 2
    assert result["arms"][1]["name"] == "work_mem=4MB"
    assert result["arms"][1]["ratio"] > 2
    assert not result["failures"]
    for trial in whole_tool.trials(out):
        assert trial["facts"]["settings"]["default_transaction_read_only"] == "on"
        assert trial["server_cpu_s"] is None
    assert_no_password(first.stdout, first.stderr, resumed.stdout, resumed.stderr, folders=(out, home))


def test_writing_only_where_the_user_said_so(
    server: RemoteTestServer, home: Path, tmp_path: Path, libpq_files: dict[str, str]
) -> None:
    words = ("work_mem=1MB,2MB", "--server", "service=near", "--workload", "tpcb:duration=0.2s,warmup=0s")
    refused = compare("compare", *words, home=home, variables=libpq_files)
    assert "--allow-writes bench" in whole_tool.assert_one_sentence(refused, 2)
    out = tmp_path / "out"
    words = (*words, "--allow-writes", DATABASE, "--blocks", "1", "--json", "--out", out)
    result = whole_tool.result_of(compare("compare", *words, home=home, variables=libpq_files))
    assert result["blocks"] == 1
    assert any("nothing is restored" in sentence for sentence in result["warnings"])
    history = "select count(*) from pgbench_history"
    done = subprocess.run(
        [server.bin / "psql", "-X", "-A", "-t", "-c", history, "service=near"],
        env=os.environ | libpq_files, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert int(done.stdout) > 0


def test_a_function_that_writes_is_stopped_by_the_server(
    home: Path, tmp_path: Path, libpq_files: dict[str, str]
) -> None:
    file = tmp_path / "sly.sql"
    file.write_text("UPDATE pgbench_accounts SET abalance = 1 WHERE aid = 1;\n")
    words = ("work_mem=1MB,2MB", "--server", "service=near", "--workload", f"sql:{file},writes=no")
    refused = compare("compare", *words, "--out", tmp_path / "out", home=home, variables=libpq_files)
    assert "read-only transaction" in whole_tool.assert_one_sentence(refused, 1)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_plans_are_executed_where_they_can_write_nothing_and_again_in_another_shape(
    server: RemoteTestServer, home: Path, tmp_path: Path, libpq_files: dict[str, str]
) -> None:
    """Only when asked for; between the two runs somebody makes an index, and both plans are kept."""
    file, out = tmp_path / "q.sql", tmp_path / "out"
    file.write_text(
        "-- name: read\nSELECT sum(aid) FROM pgbench_accounts WHERE filler = 'x';\n"
        "-- name: calling\nSELECT pg_advisory_unlock(1);\n"
    )
    words = ("work_mem=1MB,2MB", "--server", "service=near", "--workload", f"sql:{file}", "--out", out)
    asked = ("--plans", "work", "--blocks", "6")
    first = whole_tool.result_of(
        compare("compare", *words, *asked, "--json", home=home, variables=libpq_files)
    )
    plans = {(each["statement"], each["arm"]): each for each in first["plans"]}
    assert {name for name, _ in plans} == {"read", "calling"}
    read = plans["read", "work_mem=1MB"]
    assert read["executed"] and not read["rolled_back"] and read["untraced_s"] > 0
    refused = plans["calling", "work_mem=1MB"]
    assert not refused["executed"]
    assert refused["reason"] == "it could write: it calls pg_advisory_unlock, which is volatile"
    with psycopg.connect(**server.parameters(dbname=DATABASE), autocommit=True) as connection:
        connection.execute("CREATE INDEX by_filler ON pgbench_accounts (filler)")
    try:
        resumed = ("resume", out, "--blocks", "12", "--json")
        again = whole_tool.result_of(compare(*resumed, home=home, variables=libpq_files))
    finally:
        with psycopg.connect(**server.parameters(dbname=DATABASE), autocommit=True) as connection:
            connection.execute("DROP INDEX by_filler")
    of_read = [each for each in again["plans"] if each["statement"] == "read" and each["executed"]]
    assert {each["arm"] for each in of_read} == {"work_mem=1MB", "work_mem=2MB"}
    for arm in ("work_mem=1MB", "work_mem=2MB"):
        indexes = [
            {node["index"] for node in each["nodes"] if node["index"]}
            for each in of_read
            if each["arm"] == arm
        ]
        assert indexes == [set(), {"by_filler"}], "one of each shape, in order"


# What is typed beside `pgassay compare work_mem=1MB,2MB --server SERVER`, and words of the sentence.
REFUSED = {
    "cache": (["--cache", "cold"], ["--cache cold", "as-is"]),
    "build": (["--pg", "18"], ["--pg", "leave"]),
    "storage": (["--storage", "loop"], ["--storage", "leave"]),
    "memory": (["--memory", "1GB"], ["--memory", "leave"]),
    "dataset": (["--dataset", "dump:x"], ["--dataset", "leave"]),
    "factor of our own": (["memory=1GB,2GB"], ["memory=", "leave"]),
    "version": (["version=17,18"], ["version=", "leave"]),
    "maintenance": (["--workload", "maintenance:FILE"], ["maintenance", "restored"]),
    "writes": (["--workload", "simple-update"], ["--allow-writes bench"]),
    "writes elsewhere": (["--workload", "tpcb", "--allow-writes", "prod"], ["prod", "bench", "the same"]),
    "scale": (["--scale", "50"], ["--scale 50", "scale 1"]),
    "restart": (["--set", "shared_buffers=1GB"], ["shared_buffers", "when the server starts", "server="]),
    "the guard": (["--set", "default_transaction_read_only=off"], ["default_transaction", "--allow-writes"]),
    "unknown": (["--set", "wrk_mem=1GB"], ["wrk_mem", "leave"]),
    "superuser": (["--set", "log_statement=all"], ["log_statement", "permission denied"]),
    "value": (["--set", "random_page_cost=cheap"], ["random_page_cost"]),
    "tables": (["--workload", "oltp_read_only"], ["sbtest1", "prepare"]),
    "covariate": (["--covariate", "disk"], ["--covariate disk", "use canary"]),
    "swap": (["--swap", "true"], ["--swap", "server=DSN,DSN"]),
    "twice": (["server=host=a dbname=b,host=c dbname=d"], ["twice", "once"]),
}


@pytest.mark.parametrize(("words", "told"), REFUSED.values(), ids=REFUSED)
def test_what_a_remote_server_is_not_asked_for(
    words: list[str], told: list[str], server: RemoteTestServer, tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "vacuum.sql"
    file.write_text("VACUUM pgbench_accounts;\n")
    words = [word.replace("FILE", str(file)) for word in words]
    out = tmp_path / "out"
    finished = whole_tool.run_here(
        capsys, "compare", "work_mem=1MB,2MB", *words, "--server", server.uri(), "--out", out
    )
    complaint = whole_tool.assert_one_sentence(finished, 2)
    assert not [word for word in told if word not in complaint], complaint
    assert_no_password(complaint)
    assert not out.exists()


def test_a_table_that_is_missing_is_named_with_how_to_load_it(
    server: RemoteTestServer, tmp_path: Path, capsys: Capture
) -> None:
    with server.query_connection() as connection:
        connection.execute(f"create database nowhere owner {USER}")
    words = ("work_mem=1MB,2MB", "--server", server.uri(database="nowhere"), "--out", tmp_path / "out")
    finished = whole_tool.run_here(capsys, "compare", *words)
    complaint = whole_tool.assert_one_sentence(finished, 2)
    assert "pgbench_accounts" in complaint and "pgbench -i -s" in complaint and "nowhere" in complaint


def test_an_experiment_file_names_servers_as_well(
    server: RemoteTestServer, home: Path, tmp_path: Path, libpq_files: dict[str, str]
) -> None:
    """A level with blanks and commas is quoted on its way to the factor."""
    file = tmp_path / "two.toml"
    pairs = server.pairs(options="'-c search_path=public,pg_catalog'")
    file.write_text(
        f'workload = "{QUICK[1]}"\nblocks = 1\n[factors]\nserver = ["service=near", "{pairs} '
        f'sslmode=require host={HOST}"]\n'
    )
    out = tmp_path / "out"
    finished = whole_tool.run(
        "run", file, "--out", out, "--json", env=whole_tool.environment(home, **libpq_files)
    )
    # Both strings lead to one server by the same way: that is no comparison.
    assert "twice" in whole_tool.assert_one_sentence(finished, 2)
    file.write_text(file.read_text().replace(f"host={HOST}", f"host={server.folder}"))
    result = whole_tool.result_of(
        whole_tool.run("run", file, "--out", out, "--json", env=whole_tool.environment(home, **libpq_files))
    )
    assert result["blocks"] == 1
    servers: dict[str, Any] = json.loads((out / "servers.json").read_bytes())["servers"]
    assert [each["encryption"] for each in servers.values()] == ["verify-full", "disable"]
    assert all("shared_buffers" in each["settings"] for each in servers.values())


@pytest.mark.slow
def test_levels_that_the_servers_own_settings_make_alike_are_told(
    home: Path, tmp_path: Path, libpq_files: dict[str, str]
) -> None:
    """What a session can change ends at what the server was started with: io_max_concurrency."""
    words = ("effective_io_concurrency=16,500", "--server", "service=near", *QUICK, "--blocks", "1")
    out = tmp_path / "out"
    finished = compare("compare", *words, "--out", str(out), home=home, variables=libpq_files)
    assert finished.returncode == 0, finished.stderr
    told = whole_tool.result_of(whole_tool.run("report", out, "--json"))["warnings"]
    assert any("effective_io_concurrency=500 is more than io_max_concurrency" in each for each in told)
    assert any("the transactions of this load read single rows by index" in each for each in told)
