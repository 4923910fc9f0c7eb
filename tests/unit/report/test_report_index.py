"""The page over all experiments, the saved plots, and the parts of the page that have no browser."""

import re
from pathlib import Path

import pytest

import report_examples as examples
from load_records import write_load
from pgassay.analysis.verdicts.compare import analyse
from pgassay.cli.main import parser
from pgassay.errors import UsageError
from pgassay.report import index
from pgassay.report.charts import heat_map, palette
from pgassay.report.compare import plan_trees, repeat_and_cite, verdicts
from pgassay.report.index import IndexRow, row_of

PNG = b"\x89PNG\r\n\x1a\n"


def main(words: list[str]) -> int:
    """One command without the entry point, which would take over this process's signals."""
    arguments = parser().parse_args(words)
    status: int = arguments.run(arguments)
    return status


def test_every_experiment_has_its_verdict_and_a_working_link(tmp_path: Path, capsys) -> None:
    odd = 'odd "name" #?%<b>'
    write_load(tmp_path / odd, strata=[""], blocks=2)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "experiment.json").write_text("{")
    assert main(["index", str(tmp_path)]) == 0
    page = (tmp_path / "index.html").read_text()
    assert "<b>" not in page.replace("<b>{{", "")
    links = re.findall(r'href="(\./[^"]*)"', page)
    assert links == ["./odd%20%22name%22%20%23%3F%25%3Cb%3E/report.html"]
    assert (tmp_path / odd / "report.html").is_file()
    assert "io_method on select-only" in page
    assert "is not JSON" in page
    made = (tmp_path / odd / "report.html").stat().st_mtime_ns
    assert main(["index", str(tmp_path)]) == 0
    assert (tmp_path / odd / "report.html").stat().st_mtime_ns == made
    capsys.readouterr()


def test_the_newest_experiment_is_the_first_and_nothing_runs() -> None:
    stored = examples.stored(blocks=3)
    row = row_of(analyse(stored), stored, folder="a", link="a/report.html")
    later = IndexRow(folder="b", link="b/report.html", started="2027-01-01", title="later")
    page = index.render([row, later], title="x")
    assert page.index("later") < page.index("io_method on a cold full scan")
    assert "<script" not in page
    assert index.render([], title="x").count("<article") == 0


def test_plots_are_saved_as_pictures(tmp_path: Path, capsys) -> None:
    write_load(tmp_path / "load", strata=["1", "8"], blocks=2)
    assert main(["report", str(tmp_path / "load"), "--png", str(tmp_path / "plots")]) == 0
    capsys.readouterr()
    saved = {path.name: path.read_bytes() for path in (tmp_path / "plots").iterdir()}
    names = {"grid", "intervals", "trials", "seconds", "latency"}
    timelines = {f"timeline-{number}" for number in range(1, 5)}
    assert set(saved) == {f"{name}.png" for name in names | timelines}
    assert all(content.startswith(PNG) for content in saved.values())


def test_diff_of_two_folders_is_printed(tmp_path: Path, capsys) -> None:
    for name in ("a", "b"):
        write_load(tmp_path / name, strata=[""], blocks=2)
    assert main(["diff", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    printed = capsys.readouterr().out
    assert "io_method=worker against io_method=sync: " in printed
    assert "No other recorded facts differ." in printed
    with pytest.raises(UsageError, match="has no experiment"):
        main(["diff", str(tmp_path / "a"), str(tmp_path / "c")])


def test_a_tile_has_the_colour_of_its_word() -> None:
    stored = examples.stored(levels=["sync", "worker"], strata=["1", "8", "50", "99"], blocks=2)
    arms = [arm for arm in examples.result(stored).arms if arm.verdict != "control"]
    words = ("faster", "slower", "equivalent", "inconclusive")
    ratios = (1.6, 0.95, 1.0, 1.3)
    changed = {
        arm.name: arm.model_copy(update={"verdict": word, "ratio": ratio})
        for arm, word, ratio in zip(arms, words, ratios, strict=True)
    }
    result = examples.result(stored)
    result = result.model_copy(update={"arms": tuple(changed.get(arm.name, arm) for arm in result.arms)})
    assert heat_map.is_grid(result)
    cells = heat_map.specification(result, width_px=860)["datasets"]["cells"]
    assert [cell["colour"] for cell in cells] == [
        palette.HEAT_FASTER[2],
        palette.HEAT_SLOWER[0],
        palette.HEAT_SAME,
        palette.HEAT_OPEN,
    ]
    assert [cell["word"] for cell in cells] == list(words)
    assert verdicts.tally(result) == "4 comparisons: 1 faster, 1 slower, 1 equivalent and 1 inconclusive."


def test_lines_that_set_plans_apart_are_marked() -> None:
    found = {
        entry.statement: entry for entry in plan_trees.statement_plans(examples.stored(differing_plans=True))
    }
    marked = [
        [line.text.split("  ")[0] for line in variant.lines if line.differs]
        for variant in found["sum_abalance"].variants
    ]
    assert sorted(marked) == [
        ["Parallel Index Only Scan using pgbench_accounts_pkey on pgbench_accounts"],
        ["Parallel Seq Scan on pgbench_accounts"],
    ]
    assert not any(line.differs for line in found["count_accounts"].variants[0].lines)


def test_the_fingerprint_changes_with_any_trial() -> None:
    stored = examples.stored(blocks=2)
    assert repeat_and_cite.fingerprint(stored) == repeat_and_cite.fingerprint(examples.stored(blocks=2))
    assert repeat_and_cite.fingerprint(stored) != repeat_and_cite.fingerprint(examples.stored(blocks=3))
    assert repeat_and_cite.fingerprint(stored) in repeat_and_cite.citation(stored)
    assert "PostgreSQL 18.6 (apt)" in repeat_and_cite.citation(stored)


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_load(tmp_path / "one", strata=[""], blocks=2)
    monkeypatch.setattr("os.access", lambda path, _: Path(path) != tmp_path)
    with pytest.raises(UsageError, match=r"can't write into .*: make it writable"):
        main(["index", str(tmp_path)])
    monkeypatch.setattr("os.access", lambda path, _: Path(path) == tmp_path)
    assert main(["index", str(tmp_path)]) == 0
    assert "can&#39;t write into" in (tmp_path / "index.html").read_text()
