"""`pgassay claims` as its user runs it, on an experiment that was recorded on real servers."""

import tarfile
from pathlib import Path

import jsonschema
import pytest

import whole_tool
from frozen import archive
from pgassay.report import schema
from project_files import ROOT, unpack_archive

EXAMPLE = ROOT / "examples" / "io-method-cold-scan.toml"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with tarfile.open(archive.place("io-method-cold-each")) as tar:
        unpack_archive(tar, tmp_path / "cold")
    return tmp_path / "cold"


def test_the_claims_of_an_example_are_listed_and_judged(folder: Path) -> None:
    listed = whole_tool.result_of(whole_tool.run("claims", str(EXAMPLE), "--json"))
    document = whole_tool.result_of(whole_tool.run("claims", str(EXAMPLE), str(folder), "--json"))
    for each in (listed, document):
        jsonschema.validate(each, schema.CLAIMS.schema(), cls=jsonschema.Draft202012Validator)
    assert [each["verdict"] for each in listed["claims"]] == [None] * 7
    stored = whole_tool.result_of(whole_tool.run("report", str(folder), "--json"))
    statements = {each["name"]: each["arms"] for each in stored["statements"]}
    *_, of_statements, of_worker = document["claims"]
    # The published order of the times was that of the runs: each is cold here.
    assert {of_statements["verdict"], of_worker["verdict"]} <= {"refuted", "undecided"}
    assert of_statements["here"] > 1
    for each in document["claims"][:5]:
        name = each["id"].removeprefix("cold-")
        (arm,) = (arm for arm in statements[name] if arm["name"] == "io_method=worker")
        assert (each["here"], each["interval"]) == (arm["ratio"], arm["interval"])
        assert (each["verdict"] == "undecided") == (arm["verdict"] == "inconclusive" or arm["withheld"])
    table = whole_tool.run("claims", str(EXAMPLE), str(folder), "--markdown").stdout
    assert all(each["verdict"] in table for each in document["claims"])


def test_a_folder_of_another_experiment_is_refused(folder: Path) -> None:
    other = str(ROOT / "examples" / "sort-memory.toml")
    told = whole_tool.assert_one_sentence(whole_tool.run("claims", other, str(folder)), 2)
    assert "name the folder of an experiment of this file" in told


def test_a_file_without_claims_says_so() -> None:
    file = str(ROOT / "examples" / "read-ahead.toml")
    assert "has no claim" in whole_tool.assert_one_sentence(whole_tool.run("claims", file), 2)


def test_a_listing_refuses_an_arm_that_the_file_does_not_have(tmp_path: Path) -> None:
    source = ROOT / "examples" / "sort-memory.toml"
    mistyped = source.read_text().replace('arm = "work_mem=1GB"', 'arm = "work_mem=2GB"')
    (tmp_path / "mine.toml").write_text(mistyped)
    (tmp_path / "sort-memory.sql").write_bytes(source.with_name("sort-memory.sql").read_bytes())
    told = whole_tool.assert_one_sentence(whole_tool.run("claims", str(tmp_path / "mine.toml")), 2)
    assert "there is no arm work_mem=2GB" in told and "which has work_mem=4MB, work_mem=1GB" in told


def test_a_listing_says_how_to_have_verdicts(folder: Path) -> None:
    home = folder.parent
    listed = whole_tool.run("claims", str(EXAMPLE), cwd=home).stdout
    assert f"'pgassay claims run {EXAMPLE}'" in listed
    (home / "pgassay-claims").mkdir()
    folder.rename(home / "pgassay-claims" / EXAMPLE.stem)
    listed = whole_tool.run("claims", str(EXAMPLE), cwd=home).stdout
    assert f"'pgassay claims {EXAMPLE} pgassay-claims' shows the verdicts" in listed
