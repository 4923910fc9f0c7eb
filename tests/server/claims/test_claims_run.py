"""`pgassay claims run`: experiments run for their claims, continued, and left alone once decided."""

import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import whole_tool
from pgassay.report import schema

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]

# A thousandfold difference, which no noise hides; both return the same row.
SQL = "-- name: rows\nSELECT count(*) > 0 FROM generate_series(1, {rows});\n"
SOURCE = 'source = {{ title = "A page" }}'
CLAIM = f"""
[[claim]]
id = "{{id}}"
text = "Fewer rows are {{says}}"
{SOURCE}
arm = "sql=few.sql"
against = "sql=many.sql"
says = "{{says}}"
{{rest}}
"""
ORDER = """
[[claim]]
id = "order"
text = "Fewer rows are faster than many"
source = { title = "A page" }
order = ["sql=few.sql", "sql=many.sql"]
says = "ordered"
"""
FILE = """
scale = 1
cache = "warm-pages"
restart = "needed"
max-time = "2m"

[factors]
sql = ["many.sql", "few.sql"]

[set]
shared_buffers = "64MB"
"""


def claim(id_: str, says: str, rest: str = "") -> str:
    return CLAIM.format(id=id_, says=says, rest=rest)


def written(folder: Path) -> Path:
    """A file with claims, beside its statements."""
    for name, rows in (("few", 1000), ("many", 1_000_000)):
        (folder / f"{name}.sql").write_text(SQL.format(rows=rows), "utf-8")
    path = folder / "rows.toml"
    elsewhere = 'needs = { elsewhere = "a managed service" }'
    content = FILE + claim("right", "faster") + claim("wrong", "slower") + claim("far", "equal", elsewhere)
    path.write_text(content + ORDER, "utf-8")
    return path


@pytest.fixture
def file(tmp_path: Path, require: Callable[..., None]) -> Path:
    require("server")
    return written(tmp_path)


def run(*words: object) -> dict[str, Any]:
    finished = whole_tool.run("claims", "run", *map(str, words), "--json", "--quiet", "--max-time", "3m")
    document: dict[str, Any] = whole_tool.result_of(finished)
    jsonschema.validate(document, schema.CLAIMS.schema(), cls=jsonschema.Draft202012Validator)
    return document


def verdicts(document: dict[str, Any]) -> dict[str, str]:
    return {each["id"]: each["verdict"] for each in document["claims"]}


@pytest.fixture(scope="module")
def decided(tmp_path_factory: pytest.TempPathFactory, require: Callable[..., None]) -> tuple[Path, Any]:
    """A folder with two files, of which one can't be run, and their results; the document of that run.

    Tests continue copies of it.
    """
    require("server")
    folder = tmp_path_factory.mktemp("decided")
    impossible = folder / "impossible.toml"
    impossible.write_text(f'pg = "9.1"\n{written(folder).read_text("utf-8")}', "utf-8")
    return folder, run(folder / "rows.toml", impossible, "--out", folder / "claims")


def test_claims_are_decided_once(decided: tuple[Path, Any], tmp_path: Path) -> None:
    folder, document = decided
    file, impossible, out = (folder / name for name in ("rows.toml", "impossible.toml", "claims"))
    expected = {"right": "reproduced", "wrong": "refuted", "far": "can't be tried here"}
    expected |= {"order": "reproduced"}
    of_file = [each for each in document["claims"] if each["file"] == str(file)]
    assert {each["id"]: each["verdict"] for each in of_file} == expected
    right, wrong, far, order = of_file
    assert order["why"] == "each is faster than the next here"
    assert right["here"] == wrong["here"] > 10 and right["interval"][0] > 1
    assert "managed service" in far["why"] and far["here"] is None
    assert f"pgassay claims run {file} --seed" in right["command"]
    refused = [each for each in document["claims"] if each["file"] == str(impossible)]
    assert {each["verdict"] for each in refused} == {"can't be tried here"}
    assert "9.1" in refused[0]["why"] and not (out / "impossible").exists()

    # The page and the document are what was printed, and can be created again from the records.
    assert json.loads((out / "claims.json").read_bytes()) == document
    page = (out / "claims.md").read_text("utf-8")
    assert all(each["why"] in page for each in (right, wrong, far))
    stored = whole_tool.result_of(whole_tool.run("claims", str(file), str(out), "--json"))
    assert verdicts(stored) == expected

    # What is decided is not run again.
    copy = tmp_path / "claims"
    shutil.copytree(out, copy)
    trials = sorted(copy.rglob("trial.json"))
    assert verdicts(run(file, "--out", copy)) == expected
    assert sorted(copy.rglob("trial.json")) == trials


