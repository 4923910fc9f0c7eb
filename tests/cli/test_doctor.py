"""`pgassay doctor` as its user runs it."""

import json
from pathlib import Path

import pytest

import whole_tool

pytestmark = pytest.mark.server


def test_the_doctor_answers_for_this_machine_and_leaves_nothing() -> None:
    with whole_tool.private_home() as home:
        finished = whole_tool.run("doctor", "--json", "--seconds", "0.4", home=home)
        assert finished.returncode == 0, finished.stderr
        document = json.loads(finished.stdout)
        assert document["schema"] == 1
        findings = {finding["name"]: finding for finding in document["findings"]}
        assert findings["interruptions"]["figures"]["max_ms"] >= 0
        assert findings["speed"]["figures"]["repetitions"] >= 2
        assert findings["disk-home"]["figures"]["free_bytes"] > 0
        # A home of its own has no build unpacked in it; the machine's may be of any version.
        assert findings["builds"]["status"] in ("ok", "missing")
        left = [path for path in home.rglob("*") if "doctor" in path.name]
        assert left == []
        assert not list((home / "registry").glob("*.json"))
    assert not list(Path("/sys/fs/cgroup").glob("*/pgassay-doctor-*"))


@pytest.mark.shares_machine
def test_what_is_required_and_missing_is_the_exit_status() -> None:
    with whole_tool.private_home() as home:
        names = ("cold-cache", "native")
        finished = whole_tool.run("doctor", "--seconds", "0", "--require", ",".join(names), home=home)
        assert finished.returncode == 0, finished.stderr
        assert "dropping and verifying the cache" in finished.stdout
        wrong = whole_tool.environment(home, PGASSAY_NATIVE="/nowhere/pgassay-native")
        finished = whole_tool.run("doctor", "--seconds", "0", "--require", "native", env=wrong)
        assert finished.returncode == 1
        assert "pgassay: native is required but missing" in finished.stderr
        unknown = whole_tool.run("doctor", "--seconds", "0", "--require", "warp", home=home)
        assert "cold-cache" in whole_tool.assert_one_sentence(unknown, 2)
