"""The tables of published experiments are those of the examples' files."""

import importlib.util
import tomllib

import pytest

from project_files import ROOT

_SPEC = importlib.util.spec_from_file_location("made", ROOT / "tools" / "published_experiments.py")
assert _SPEC is not None and _SPEC.loader is not None
made = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(made)


def test_the_tables_are_current() -> None:
    remedy = "run 'python tools/published_experiments.py'"
    assert made.PAGE.read_text("utf-8") == made.page(), remedy


def test_every_example_with_claims_has_a_row() -> None:
    tables = made.tables()
    for path in (ROOT / "examples").glob("*.toml"):
        document = tomllib.loads(path.read_text("utf-8"))
        assert (f"(../examples/{path.name})" in tables) == ("claim" in document)
        if "claim" in document:
            (line,) = (each for each in tables.splitlines() if f"/{path.name})" in each)
            _, question, claims, _ = (cell.strip() for cell in line.split("|"))
            assert question.endswith(f"?](../examples/{path.name})")
            assert int(claims) == len(document["claim"])


def test_a_file_without_what_was_published_is_refused(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "examples").mkdir()
    claim = '[[claim]]\nid = "one"\nsource = { title = "A page", date = "2026-01" }\n'
    (tmp_path / "examples" / "one.toml").write_text(f"# Is it so?\n\n{claim}", "utf-8")
    monkeypatch.setattr(made, "ROOT", tmp_path)
    with pytest.raises(ValueError, match="Published"):
        made.tables()
