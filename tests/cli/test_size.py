"""`pgassay size` as its user types it wrongly: one sentence each, before anything is measured."""

from pathlib import Path

import pytest

import whole_tool
from pgassay.cli.commands import size
from pgassay.errors import UsageError
from pgassay.experiment.planning.request import CompareRequest
from pgassay.options.servers import STORAGE_HELP
from pgassay.storage.parse import parse_storage
from pgassay.storage.registry import KINDS
from pgassay.storage.storage_options import WAL
from pgassay.storage.volume import catalogue, model_for

Capture = pytest.CaptureFixture[str]

SLIPS = {
    "nothing": ([], ["needs an experiment's folder, or a workload", "--workload full-scan"]),
    "both": (
        ["FOLDER", "--workload", "full-scan"],
        ["--workload cannot be used with a FOLDER", "leave --workload out"],
    ),
    "varied": (["FOLDER", "--vary", "work_mem=1MB,2MB"], ["--vary cannot be used with a FOLDER"]),
    "a recording's data": (
        ["FOLDER", "--scale", "500"],
        ["--scale cannot be used with a FOLDER, which was recorded already", "leave --scale out"],
    ),
    "a recording's time": (["FOLDER", "--max-time", "5m"], ["--max-time cannot be used with a FOLDER"]),
    "a volume for a server elsewhere": (
        ["--workload", "tpcb", "--server", "host=db", "--prove"],
        ["--prove cannot be used with --server", "leave --prove out"],
    ),
    "something of a server elsewhere": (
        ["--workload", "tpcb", "--allow-writes", "app"],
        ["--allow-writes needs --server"],
    ),
    "a storage": (["--workload", "tpcb", "--storage", "loop"], ["'pgassay size' has no option --storage"]),
    "a factor of storages": (["--workload", "tpcb", "--vary", "storage=host,loop"], ["--volume"]),
    "a control": (
        ["--workload", "tpcb", "--control", "work_mem=1MB"],
        ["'pgassay size' has no option --control"],
    ),
    "all blocks": (["--workload", "tpcb", "--all-blocks"], ["'pgassay size' has no option --all-blocks"]),
    "a volume": (["FOLDER", "--volume", "gp9,size=1GiB"], ["no volume 'gp9'"]),
    "against": (["FOLDER", "--against", "gp3"], ["has no size", "size=100GiB"]),
    "statements at once": (
        ["--workload", "sql:SQL,clients=8"],
        ["not for statements at once", "leave clients out"],
    ),
    "clients of statements": (
        ["--workload", "sql:SQL", "--vary", "clients=1,8"],
        ["not for statements at once", "leave clients out"],
    ),
    "a rate": (
        ["--workload", "tpcb:rate=50"],
        ["does as much on every volume that keeps up", "leave rate= or curve= out"],
    ),
    "maintenance": (["--workload", "maintenance:SQL"], ["not for maintenance"]),
    "a size": (["FOLDER", "--size", "large"], ["--size: 'large' is not a size", "100GiB"]),
    "a provider": (["FOLDER", "--provider", "acme"], ["no provider 'acme'"]),
    "a slow-down": (["FOLDER", "--slow-down", "much"], ["much", "3%"]),
    "a gain": (
        ["FOLDER", "--slow-down=-5%"],
        ["--slow-down says how much slower", "write a share of 0 or more"],
    ),
    "not an experiment": (["FOLDER"], ["has no experiment", "experiment.json"]),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_of_the_fingers(slip: str, tmp_path: Path, capsys: Capture) -> None:
    words, told = SLIPS[slip]
    sql = tmp_path / "one.sql"
    sql.write_text("VACUUM;\n" if slip == "maintenance" else "SELECT 1;\n")
    typed = [str(tmp_path) if word == "FOLDER" else word.replace("SQL", str(sql)) for word in words]
    complaint = whole_tool.assert_one_sentence(whole_tool.run_here(capsys, "size", *typed), 2)
    for word in told:
        assert word in complaint


@pytest.mark.parametrize("option", ["--against", "--volume"])
@pytest.mark.parametrize("comma", [",", ", "])
def test_where_any_volume_brings_its_wal_that_is_recorded_apart(
    option: str, comma: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def recorded(request: CompareRequest, _arguments: object) -> None:
        raise UsageError(f"recorded on {request.factors[0]}: stop here")

    monkeypatch.setattr(size, "_run", recorded)
    volume = f"gp2,size=100GiB{comma}wal=volume:gp3,size=20GiB"
    said = whole_tool.run_here(capsys, "size", "--workload", "tpcb", option, volume)
    told = whole_tool.assert_one_sentence(said, 2)
    assert f"storage={','.join(size.RECORDED_APART)}" in told


@pytest.mark.parametrize(
    ("storage", "told"),
    [
        ("volume:gp3,size=100GiB,latency=1ms", "is for volume:unlimited only"),
        ("volume:unlimited,size=100GiB", "has no limits: leave size out"),
        ("volume:unlimited,iops=100", "has no limits: leave iops out"),
        ("volume:unlimited,latency=fast", "'fast' is not a duration"),
        ("volume:unlimited,latency=2000ms", "'2000ms' is more than 1s"),
        ("volume:unlimited,trace=no", "type trace=yes, or leave it out"),
    ],
)
def test_a_volume_without_limits_has_none(storage: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        model_for(parse_storage(storage), catalogue())


def test_a_volume_without_limits_answers_after_its_latency() -> None:
    model = model_for(parse_storage("volume:unlimited,latency=500us,trace=yes"), catalogue())
    assert model.limiters == () and model.latency.read.median_ns == 500_000
    assert model.latency.flush.median_ns == 0
    at_once = model_for(parse_storage("volume:unlimited"), catalogue())
    assert at_once.latency.write.median_ns == 0 and at_once.name == "unlimited"


def test_the_help_names_every_key_of_every_storage() -> None:
    """One text for the command line and the man page; what a kind has more, it says too."""
    for kind in KINDS.values():
        assert f"{kind.name}:" in STORAGE_HELP
        # The first key of a volume is its name, which stands without it.
        for key in (*kind.keys, WAL):
            assert key == kind.leading_key or f"{key}=" in STORAGE_HELP, (kind.name, key)
