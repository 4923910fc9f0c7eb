"""`--swap`: two servers exchange their settings halfway, and the settings are told from the machines."""

import json
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import whole_tool
from remote_servers import PASSWORD, RemoteTestServer

pytestmark = pytest.mark.server
# So long a statement takes by the setting of its server, whichever that is.
STATEMENT = "SELECT pg_sleep(CASE current_setting('work_mem') WHEN '8MB' THEN 0.06 ELSE 0.006 END);\n"
VALUES = ("8MB", "4MB")


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[RemoteTestServer, RemoteTestServer]]:
    pair = RemoteTestServer(), RemoteTestServer()
    try:
        for server in pair:
            server.start()
        yield pair
    finally:
        for server in pair:
            server.stop()


@pytest.fixture(autouse=True)
def first_values(servers: tuple[RemoteTestServer, RemoteTestServer]) -> None:
    for server, value in zip(servers, VALUES, strict=True):
        with server.query_connection() as connection:
            connection.execute(f"alter system set work_mem = '{value}'")
        server.reload()


def alter(server: RemoteTestServer, value: str) -> str:
    """A shell command that gives a server's work_mem another value, as its administrator."""
    psql = [str(server.bin / "psql"), "-X", "-q", "-h", str(server.folder), "-p", str(server.port)]
    psql += ["-U", "postgres", "-d", "postgres"]
    statements = [f"alter system set work_mem = '{value}'", "select pg_reload_conf()"]
    return shlex.join(psql + [word for statement in statements for word in ("-c", statement)])


def compare(
    servers: tuple[RemoteTestServer, RemoteTestServer], swap: str, home: Path, folder: Path, blocks: int
) -> "subprocess.CompletedProcess[str]":
    file = folder / "sleep.sql"
    file.write_text(STATEMENT)
    words = [f"server={servers[0].uri()},{servers[1].uri()}", "--workload", f"sql:{file}", "--swap", swap]
    words += ["--blocks", str(blocks), "--out", str(folder / "out")]
    return whole_tool.run("compare", *words, home=home)


def test_the_settings_are_told_from_the_machines(
    servers: tuple[RemoteTestServer, RemoteTestServer], home: Path, tmp_path: Path
) -> None:
    """The machines are one, so the whole difference is the settings'."""
    note = tmp_path / "variables"
    swap = f'echo "$PGASSAY_SERVER_1 | $PGASSAY_SERVER_2" > {note}; '
    swap += f"{alter(servers[0], VALUES[1])} && {alter(servers[1], VALUES[0])}"
    finished = compare(servers, swap, home, tmp_path, blocks=10)
    assert finished.returncode == 0, finished.stderr
    result = whole_tool.result_of(whole_tool.run("report", tmp_path / "out", "--json"))
    (crossed,) = result["crossed"]
    assert (crossed["blocks_before"], crossed["blocks_after"]) == (5, 5)
    # 0.06 s against 0.006 s, and what a statement takes besides.
    assert crossed["settings"]["verdict"] == "faster"
    assert crossed["settings"]["ratio"] > 3
    low, high = crossed["hardware"]["interval"]
    assert low < 1 < high
    assert crossed["hardware"]["verdict"] in ("inconclusive", "equivalent")
    first_line = result["verdict"].splitlines()[0]
    assert first_line.startswith("The settings of server=") and "apart from its machine" in first_line
    assert "5 blocks before the swap and 5 after it" in first_line
    swapped = json.loads((tmp_path / "out" / "swap.json").read_bytes())
    assert swapped["at_block"] == 5 and swapped["swapped"] == ["work_mem"]
    assert any("work_mem (4096kB against 8192kB)" in sentence for sentence in result["confounds"])
    variables = note.read_text()
    assert all(f"port={server.port}" in variables for server in servers)
    assert "password" not in variables and "s3cret" not in variables


@pytest.mark.shares_machine
def test_a_command_that_fails_ends_with_a_sentence_and_is_run_again_later(
    servers: tuple[RemoteTestServer, RemoteTestServer], home: Path, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    key.write_text(f"no key for {PASSWORD}")
    # What the command says of the password is not repeated.
    wanted = f"{alter(servers[0], VALUES[1])} && {alter(servers[1], VALUES[0])}"
    swap = f"if [ -e {key} ]; then cat {key} >&2; exit 7; else {wanted}; fi"
    finished = compare(servers, swap, home, tmp_path, blocks=2)
    complaint = whole_tool.assert_one_sentence(finished, 1)
    assert "status 7" in complaint and "no key for ***" in complaint and "resume" in complaint
    out = tmp_path / "out"
    assert len(whole_tool.trials(out)) == 3
    assert not [file for file in out.rglob("*") if file.is_file() and b"s3cret" in file.read_bytes()]
    assert json.loads((out / "state.json").read_bytes())["stopped"] == "failed"
    key.unlink()
    with_password = whole_tool.environment(home, PGPASSWORD=PASSWORD)
    resumed = whole_tool.run("resume", out, "--json", env=with_password)
    (crossed,) = whole_tool.result_of(resumed)["crossed"]
    assert (crossed["blocks_before"], crossed["blocks_after"]) == (1, 1)
    assert crossed["settings"]["verdict"] == "inconclusive"


@pytest.mark.shares_machine
def test_a_command_that_holds_the_password_is_not_stored(
    servers: tuple[RemoteTestServer, RemoteTestServer], home: Path, tmp_path: Path
) -> None:
    swap = f"psql {shlex.quote(servers[0].uri())}"
    complaint = whole_tool.assert_one_sentence(compare(servers, swap, home, tmp_path, blocks=2), 2)
    assert "--swap contains the password" in complaint and "s3cret" not in complaint
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_command_that_swaps_nothing_is_found_out(
    servers: tuple[RemoteTestServer, RemoteTestServer], home: Path, tmp_path: Path
) -> None:
    finished = compare(servers, "true", home, tmp_path, blocks=2)
    complaint = whole_tool.assert_one_sentence(finished, 1)
    assert "no setting was swapped" in complaint and "work_mem" in complaint


@pytest.mark.slow
def test_a_command_that_changes_something_else_is_found_out(
    servers: tuple[RemoteTestServer, RemoteTestServer], home: Path, tmp_path: Path
) -> None:
    finished = compare(servers, alter(servers[0], "16MB"), home, tmp_path, blocks=2)
    complaint = whole_tool.assert_one_sentence(finished, 1)
    assert "work_mem changed to a value that the other server did not have" in complaint
