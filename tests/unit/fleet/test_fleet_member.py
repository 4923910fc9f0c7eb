"""What a machine's member takes from others, and what is shown of the machines."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgassay.errors import UsageError
from pgassay.fleet.cluster import hosts, member
from pgassay.model.machines.fleet import FleetMachine, FleetStatus
from pgassay.report.listings import fleet_page

NOW = datetime(2026, 11, 23, tzinfo=UTC)
OUTSIDE = ["../../etc", "/etc", "a/b", "", ".", "..", "-x", 7, None, ["a"]]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("outside", OUTSIDE)
@pytest.mark.parametrize("operation", ["prepare", "start", "state", "stop"])
def test_no_name_leads_out_of_the_home(
    operation: str, outside: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGASSAY_HOME", str(tmp_path / "home"))
    for fleet, name in ((outside, "alpha"), ("0123456789ab", outside)):
        answer = json.loads(member.serve(json.dumps({"operation": operation, "fleet": fleet, "name": name})))
        assert list(answer) == ["error"]
    assert not list(tmp_path.rglob("*.pem"))


@given(st.text(max_size=60) | VALUES.map(json.dumps))
def test_whatever_is_said_is_answered_by_a_sentence(text: str) -> None:
    answer = json.loads(member.serve(text))
    assert list(answer) == ["error"] and answer["error"]


def test_a_machine_with_another_pgassay_is_named_with_what_differs() -> None:
    ours = {"pgassay": "1", "sources": "aa", "native": "bb", "dask": "2026.8.0"}
    hosts.check_equal("host2", dict(ours), ours)
    for key, word in (("pgassay", "version"), ("sources", "files"), ("native", "binary"), ("dask", "Dask")):
        with pytest.raises(UsageError, match=rf"host2 .*{word}.*other, here {ours[key]}"):
            hosts.check_equal("host2", {**ours, key: "other"}, ours)
    with pytest.raises(UsageError, match=r"host2 has no Dask: type pip install"):
        hosts.check_equal("host2", {**ours, "dask": None}, ours)


def status(*states: str, days: float = 20, kind: str = "ssh", answers: bool = True) -> FleetStatus:
    machines = [
        FleetMachine.model_validate(
            {
                "name": f"host{number}",
                "host": "same",
                "ssh": None,
                "state": state,
                "round_trip_ms": 1.25 if state == "ready" else None,
                "is_part_of_host": number == 1,
                "cores": (0, 1) if number == 1 else (),
                "memory_bytes": 2 << 30 if number == 1 else None,
            }
        )
        for number, state in enumerate(states, start=1)
    ]
    return FleetStatus.model_validate(
        {
            "file": "fleet.toml",
            "kind": kind,
            "scheduler": "tls://10.0.0.1:8786",
            "scheduler_answers": answers,
            "certificate_ends": (NOW + timedelta(days=days)).isoformat(),
            "hosts": 1,
            "machines": machines,
        }
    )


def test_status_in_words() -> None:
    shown = fleet_page(status("ready", "ready"), NOW).terminal()
    assert "2 machines ready, on 1 host." in shown and "processors 0,1, 2" in shown
    assert "Certificates until 2026-12-13." in shown and "does not answer" not in shown
    shown = fleet_page(status("ready", "lost", days=2), NOW).terminal()
    assert "1 of 2 machines ready: run pgassay fleet start --file fleet.toml" in shown
    assert "until 2026-11-25: run pgassay fleet stop and start before" in shown
    shown = fleet_page(status("lost", kind="existing", answers=False, days=2), NOW).terminal()
    assert "does not answer" in shown and "check that cluster" in shown and "fleet start" not in shown
