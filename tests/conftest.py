"""What all tests share: the capabilities of the machine.

A test asks `require("loop")`. Where the capability is missing the test is skipped, unless
PGASSAY_REQUIRE (names separated by commas) lists it: there the test fails.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

import capabilities
from beside_others import shared_machine
from native_servers import remove_kept_clusters
from steps.project import ALONE_FOLDERS
from steps.sysbench import private_bin

# The same examples in every run, however slow the machine: what fails here fails everywhere. With the tests
# that are marked slow come more of them.
for profile, examples in (("pgassay", 50), ("pgassay-slow", 100)):
    settings.register_profile(
        profile,
        deadline=None,
        derandomize=True,
        max_examples=examples,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
settings.load_profile("pgassay")

REQUIRED_VARIABLE = "PGASSAY_REQUIRE"
# What a test without the marker `server` may ask for: it minds no other test beside it.
HARMLESS = {
    "apt",
    "bash",
    "build",
    "chromium",
    "enclosure",
    "fish",
    "groff",
    "root",
    "source-tools",
    "wheel-linker",
}
HARMLESS |= {"zsh"}
# What it does to this process, it does to those that a test starts (`beside_others/sitecustomize.py`).
BESIDE_OTHERS = str(Path(__file__).with_name("beside_others"))
PYTHON_PATH = os.environ.get("PYTHONPATH", "")
_marked_server = False


def required_capabilities() -> list[str]:
    """Return the capabilities that PGASSAY_REQUIRE lists."""
    return [name.strip() for name in os.environ.get(REQUIRED_VARIABLE, "").split(",") if name.strip()]


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a list with a name that no probe has: it would require nothing."""
    if "not slow" not in config.option.markexpr:
        settings.load_profile("pgassay-slow")
    # At its end: a sysbench that the machine has is the one that is meant.
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), str(private_bin())])
    stop_passing_on_ignored_signals()
    unknown = [name for name in required_capabilities() if name not in capabilities.PROBES]
    if unknown:
        raise pytest.UsageError(
            f"{REQUIRED_VARIABLE} names {', '.join(unknown)}, which no probe knows: "
            f"use {', '.join(capabilities.PROBES)}."
        )


# What lasts longest begins first, so that all processors have work until the end.
FIRST = ("server", "frozen", "tidy", "statistics", "contract")


# Of what a test that ran again had failed by.
RERUN_LINES_MAX = 8
# These all look through the same files, which one worker then need read only once.
TIDY = "tests/tidy/"


class Lanes(LoadScopeScheduling):
    """Which tests one worker runs in a row: a file's, or all of the rules of the house."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "tidy" if file.startswith(TIDY) else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Lanes:
    """The lanes of a run with several workers."""
    return Lanes(config, log)


def begins(item: pytest.Item) -> int:
    """The place of a test's lane among the others; within one the tests stay as they were collected."""
    folder = item.nodeid.removeprefix("tests/").partition("/")[0]
    return (*FIRST, folder).index(folder)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest lanes first, and let tests with servers run again."""
    items.sort(key=begins)
    find_misplaced(items)
    let_run_again(items)


def find_misplaced(items: list[pytest.Item]) -> None:
    """Let a test fail that wants the machine for itself where `make test` does not look for one."""
    folders = tuple(f"{folder}/" for folder in ALONE_FOLDERS)
    for item in items:
        alone = item.get_closest_marker("server") and not item.get_closest_marker("shares_machine")
        if alone and item.nodeid.startswith("tests/") and not item.nodeid.startswith(folders):
            # Then the run beside others takes it, and it ends in `pytest_runtest_setup`.
            item.add_marker(pytest.mark.shares_machine)
            item.add_marker(pytest.mark.misplaced)


def let_run_again(items: list[pytest.Item]) -> None:
    """Let a test with servers that failed run again, twice at most: the machine is shared.

    What is wrong fails every time. Each repetition is named at the end of the run, with the letter R, and
    whoever sees one makes that test independent of the machine's noise. What hung would hang again. All other
    tests depend on the code alone and get no second try, nor do those that say so themselves.
    """
    for item in items:
        if item.get_closest_marker("server") and not item.get_closest_marker("flaky"):
            item.add_marker(pytest.mark.flaky(reruns=2, rerun_except="Timeout"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say why each test that ran again had failed: without that nobody can mend it."""
    for report in terminalreporter.stats.get("rerun", []):
        reasons = [line for line in report.longreprtext.splitlines() if line.startswith("E ")]
        place = report.longreprtext.splitlines()[-1:]
        terminalreporter.write_line(f"why {report.nodeid} ran again:")
        for line in (*reasons[:RERUN_LINES_MAX], *place):
            terminalreporter.write_line(f"    {line}")


def pytest_sessionfinish() -> None:
    remove_kept_clusters()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Know whether the test that runs now has servers, and whether it has the machine for itself."""
    global _marked_server
    _marked_server = item.get_closest_marker("server") is not None
    if item.get_closest_marker("misplaced"):
        pytest.fail(
            f"a test that runs alone is in {', '.join(ALONE_FOLDERS)}, or is marked shares_machine",
            pytrace=False,
        )
    shares = item.get_closest_marker("shares_machine") is not None
    shared_machine.set_shared(is_shared=shares)
    # No test beside others waits for the disk, with servers or without.
    shared_machine.set_flushing(flushes=_marked_server and not shares)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [BESIDE_OTHERS if shares else "", PYTHON_PATH]))


def stop_passing_on_ignored_signals() -> None:
    """Let programs that the tests start be interrupted, however the tests were started.

    In the background of a shell, or under nohup, signals are ignored, and programs inherit that. One that is
    handled (here by doing nothing) is not inherited.
    """
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@pytest.fixture(scope="session")
def require() -> Callable[..., None]:
    """Return a function that skips (or fails) the test when one of the named capabilities is missing."""

    def check(*names: str) -> None:
        for name in names:
            if name not in HARMLESS and not _marked_server:
                pytest.fail(f"a test that asks for {name} needs the marker server", pytrace=False)
            reason = capabilities.missing(name)
            if reason and name in required_capabilities():
                pytest.fail(
                    f"{name} is required here ({REQUIRED_VARIABLE}) and missing: {reason}", pytrace=False
                )
            if reason:
                pytest.skip(f"{name}: {reason}")

    return check
