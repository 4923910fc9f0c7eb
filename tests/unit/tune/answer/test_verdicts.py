"""From what was tried and proved to verdicts, ranks and the scripts' document."""

import json
import math
from pathlib import Path

import jsonschema
import pytest

import tune_samples as samples
from pgassay.analysis.redaction.redacted_tuning import redacted
from pgassay.model.experiment import CacheState
from pgassay.model.storage import StorageSpec
from pgassay.model.tuning.tune_answer import VERDICTS, Fix
from pgassay.report import schema
from pgassay.report.charts import tune_charts
from pgassay.report.charts.drawing import NARROW_PX, WIDE_PX
from pgassay.report.tune import tune_page
from pgassay.tune.answer.answer_sentences import summary
from pgassay.tune.answer.compose import Told, compose
from pgassay.tune.answer.proof_verdict import NOT_TOLD
from pgassay.tune.answer.verdicts import BESIDE, ranked
from pgassay.tune.proof.effects import turned
from pgassay.tune.search.record import SearchRecord
from pgassay.tune.search.selection import FixSelection, SelectionStep, Tried
from pgassay.tune.stored_search import read_folder, stored_search, write_result, write_search
from pgassay.tune.symptom import storage_notes

_ALL = "all chosen fixes together"


def by_name(fixes: tuple[Fix, ...]) -> dict[str, Fix]:
    return {fix.id.removeprefix("index:"): fix for fix in fixes}


def test_every_candidate_has_a_verdict_and_what_is_recommended_stands_first() -> None:
    fixes = ranked(samples.judged())
    assert {name: fix.verdict for name, fix in by_name(fixes).items()} == {
        "good": "recommended",
        "second": "recommended",
        "useless": "no help",
        "harmful": "worse",
        "refused": "screened out",
        "unused": "screened out",
        "unsafe": "unsafe",
        "described": "screened out",
        "late": "not decided",
    }
    assert [fix.rank for fix in fixes] == list(range(1, 10))
    assert [fix.verdict for fix in fixes[:2]] == ["recommended"] * 2
    assert {fix.verdict for fix in fixes} == {*VERDICTS} - {"not needed"}


def test_a_gain_is_that_of_the_set_over_the_set_without_and_has_an_interval() -> None:
    good = by_name(ranked(samples.judged()))["good"]
    assert good.gain == pytest.approx(2.0)
    assert good.interval == (pytest.approx(1 / 0.6), pytest.approx(1 / 0.4))
    assert (good.evidence, good.predicted_gain) == ("proof", 2.0)
    assert (good.cost.build_s, good.cost.bytes) == (2.5, 8192_000)


@pytest.mark.parametrize(
    ("word", "verdict"), [("equivalent", "no help"), ("faster", "worse"), ("inconclusive", "not decided")]
)
def test_a_member_that_its_proof_does_not_bear_out_is_not_recommended(word: str, verdict: str) -> None:
    known = samples.judged(proved=samples.proved("good", "second", words={"second": word}))
    fixes = by_name(ranked(known))
    assert (fixes["second"].verdict, fixes["good"].verdict) == (verdict, "recommended")


def test_without_a_proof_nothing_is_recommended() -> None:
    fixes = ranked(samples.judged(proved=None))
    assert not [fix for fix in fixes if fix.verdict == "recommended"]
    assert by_name(fixes)["good"].verdict == "not decided"
    said = summary(fixes, None, 1.6, margin=0.03)
    assert said.startswith("Nothing is proven")
    assert said.endswith("Give a longer --max-time.")


def test_where_the_proof_could_not_be_run_more_time_is_no_remedy() -> None:
    fixes = ranked(samples.judged(proved=None))
    said = summary(fixes, None, 1.6, margin=0.03, is_refused=True)
    assert said.endswith("The proof could not be run: the warnings say why.")
    # Where only its second stage could not, the first is gone on with.
    said = summary(fixes, None, 1.6, margin=0.03, is_refused=True, go_on="pgassay tune FOLDER")
    assert said.endswith("Continue with pgassay tune FOLDER.")


