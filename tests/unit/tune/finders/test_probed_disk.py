"""What is known of the disk: by the probe that is kept of it, and of no other."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pgassay.model.probe import Ceilings
from pgassay.model.storage import StorageSpec
from pgassay.tune import finder_inputs
from pgassay.tune.source.origin import CopyOrigin
from pgassay.tune.tune_plan import PlannedTune

KEPT = SimpleNamespace(
    ceilings=Ceilings(
        sequential_read_mb_s=2000.0,
        random_read_iops={},
        latency_us_depth_1={"p50": 90.0, "p99": 400.0},
        fdatasync_per_s=None,
    )
)


def planned(cache: str, storage: StorageSpec | None = None) -> PlannedTune:
    spec = SimpleNamespace(storage=storage or StorageSpec())
    protocol = SimpleNamespace(cache=cache)
    return cast("PlannedTune", SimpleNamespace(spec=spec, base=SimpleNamespace(protocol=protocol)))


def elsewhere() -> CopyOrigin:
    return cast("CopyOrigin", SimpleNamespace(is_here=False))


def test_the_kept_probe_of_the_disk_tells_its_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finder_inputs, "last_probe", lambda _: KEPT)
    found = finder_inputs._probed(planned("cold"))
    assert found == {"random_read_us": 90.0, "sequential_read_mb_s": 2000.0}
    assert finder_inputs.unprobed(planned("cold"), None) == ""
    # An imitated volume is not the disk that was probed.
    assert finder_inputs._probed(planned("cold", StorageSpec(kind="loop"))) == {}


@pytest.mark.parametrize(
    ("cache", "origin", "says"),
    [("cold", None, True), ("warm-buffers", None, False), ("cold", elsewhere(), False)],
)
def test_without_one_the_answer_says_what_is_left_out(
    monkeypatch: pytest.MonkeyPatch, cache: str, origin: Any, says: bool
) -> None:
    monkeypatch.setattr(finder_inputs, "last_probe", lambda _: None)
    said = finder_inputs.unprobed(planned(cache), origin)
    assert ("pgassay probe " in said and "effective_io_concurrency" in said) is says
