"""The page of `diagnose` in a real browser: the statements' table is not cut, on telephones too."""

from pathlib import Path

from running_server.test_statement_times import IN_COMMIT, UPDATE, interval

from contract.pages.test_html_tune import look
from pgassay.analysis.diagnosis.diagnose import diagnose
from pgassay.report.diagnosis.diagnosis_page import page_of

LONG = "UPDATE pgbench_accounts SET abalance = abalance + ? WHERE aid = ? AND bid = ?"
WAITS = {"idle in transaction": 0.61, "LWLock:WALWrite": 0.3}


def test_the_statements_of_a_diagnosis_fit_a_telephone(browser: Path, tmp_path: Path) -> None:
    """The column of waits was cut at 390 pixels, and a heading torn."""
    found = diagnose(interval(UPDATE, seen={"2": IN_COMMIT["2"]}, folder=tmp_path))
    (only,) = found.by_statement
    long = only.model_copy(update={"query": LONG, "waits": WAITS, "calls_s": 13_250.0, "pages": 12_345.0})
    page = page_of(found.model_copy(update={"by_statement": (long, only)}))
    for seen in look(browser, page.html(), tmp_path).values():
        assert seen["cut"] and {*seen["cut"]} == {0}
        assert seen["torn"] == []