def test_the_time_of_what_writes_is_told_with_the_fix_over_without() -> None:
    """In the search the index made `place` 1.2 times slower."""
    tried = ranked(samples.judged(members=(), proved=None))
    good = by_name(tried)["good"]
    assert good.cost.write_ratio == pytest.approx(1.2)


def test_a_statement_that_becomes_slower_is_told_first() -> None:
    answer = samples.answer()
    assert answer.proof is not None
    assert answer.proof.slower == ("place",)
    assert "They make place 20 % slower (between 9.1 % and 29 %)." in answer.verdict


@pytest.mark.parametrize(
    ("go_on", "advice"),
    [("pgassay tune found --max-time 4m", ". Continue with pgassay tune found --max-time 4m."),
     ("", ". Give a longer --max-time.")],
)  # fmt: skip
def test_what_is_not_decided_goes_on_where_its_data_are_kept(go_on: str, advice: str) -> None:
    fixes = ranked(samples.judged(proved=None))
    assert summary(fixes, None, 1.6, margin=0.03, go_on=go_on).endswith(advice)


def test_nothing_to_do_says_what_the_next_best_thing_gains() -> None:
    searched = samples.searched(tried={"index:useless": Tried("index:useless", {"list": 0.99})})
    known = samples.judged(candidates=(samples.candidate("useless"),), proved=None, **searched)
    answer = samples.answer(known)
    assert answer.nothing_to_do
    assert answer.verdict == (
        "Nothing to do: 1.600 s for the whole workload; the next best fix gains less than 3 %."
    )
    assert (answer.apply_sql, answer.undo_sql) == ("", "")


def test_a_gain_that_could_not_be_told_from_that_of_a_cheaper_fix_says_so() -> None:
    named = {name: samples.candidate(name) for name in ("cheap", "dear", "other")}
    searched = samples.searched(
        tried={each.id: Tried(each.id, {"list": 0.1}) for each in named.values()},
        selection=FixSelection(
            (SelectionStep("index:cheap", 0.7, {"list": 0.1}),), {"index:dear": 1.0, "index:other": 1.0}
        ),
        alike={"index:dear": "index:cheap"},
    )
    known = samples.judged(candidates=tuple(named.values()), proved=None, **searched)
    fixes = by_name(ranked(known))
    assert fixes["dear"].note == (
        f"{BESIDE}: its gain can't be distinguished from that of 'index cheap', which costs less"
    )
    assert fixes["other"].note == BESIDE


def test_what_has_no_room_is_named_with_its_size_and_is_no_reason_for_more_time() -> None:
    large = samples.candidate("large")
    tried = {large.id: Tried(large.id, {"list": 0.1}, bytes=300 << 20)}
    selection = FixSelection((), {large.id: 2.2}, {large.id: 50 << 20})
    answer = samples.answer(
        samples.judged(candidates=(large,), proved=None, **samples.searched(tried=tried, selection=selection))
    )
    assert (answer.fixes[0].verdict, answer.fixes[0].evidence) == ("screened out", "search")
    assert answer.fixes[0].note == "it takes 300 MB, and of --max-space there is 50.0 MB left"
    assert answer.verdict.startswith("Nothing is recommended: what would help does not fit into --max-space.")
    assert not answer.nothing_to_do
    assert answer.verdict.endswith("Left out, since it does not fit into --max-space: index large.")


def test_an_open_end_of_an_interval_stays_open() -> None:
    assert turned((0.0, 2.0)) == (0.5, None)
    assert turned((None, None)) == (None, None)
    assert turned(None) is None


def test_the_document_obeys_its_schema_and_the_file_is_up_to_date() -> None:
    assert schema.TUNE.file.read_text("utf-8") == schema.TUNE.text(), "run python -m pgassay.report.schema"
    value = json.loads(tune_page.page_of(samples.answer()).json())
    jsonschema.validate(value, schema.TUNE.schema(), cls=jsonschema.Draft202012Validator)
    fix = value["fixes"][0]
    assert set(fix) >= {
        *("rank", "layer", "kind", "sql", "verdict", "gain", "interval", "predicted_gain", "statements"),
        *("cost", "same_results"),
    }
    assert set(fix["cost"]) == {"build_s", "bytes", "write_ratio", "per_month", "wal_bytes"}
    assert set(value["cause"]) >= {"layer", "cause"}
    assert set(fix["statements"][0]) == {"name", "ratio", "interval"} if fix["statements"] else True
    value["fixes"][0]["verdict"] = "perhaps"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(value, schema.TUNE.schema(), cls=jsonschema.Draft202012Validator)