@pytest.mark.slow
def test_an_undecided_claim_gets_more_blocks(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "claims"
    folder = out / "rows"
    smaller = tmp_path / "smaller.toml"
    smaller.write_text(f"blocks = 1\n{file.read_text('utf-8')}", "utf-8")
    whole_tool.result_of(whole_tool.run("run", smaller, "--out", folder, "--json", "--quiet"))
    before = whole_tool.result_of(whole_tool.run("claims", file, folder, "--json"))
    assert verdicts(before)["right"] == "undecided"
    trials = {*folder.rglob("trial.json")}
    document = run(file, "--out", out)
    assert verdicts(document)["right"] == "reproduced"
    assert trials < {*folder.rglob("trial.json")}
    assert document["experiments"][0]["blocks"] > 1


def test_an_interrupted_run_says_what_is_known_and_continues(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "claims"
    process = whole_tool.start("claims", "run", file, "--out", out, "--json", "--quiet", "--seed", "3")
    whole_tool.wait_for(lambda: [*out.rglob("trial.json")], "the first trial", process=process)
    process.send_signal(signal.SIGINT)
    said, complaint = process.communicate()
    assert process.returncode == 130, complaint
    assert "run it again to continue" in complaint
    document = json.loads(said)
    assert json.loads((out / "claims.json").read_bytes()) == document
    assert verdicts(document)["right"] == "undecided"
    trials = {*out.rglob("trial.json")}
    refused = whole_tool.run("claims", "run", str(file), "--out", str(out), "--seed", "4", "--quiet")
    assert "was begun with --seed 3, and continues with it" in whole_tool.assert_one_sentence(refused, 2)
    assert verdicts(run(file, "--out", out))["right"] == "reproduced"
    assert trials < {*out.rglob("trial.json")}


def test_a_file_that_was_changed_is_not_mixed_with_its_old_results(
    decided: tuple[Path, Any], tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(decided[0], copy)
    file, out = copy / "rows.toml", copy / "claims"
    content = file.read_text("utf-8")
    # Claims may be added to it.
    file.write_text(content + claim("added", "faster"), "utf-8")
    assert verdicts(run(file, "--out", out))["added"] == "reproduced"
    file.write_text(content.replace("scale = 1", "scale = 2"), "utf-8")
    finished = whole_tool.run("claims", "run", str(file), "--out", str(out), "--quiet")
    assert "was changed since" in whole_tool.assert_one_sentence(finished, 2)


def test_a_folder_that_is_a_file_is_refused(file: Path) -> None:
    finished = whole_tool.run("claims", "run", str(file), "--out", str(file), "--quiet")
    assert "name another folder with --out" in whole_tool.assert_one_sentence(finished, 2)


def test_a_claim_on_what_the_file_does_not_compare_is_refused_before_anything_is_measured(
    file: Path, tmp_path: Path
) -> None:
    file.write_text(FILE + claim("off", "faster").replace("few.sql", "fewer.sql"), "utf-8")
    finished = whole_tool.run("claims", "run", str(file), "--out", str(tmp_path / "out"), "--quiet")
    assert "there is no arm sql=fewer.sql" in whole_tool.assert_one_sentence(finished, 2)
    assert not (tmp_path / "out").exists()
