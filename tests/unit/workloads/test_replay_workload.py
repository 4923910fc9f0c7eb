"""`replay:DIR` as a workload: what words become, which statements have a line, where it can't be used."""

import re
from pathlib import Path

import pytest
from captures_for_tests import captured
from plans_for_tests import base_spec

from pgassay.analysis.gate.units import units_of
from pgassay.errors import InvalidTrialError, UsageError
from pgassay.experiment.planning.experiment_file import fields_of
from pgassay.experiment.planning.provisioned_servers import default_cache
from pgassay.factors.registry import parse_factor
from pgassay.model.traffic.trial_replay import Replayed, ReplayedFamily
from pgassay.model.trial import LoadObservation
from pgassay.model.workload import ReplayOptions
from pgassay.sizing.recordings import refuse_workloads
from pgassay.trial.measure.replayed_load import assert_same_work
from pgassay.tune.tuned_statements import statements_of as tuned_statements
from pgassay.workloads.metric import metric_of
from pgassay.workloads.registry import parse_workload
from pgassay.workloads.replay import OPTIONS, statements_of

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Two users' sessions, one of which writes."""
    reads = [(1, "app", "shop", f"SELECT * FROM orders WHERE id = {number}") for number in range(5)]
    return captured(tmp_path, *reads, (2, "batch", "shop", "UPDATE orders SET status = 'paid' WHERE id = 7"))


def options_of(text: str) -> ReplayOptions:
    load = parse_workload(text).load
    assert load is not None and load.replay is not None
    return load.replay


def test_at_a_pace_latency_is_compared_and_without_one_the_rate(shop: Path) -> None:
    paced, fastest = parse_workload(f"replay:{shop},speed=2"), parse_workload(f"replay:{shop},speed=max")
    assert (paced.metric.latency, paced.metric.unit) == ("mean", "ms")
    assert (fastest.metric.better, fastest.metric.unit) == ("higher", "statements/s")
    assert paced.load is not None and fastest.load is not None
    assert paced.load.duration_s == pytest.approx(fastest.load.duration_s / 2)
    assert (paced.load.clients, paced.load.warmup_s, paced.writes, paced.kind) == (2, 0.0, True, "load")
    options = options_of(f"replay:{shop}")
    assert (options.speed, options.statements, options.bound, options.database) == (1.0, 6, 0.01, "shop")
    assert options.folder == str(shop.resolve()) and len(options.identity) == 64


def test_a_part_of_the_sessions_is_another_workload(shop: Path) -> None:
    of_app = parse_workload(f"replay:{shop},users=app,max_diverged=5%")
    assert not of_app.writes and of_app.load is not None and of_app.load.clients == 1
    assert options_of(of_app.text).statements == 5 and options_of(of_app.text).bound == 0.05
    assert options_of(f"replay:{shop},until=2500ms").statements == 3
    late = options_of(f"replay:{shop},from=2500ms")
    assert late.statements == 3 and late.from_s == 2.5
    assert "from_s" not in options_of(f"replay:{shop}").model_dump()
    assert len(parse_workload(f"replay:{shop},families=1").statements) == 1
    assert parse_workload(f"replay:{shop},writes=no").writes is False
    with pytest.raises(UsageError, match="has no statements to replay"):
        parse_workload(f"replay:{shop},sample=0.0001%")


