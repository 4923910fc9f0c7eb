"""Instructions and cycles: what perf stat writes, read; counted by transaction; told, or why not."""

from pathlib import Path

import pytest
from profile_for_tests import STACKS, profiled

from pgassay.analysis.profile.one_server import Sampled, profile_of
from pgassay.analysis.profile.result import profile_result
from pgassay.analysis.verdicts.compare import analyse
from pgassay.environment.linux import perf_counters
from pgassay.environment.linux.perf import Perf
from pgassay.environment.linux.perf_counters import Reading, counted_within, reading_of
from pgassay.report.compare.page import page_of
from pgassay.report.profile import one_server

COUNTS = {"control": 41_000.0, "arm": 38_950.0}
NONE_HERE = "instructions and cycles are not counted: this machine gives perf no hardware counters"


def test_a_line_of_perf_stat_is_read_and_any_other_is_none() -> None:
    assert reading_of("     1.100250,5000,,instructions:u,99,100.00,,") == Reading(
        1.10025, "instructions", 5000
    )
    assert reading_of("     0.1,<not counted>,,cycles,0,100.00,,\n") == Reading(0.1, "cycles", 0.0)
    for line in ("", "# started on Mon", "a,b,c,d", "1.0,2"):
        assert reading_of(line) is None


def test_a_part_of_an_interval_counts_in_part() -> None:
    """Lines come late by some ms, and perf's clock begins at the first one that came soonest."""
    zero = 10**12
    late = (3_000_000, 0, 5_000_000)
    readings = [
        (zero + place * 10**8 + late[place - 1], Reading(place / 10, event, 100.0 * place))
        for place in (1, 2, 3)
        for event in ("instructions", "cycles")
    ]
    found = counted_within(readings, zero + 50_000_000, zero + 250_000_000)
    assert found == pytest.approx({"instructions": 50 + 200 + 150, "cycles": 50 + 200 + 150})
    assert counted_within(readings, zero + 50_000_000, zero + 310_000_000) is None
    assert counted_within(readings, zero - 1, zero + 250_000_000) is None
    assert counted_within([], zero, zero + 1) is None


def test_whether_this_machine_has_counters_is_tried_out(tmp_path: Path) -> None:
    """With programs in the place of perf that say what one says with counters and without."""
    for number, (count, expected) in enumerate((("100", True), ("<not supported>", False))):
        program = tmp_path / f"perf{number}"
        lines = "".join(f"echo '{count},,{event}:u,9,100.00,,'\n" for event in perf_counters.EVENTS)
        program.write_text(f"#!/bin/sh\n{lines}")
        program.chmod(0o755)
        assert perf_counters.has_counters(Perf(str(program), "6", has_kernel=True)) is expected


def test_fewer_instructions_of_a_transaction_are_told_with_their_interval(tmp_path: Path) -> None:
    stored = profiled(tmp_path, rounds=8, instructions=COUNTS)
    found = profile_result(stored)
    assert found is not None
    assert [each.event for each in found.counted] == ["instructions", "cycles"]
    control, arm = found.counted[0].arms
    assert (control.verdict, arm.verdict) == ("control", "less")
    assert control.count == pytest.approx(41_000, rel=0.01)
    assert arm.ratio == pytest.approx(0.95, rel=0.01)
    assert arm.interval is not None and arm.interval[0] is not None and arm.interval[1] is not None
    assert arm.interval[0] < 0.95 < arm.interval[1] < 1
    assert NONE_HERE not in found.notes
    shown = page_of(analyse(stored), stored).terminal(width=120)
    assert "| instructions" in shown or "instructions  " in shown
    assert "0.950×" in shown


def test_equal_arms_count_alike_and_without_counters_that_is_said(tmp_path: Path) -> None:
    same = profile_result(profiled(tmp_path / "same", rounds=8, instructions=dict.fromkeys(COUNTS, 41_000.0)))
    assert same is not None and same.counted[0].arms[1].verdict == "inconclusive"
    none = profile_result(profiled(tmp_path / "none", rounds=2))
    assert none is not None and none.counted == () and NONE_HERE in none.notes
    assert "counted" not in none.model_dump()


def test_one_server_has_its_counts_too() -> None:
    folded = {stack: int(count) for stack, count in STACKS.items()}
    counted = {"instructions": 8.2e6, "cycles": 4.1e6}
    found = profile_of(Sampled(folded, 0, 997, "cpu-clock", "unwound", counted), 200, "statement")
    assert found.counted == {"instructions": 41_000.0, "cycles": 20_500.0}
    shown = one_server.section_of(found, "here", None)
    assert any("41,000 instructions and 20,500 cycles" in str(block) for block in shown.blocks)
    without = profile_of(Sampled(folded, 0, 997, "cpu-clock", "unwound"), 200, "statement")
    assert without.counted == {} and NONE_HERE in without.notes
