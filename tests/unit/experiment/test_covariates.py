"""Which covariates a plan takes, and what it asks of the protocol for them."""

from pathlib import Path

import pytest

from analysis_samples import experiment
from pgassay.errors import UsageError
from pgassay.experiment.planning.experiment_file import read_file
from pgassay.experiment.planning.experiment_plan import choose_servers
from pgassay.experiment.planning.request import CompareRequest, protocol_of
from pgassay.model.arm import ArmSpec
from pgassay.model.experiment import Protocol
from pgassay.model.storage import StorageSpec


def request(**fields: object) -> CompareRequest:
    return CompareRequest(factors=("work_mem=4MB,64MB",), **fields)  # type: ignore[arg-type]  # each by its name


def spec(storage: StorageSpec) -> ArmSpec:
    arm: ArmSpec = experiment().arms[0].spec
    return arm.model_copy(update={"storage": storage})


def test_a_declared_reading_is_taken_and_nothing_else() -> None:
    assert protocol_of(request(covariate="memory"), "cold").readings == ("memory",)
    assert protocol_of(request(covariate="disk"), "cold").readings == ("disk",)
    for name in ("none", "canary"):
        assert protocol_of(request(covariate=name), "cold") == Protocol(
            cache="cold", plans="work", plans_as_prepared=True
        )
    calibration = protocol_of(request(calibrates=True), "cold")
    assert (calibration.readings, calibration.repetitions) == (("memory", "disk"), 2)


def test_a_protocol_without_them_is_written_as_before() -> None:
    plain = Protocol(cache="cold").model_dump()
    assert {"readings", "repetitions"}.isdisjoint(plain)
    told = Protocol(cache="cold", readings=("disk",), repetitions=2)
    assert Protocol.model_validate_json(told.model_dump_json()) == told


def test_a_disk_that_arms_differ_in_is_no_covariate() -> None:
    servers = choose_servers(request(covariate="disk"), lambda _stage, _fraction: None)
    here, there = spec(StorageSpec()), spec(StorageSpec(kind="loop", size_bytes=2**30))
    ahead = there.model_copy(update={"storage": there.storage.model_copy(update={"read_ahead_kb": 1024})})
    servers.check([({}, there), ({}, ahead)])  # one image, on one device
    with pytest.raises(UsageError, match="different disks"):
        servers.check([({}, here), ({}, there)])
    choose_servers(request(covariate="memory"), lambda _stage, _fraction: None).check(
        [({}, here), ({}, there)]
    )


def test_a_file_may_declare_them_and_a_slip_is_told(tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.write_text('workload = "full-scan"\ncovariate = "disk"\n[factors]\nwork_mem = ["4MB", "64MB"]\n')
    assert read_file(file, None, ()).covariate == "disk"
    file.write_text(file.read_text().replace('"disk"', '"disks"'))
    with pytest.raises(UsageError, match="none, canary, memory, disk"):
        read_file(file, None, ())
