"""A load that outlives its server's restart: the trial counts, without what the server counted meanwhile."""

from pathlib import Path

import pytest

import whole_tool
from remote_servers import DATABASE, RemoteTestServer

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
# As a restart does, this ends all other sessions: those of the load, of samplers, of the trial itself.
ENDS_ALL = """\\set draw random(1, 10)
\\if :draw = 1
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND usename = user;
\\endif
SELECT 1;
"""


def compared(server: RemoteTestServer, home: Path, folder: Path, reconnect: str) -> tuple[int, str, dict]:
    script = folder / "ends.sql"
    script.write_text(ENDS_ALL)
    load = f"pgbench:file={script},rate=40,duration=2s,warmup=0s,reconnect={reconnect}"
    words = ("clients=2,3", "--server", server.uri(), "--allow-writes", DATABASE, "--workload", load)
    finished = whole_tool.run(
        "compare", *words, "--blocks", "1", "--seed", "5", "--out", str(folder / "out"), "--json", home=home
    )
    result = whole_tool.result_of(finished) if finished.returncode == 0 else {}
    return finished.returncode, finished.stderr, result


def test_a_trial_whose_load_got_its_connections_back_counts(
    server: RemoteTestServer, home: Path, tmp_path: Path
) -> None:
    status, said, result = compared(server, home, tmp_path, "yes")
    assert status == 0, said
    assert [arm["trials"] for arm in result["arms"]] == [1, 1] and result["failures"] == 0
    warnings = " ".join(result["warnings"])
    assert "the server ended its sessions during the trial, as a restart does" in warnings
    assert "were lost and opened again" in warnings


def test_without_it_the_comparison_says_that_connections_were_lost(
    server: RemoteTestServer, home: Path, tmp_path: Path
) -> None:
    status, said, _ = compared(server, home, tmp_path, "no")
    assert status == 1 and "failed" in said