def test_every_output_shows_symptom_cause_candidates_and_proof() -> None:
    answer = samples.answer()
    shown = tune_page.page_of(answer).terminal(width=120)
    for words in ("Symptom", "Cause", "What helps", "Tried, but not recommended", "apply.sql", "index good"):
        assert words in shown, words
    page = tune_page.page_of(answer).html()
    assert "From symptom to proof" in page
    assert "<script" not in page
    assert "| 1. index good | design | recommended (proven) |" in tune_page.page_of(answer).markdown()


def test_the_page_draws_each_gain_with_its_prediction_and_each_statement_before_and_after() -> None:
    answer = samples.answer()
    names = [each.name for each in tune_charts.drawings(answer)]
    assert names == ["gains", "statements"]
    page = tune_page.page_of(answer).html()
    assert all(f'data-drawing="{name}"' in page for name in names)
    drawn = {row["label"]: row for row in tune_charts.gains(answer, width_px=WIDE_PX)["datasets"]["rows"]}
    assert list(drawn) == ["1. index good", "2. index second", "4. index useless", "5. index harmful", _ALL]
    assert drawn["2. index second"]["ratio"] == pytest.approx(2.0)
    assert drawn["2. index second"]["predicted"] == 2.3
    bound = answer.fixes[1].model_copy(update={"at_least": True})
    (row, *_) = tune_charts.gains(answer.model_copy(update={"fixes": (bound,)}), width_px=WIDE_PX)[
        "datasets"
    ]["rows"]
    assert row["ratio_text"].startswith("at least ")
    # What the search alone measured has a point and no interval.
    assert drawn["4. index useless"]["low"] == drawn["4. index useless"]["high"]
    assert answer.proof is not None
    rows = tune_charts.statements(answer, answer.proof, width_px=NARROW_PX)["datasets"]["rows"]
    assert [(row["full"], row["when"], row["seconds"]) for row in rows] == [
        ("list", "as it was", 1.0),
        ("list", "with all chosen fixes", pytest.approx(0.1)),
        ("report", "as it was", 0.5),
        ("place", "as it was", 0.1),
        ("place", "slower with them", pytest.approx(0.125)),
    ]


def test_nothing_is_drawn_of_what_was_not_measured() -> None:
    answer = samples.answer()
    bare = answer.model_copy(update={"proof": None, "fixes": (answer.fixes[2],)})
    assert list(tune_charts.drawings(bare)) == []
    assert "<figure" not in tune_page.page_of(bare).html()
    # A statement was stopped with it: no axis of ratios has a place for that.
    stopped = answer.fixes[3].model_copy(update={"gain": 0.0})
    assert list(tune_charts.drawings(bare.model_copy(update={"fixes": (stopped,)}))) == []


def test_what_was_never_tried_has_no_write_ratio() -> None:
    fixes = by_name(ranked(samples.judged()))
    assert fixes["late"].cost.write_ratio is None
    assert fixes["refused"].cost.write_ratio is None
    assert fixes["useless"].cost.write_ratio == 1.0
    assert fixes["harmful"].cost.write_ratio == pytest.approx(9.0)


def test_redacted_output_holds_no_literal_anywhere() -> None:
    hidden = redacted(samples.answer())
    for shown in (
        tune_page.page_of(hidden).json(),
        tune_page.page_of(hidden).markdown(),
        tune_page.page_of(hidden).html(),
    ):
        assert "Jane" not in shown
        assert "Neill" not in shown
        assert "4711" not in shown
        assert "orders" in shown
    # What stands in every script is nobody's data, and is run as it is shown.
    assert "name IN ('statement_timeout'" in hidden.apply_sql