def test_a_larger_sample_has_the_sessions_of_a_smaller_one(tmp_path: Path) -> None:
    folder = captured(tmp_path, *((number, "app", "shop", "SELECT 1") for number in range(1, 51)))
    counts = [options_of(f"replay:{folder},sample={share}%").statements for share in (30, 60, 100)]
    assert counts[0] < counts[1] < counts[2] == 50 and 5 <= counts[0] <= 25


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("speed=0", "write a factor from 0.5 to 50, as speed=2, or speed=max"),
        ("speed=fast", "or speed=max"),
        ("clients=8", "has no option 'clients'"),
        ("users=nobody", "no sessions of nobody"),
        ("users=app+wbe+btch", "no sessions of wbe, btch, but of app, batch: name these"),
        ("database=other", "no sessions in other, but in shop"),
        ("from=3s,until=2s", "from=3s is not before until=2s"),
        ("families=0", "from 1 to 200"),
        ("sample=0", "not a share of the sessions"),
        ("writes=perhaps", "write writes=yes or writes=no"),
        ("speed=1,speed=2", "given twice"),
    ],
)
def test_what_can_t_be_meant_is_refused(shop: Path, options: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        parse_workload(f"replay:{shop},{options}")


def test_every_option_and_the_cache_state_are_documented(shop: Path) -> None:
    section = (DOCS / "replay.md").read_text("utf-8").split("## As a workload")[1].split("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == list(OPTIONS)
    assert default_cache(parse_workload(f"replay:{shop}")) == "warm-pages"


def test_several_databases_must_be_told_apart(tmp_path: Path) -> None:
    folder = captured(tmp_path, (1, "app", "shop", "SELECT 1"), (2, "app", "stock", "SELECT 2"))
    with pytest.raises(UsageError, match=r"several databases: shop, stock: .*database=shop"):
        parse_workload(f"replay:{folder}")
    assert options_of(f"replay:{folder},database=stock").statements == 1
    # As `pgassay replay` has it.
    assert options_of(f"replay:{folder},databases=stock").statements == 1


def test_without_a_capture_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="write --workload replay:DIR"):
        parse_workload("replay:")
    with pytest.raises(UsageError, match="nowhere"):
        parse_workload(f"replay:{tmp_path / 'nowhere'}")


def test_families_have_names_of_their_own_and_the_smallest_none() -> None:
    long = "SELECT one, two, three, four, five, six, seven FROM a_table_with_a_name WHERE "
    families = [
        {"sample": f"{long} id = $1", "calls": 9, "seconds_captured": 3.0},
        {"sample": f"{long} name = $1", "calls": 9, "seconds_captured": 2.0},
        {"sample": "SELECT x IN ($1, $2)", "calls": 1, "seconds_captured": 0.5},
        {"sample": "SELECT x IN ($1, $2, $3)", "calls": 2, "seconds_captured": 0.6},
        {"sample": "SELECT few", "calls": 9, "seconds_captured": 0.02},
        {"sample": "SELECT many", "calls": 10, "seconds_captured": 0.02},
        {"sample": "SELECT 1", "calls": 5, "seconds_captured": 0.001},
    ]
    found = statements_of(families)
    assert [each.sql for each in found] == [
        families[0]["sample"],
        families[1]["sample"],
        families[3]["sample"],
        "SELECT many",
    ]
    names = [each.name for each in found]
    assert names[1] == f"{names[0]} (2)" and all(len(name) <= 60 for name in names)


def test_each_family_is_a_unit_of_a_gate_and_a_file_names_a_folder_beside_it(shop: Path) -> None:
    workload = parse_workload(f"replay:{shop}")
    assert units_of(workload) == ("", *(each.name for each in workload.statements))
    assert len(workload.statements) == 2
    fields = fields_of(Path("/gates/g.toml"), {"workload": "replay:monday,speed=max"})
    assert fields["workload"] == "replay:/gates/monday,speed=max"


def test_what_varies_a_load_does_not_vary_a_replay(shop: Path) -> None:
    workload = parse_workload(f"replay:{shop}")
    spec = base_spec().model_copy(update={"workload": workload})
    for text, told in (("clients=1,8", "of its capture"), ("rate=10,20", "speed=2")):
        factor = parse_factor(text)
        with pytest.raises(UsageError, match=told):
            factor.kind.apply(factor.name, factor.levels[0], spec)
    with pytest.raises(UsageError, match="write replay:DIR,speed=max"):
        refuse_workloads([workload], "--workload")
    with pytest.raises(UsageError, match="list of statements, but replay has none"):
        tuned_statements(workload)


def test_the_figure_that_is_compared_fits_the_speed_and_the_length(shop: Path) -> None:
    paced, fastest = parse_workload(f"replay:{shop}"), parse_workload(f"replay:{shop},speed=max")
    assert metric_of("mean", paced, [paced.load]).latency == "mean"
    assert metric_of("tps", fastest, [fastest.load]) == metric_of(None, fastest, [fastest.load])
    with pytest.raises(UsageError, match="write speed=max"):
        metric_of("throughput", paced, [paced.load])
    with pytest.raises(UsageError, match=r"needs 2,000 statements in each trial .* has 6"):
        metric_of("p99", paced, [paced.load])


def test_a_trial_that_did_other_work_is_invalid_and_says_which(shop: Path) -> None:
    workload = parse_workload(f"replay:{shop}")
    family = ReplayedFamily(
        name="", text="SELECT 1", calls=9, diverged=4, other_values=0, seconds_captured=1.0, seconds=1.0,
        captured="SELECT 1", now="SELECT 0",
    )  # fmt: skip

    def load(share: float) -> LoadObservation:
        replayed = Replayed(
            statements=9, diverged=4, diverged_share=share, other_values=0, lacking=0, reordered=0,
            replaced=0, waited_s=0.0, sessions=1, sessions_lost=2, families=(family,),
        )  # fmt: skip
        return LoadObservation(transactions=9, elapsed_s=1.0, errors=0, client_cpu_s=0.1, replayed=replayed)

    assert_same_work(workload, load(0.01))
    with pytest.raises(InvalidTrialError, match=r"2\.0 % .* 1 % is allowed .*lost: 2.*4 of 9.*SELECT 0 now"):
        assert_same_work(workload, load(0.02))
