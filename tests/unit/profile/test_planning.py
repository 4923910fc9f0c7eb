"""What `--profile` is refused for, and the plan of its trials."""

import io

import pytest
from plans_for_tests import make_experiment

import report_examples as examples
from pgassay.analysis.verdicts.compare import analyse
from pgassay.cli import main
from pgassay.environment.linux import perf
from pgassay.errors import UsageError
from pgassay.experiment.planning.experiment_plan import check_profile
from pgassay.experiment.planning.request import CompareRequest
from pgassay.experiment.running.profiling_rounds import RATE_HZ, profile_experiment
from pgassay.progress import WithoutEstimates
from pgassay.terminal.progress import PlainProgress

FACTORS = ("work_mem=1MB,2MB",)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"server": "host=elsewhere"}, "leave --server and server= out"),
        ({"cache": "cold-each"}, "use --cache cold"),
    ],
)
def test_what_can_not_be_profiled_is_refused_before_anything_runs(
    changes: dict[str, object], words: str
) -> None:
    with pytest.raises(UsageError) as refused:
        check_profile(CompareRequest(FACTORS, **{"profile": True, **changes}))  # type: ignore[arg-type]
    assert words in str(refused.value)
    # The same without a profile is none of its business.
    check_profile(CompareRequest(FACTORS, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--profile-rounds", "5"), "--profile-rounds needs --profile"),
        (("--profile", "--fleet", "machines.toml"), "--profile cannot be used with --fleet"),
    ],
)
def test_options_that_do_not_go_together(
    options: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["compare", *FACTORS, *options]) == 2
    assert words in capsys.readouterr().err


def test_a_machine_without_perf_says_which_package_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    perf.find_perf.cache_clear()
    try:
        with pytest.raises(UsageError, match=r"perf, which is not installed: install the package linux-perf"):
            check_profile(CompareRequest(FACTORS, profile=True))
    finally:
        perf.find_perf.cache_clear()


def test_the_profile_is_an_experiment_of_its_own_on_the_same_arms() -> None:
    planned = make_experiment(list(FACTORS))
    planned = planned.model_copy(
        update={"protocol": planned.protocol.model_copy(update={"profile_rounds": 7})}
    )
    made = profile_experiment(planned)
    assert made.arms == planned.arms and made.contrasts == planned.contrasts
    assert (made.protocol.profile_hz, made.protocol.observe, made.protocol.plans) == (RATE_HZ, "off", "off")
    assert planned.protocol.profile_hz == 0
    assert made.contract.blocks_max == 7
    assert made.contract.seed != planned.contract.seed
    assert made.protocol.cache == planned.protocol.cache


def test_a_profile_shows_no_estimates_and_all_else() -> None:
    lines = io.StringIO()
    shown = PlainProgress(lines)
    unjudged = WithoutEstimates(shown)
    unjudged.estimate(analyse(examples.stored()), float("inf"))
    assert lines.getvalue() == ""
    unjudged.plan(["a", "b"], 2, 6, "profile: 2 further rounds")
    unjudged.trial_ended(0, 1, "ok", "4,000 transactions/s")
    assert "profile: 2 further rounds" in lines.getvalue()
    assert "block 1 of at most 2, trial 2: ok 4,000 transactions/s" in lines.getvalue()