def test_redacted_output_hides_a_condition_wherever_an_index_is_named() -> None:
    answer = samples.answer()
    name = "index:orders(customer) where (customer = 4711) AND (note = 'Pat')"
    first, *rest = answer.fixes
    first = first.model_copy(
        update={
            "id": name,
            "title": f"Index on {name.removeprefix('index:')}",
            "reason": "(customer = 4711) AND (note = 'Pat') holds for 3% of 999 rows",
            "note": f"its gain can't be distinguished from that of {name}",
            "rewritten": {"list": "SELECT E'Kim\\'s',\n $$Lee$$, 'one\nSecond' FROM orders"},
        }
    )
    assert answer.proof is not None
    proof = answer.proof.model_copy(update={"members": (name,)})
    script = "SET lock_timeout = '5s';\nCREATE INDEX i ON orders (a) WHERE note = 'one\nThird';\n-- title\n"
    script += "\n".join(f"-- {line}" for line in first.rewritten["list"].splitlines()) + "\n"
    changes = {"fixes": (first, *rest), "proof": proof, "confirmation": proof, "apply_sql": script}
    answer = answer.model_copy(update={**changes, "verdict": "by Kim's and Lee"})
    hidden = redacted(answer)
    for shown in (
        tune_page.page_of(hidden).json(),
        tune_page.page_of(hidden).markdown(),
        tune_page.page_of(hidden).html(),
    ):
        assert not [word for word in ("4711", "Pat", "Kim", "Lee", "Second", "Third") if word in shown]
    assert hidden.fixes[0].reason == "(customer = ?) AND (note = ?) holds for 3% of 999 rows"
    assert hidden.apply_sql.splitlines()[:2] == [
        "SET lock_timeout = '5s';",
        "CREATE INDEX i ON orders (a) WHERE note = ?;",
    ]


def test_a_stored_search_gives_the_same_answer_again(tmp_path: Path) -> None:
    known = samples.judged()
    search = stored_search(samples.STATEMENTS, known.baseline, known.found, None, known.margin)
    assert search.predicted == {
        "index:good": pytest.approx(1.6 / 0.7),
        "index:second": pytest.approx(0.7 / 0.3),
    }
    answer = samples.answer()
    write_search(tmp_path, search)
    write_result(tmp_path, answer)
    again, result = read_folder(tmp_path)
    assert (again, result) == (search, answer)
    told = Told(tmp_path, answer.symptom, answer.cause, 1.0)
    composed = compose(again, told, None)
    assert [(fix.id, fix.verdict) for fix in composed.fixes if fix.verdict == "worse"] == [
        ("index:harmful", "worse")
    ]
    # Without its proof nothing is recommended, and that nothing is to be done was not shown.
    assert not composed.nothing_to_do


def test_an_endless_statement_survives_the_file(tmp_path: Path) -> None:
    endless = Tried("index:useless", {"list": math.inf}, without_s=(1.0,) * 4, with_s=(math.inf,) * 4)
    found = SearchRecord(candidates=(samples.candidate("useless"),), tried={"index:useless": endless})
    search = stored_search(samples.STATEMENTS, samples.BASELINE, found, None, 0.03)
    write_search(tmp_path, search)
    write_result(tmp_path, samples.answer())
    again, _ = read_folder(tmp_path)
    assert again.tried["index:useless"].seconds == {"list": math.inf}
    # Every reader of JSON reads it.
    json.loads((tmp_path / "search.json").read_bytes(), parse_constant=pytest.fail)
    fix = compose(again, Told(tmp_path, samples.answer().symptom, samples.answer().cause, 1.0), None).fixes[0]
    assert (fix.verdict, fix.gain, fix.statements[0].ratio) == ("worse", 0.0, 0.0)


