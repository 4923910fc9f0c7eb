"""`pgassay run FILE.toml`: what the command line says goes before what the file says."""

from pathlib import Path

import pytest

from pgassay.cli.commands import run
from pgassay.cli.main import main
from pgassay.experiment.planning.request import CompareRequest

FILE = """
max-time = "12m"
seed = 7
[factors]
work_mem = ["4MB", "64MB"]
"""


@pytest.mark.parametrize(
    ("options", "max_time_s", "seed"),
    [([], 720, 7), (["--max-time", "90s"], 90, 7), (["--seed", "8"], 720, 8)],
)
def test_the_command_line_goes_before_the_file(
    options: list[str], max_time_s: float, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "sorts.toml"
    file.write_text(FILE)
    asked: list[CompareRequest] = []
    monkeypatch.setattr(run, "run_or_plan", lambda request, _: asked.append(request) or 0)
    assert main(["run", str(file), *options]) == 0
    (request,) = asked
    assert (request.max_time_s, request.seed) == (max_time_s, seed)


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("dump:~/shop.dump", "dump:/home/me/shop.dump"),
        ("dump:shop.dump", "dump:DIR/shop.dump"),
        ("dump:/data/shop.dump", "dump:/data/shop.dump"),
        ("pgbench", "pgbench"),
    ],
)
def test_a_source_of_data_is_beside_the_file_or_where_it_says(
    typed: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    file = tmp_path / "sorts.toml"
    file.write_text(f'dataset = "{typed}"\n{FILE}')
    asked: list[CompareRequest] = []
    monkeypatch.setattr(run, "run_or_plan", lambda request, _: asked.append(request) or 0)
    assert main(["run", str(file)]) == 0
    assert asked[0].dataset == found.replace("DIR", str(tmp_path))