@pytest.mark.parametrize(
    ("without_s", "with_s", "verdict"),
    [
        ((1.6, 1.7, 1.5, 1.6), (2.3, 2.4, 2.2, 2.3), "worse"),
        # One round in the fast half, and the search can't tell.
        ((1.6, 1.7, 1.5, 1.6), (2.3, 2.4, 2.2, 1.65), "no help"),
        # Always slower, and by less than matters.
        ((1.60, 1.61, 1.60, 1.61), (1.63, 1.64, 1.63, 1.64), "no help"),
        ((), (), "no help"),
    ],
)
def test_what_looked_slower_is_worse_only_when_every_round_says_so(
    without_s: tuple[float, ...], with_s: tuple[float, ...], verdict: str
) -> None:
    tried = Tried("index:useless", {"list": 2.0}, 1.0, 8192, without_s=without_s, with_s=with_s)
    (fix,) = ranked(samples.of_one(**samples.searched(tried={"index:useless": tried})))
    assert (fix.verdict, fix.evidence) == (verdict, "search")
    assert fix.note == ("it made list 2 × as slow" if verdict == "worse" else NOT_TOLD)


def test_what_is_many_times_slower_once_is_not_called_noise() -> None:
    tried = Tried("index:useless", {"list": 86.0}, 1.0, 8192)
    (fix,) = ranked(samples.of_one(**samples.searched(tried={"index:useless": tried})))
    assert (fix.verdict, fix.note) == ("worse", "it made list 86 × as slow (timed once)")


def test_what_is_worse_in_all_and_in_no_statement_says_how_much() -> None:
    tried = Tried("index:useless", {"list": 1.05}, without_s=(1.6,) * 4, with_s=(2.0,) * 4)
    (fix,) = ranked(samples.of_one(**samples.searched(tried={"index:useless": tried})))
    assert (fix.verdict, fix.note) == ("worse", "it made all statements together 20 % slower")


def test_an_index_that_nobody_needs_is_told_by_what_it_frees() -> None:
    tried = Tried("index:useless", {"list": 1.0}, 0.0, -8 * 1024**2)
    known = samples.of_one(**samples.searched(tried={"index:useless": tried}))
    (fix,) = ranked(known)
    assert (fix.verdict, fix.note) == ("no help", "it frees 8.00 MB of the disk")
    # A setting frees none, and data that another server has made anew are no gain of space.
    for nothing in ({"sql": (), "settings": {"work_mem": "64MB"}}, {"storage": StorageSpec()}):
        found = {"candidates": (samples.candidate("useless", **nothing),), "tried": known.found.tried}
        other = samples.of_one(**samples.searched(**found))
        assert ranked(other)[0].note == ""


def test_what_it_frees_is_told_as_well_where_its_time_is_not_decided() -> None:
    tried = Tried("index:good", {"list": 0.9}, 0.0, -(8 * 1024**2))
    known = samples.judged(
        candidates=(samples.candidate("good"),),
        **samples.searched(
            tried={"index:good": tried},
            selection=FixSelection((SelectionStep("index:good", 0.7, {"list": 0.9}),)),
        ),
        proved=samples.proved("good", words={"good": "inconclusive"}),
    )
    (fix,) = ranked(known)
    assert fix.verdict == "not decided"
    assert "it frees 8.00 MB of the disk" in fix.note


def test_what_is_not_decided_is_not_called_proven() -> None:
    answer = samples.answer()
    fix = next(each for each in answer.fixes if each.evidence == "proof")
    unbounded = fix.model_copy(
        update={
            "verdict": "not decided",
            "interval": (None, None),
            "cost": fix.cost.model_copy(update={"write_ratio": 11.58}),
        }
    )
    said = tune_page.page_of(answer.model_copy(update={"fixes": (unbounded,), "statements": ()})).markdown()
    assert "not decided (so far)" in said and "proven)" not in said
    assert "11.6" not in said, "one block of one short statement bounds nothing"
    bounded = unbounded.model_copy(update={"interval": (1.1, None)})
    assert "11.6 × as slow" in tune_page.page_of(answer.model_copy(update={"fixes": (bounded,)})).markdown()


@pytest.mark.parametrize("cache", ["warm-buffers", "warm-pages", "cold"])
def test_a_volume_that_nothing_is_read_from_can_not_matter(cache: CacheState) -> None:
    notes = storage_notes(StorageSpec(kind="volume"), cache)
    assert bool(notes) == (cache != "cold")
    assert all("can't matter to read-only statements" in note for note in notes)
    assert not storage_notes(StorageSpec(kind="host"), cache)
