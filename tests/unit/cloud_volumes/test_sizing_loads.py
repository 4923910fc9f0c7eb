"""How far loads get by recordings whose parts are known: the oracles are closed forms."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pgassay.sizing.candidates import candidates
from pgassay.sizing.knees import knees
from pgassay.sizing.predict import Predictor
from pgassay.sizing.recordings import MeasuredRecording, RecordingGroup
from volume_traces import LOADED, alone, constant, recorded_on, write_trace

LATENCY_NS, COMPUTING_NS = 1_000_000, 400_000
MS = 1e-3


def group(*trials: MeasuredRecording) -> RecordingGroup:
    return RecordingGroup(name="", unit="transaction", measured=trials)


def test_a_cache_that_fills_is_compared_at_equal_progress(tmp_path: Path) -> None:
    """Of the first 1,000 units each reads a page, of the next 2,000 every second one."""
    reads = [(unit, number) for number, unit in enumerate([*range(1000), *range(1000, 3000, 2)])]
    cycle = LATENCY_NS + COMPUTING_NS
    requests = [
        (number * cycle, number * cycle + LATENCY_NS, "r", number * 81920, 8192) for _, number in reads
    ]
    # A unit without a read computes for no time, so that the oracle stays a sum.
    elapsed_s = len(reads) * cycle / 1e9
    by_half = ((0.0, 0.0), (elapsed_s / 2, 1000.0), (elapsed_s, 3000.0))
    trial = recorded_on(
        LATENCY_NS, requests, tmp_path, elapsed_ns=len(reads) * cycle, units=3000, progress=by_half
    )
    same, slower, faster = Predictor(group(trial)).predict([alone(1), alone(2.4), alone(0.3)])
    assert same.seconds_per_unit == pytest.approx(elapsed_s / 3000, rel=1e-3)
    # Twice as long for each: in the time it gets through the first half alone, 1,000 units.
    assert slower.seconds_per_unit == pytest.approx(elapsed_s / 1000, rel=1e-2)
    # Half as long: 3,000 units in half the time, and as many as in the last quarter from then on.
    assert faster.seconds_per_unit == pytest.approx(elapsed_s / (3000 + 4000 * 0.5 * 2), rel=1e-2)


def cached_units(folder: Path, latency_ns: int, units: int, knots: int, trial: int) -> MeasuredRecording:
    """Each unit reads a page somewhere, and one of 1,000 that a cache keeps once they were read.

    The units are counted `knots` times, at equal numbers of them.
    """
    random = np.random.default_rng(5)
    known: set[int] = set()
    requests, at_ns, progress = [], 0, [(0.0, 0.0)]
    for unit in range(units):
        for is_read in (True, (page := int(random.integers(1000))) not in known):
            if is_read:
                place = 81920 * (1 << 20) + 163_840 * len(requests)
                requests.append((at_ns, at_ns + latency_ns, "r", place, 8192))
                at_ns += latency_ns + 100_000
        known.add(page)
        if (unit + 1) % (units // knots) == 0:
            progress.append((at_ns / 1e9, unit + 1.0))
    return recorded_on(
        latency_ns,
        requests,
        folder,
        elapsed_ns=at_ns,
        units=units,
        trial=trial,
        progress=tuple(progress),
        clients=1,
    )


def test_a_cache_that_fills_before_units_are_first_counted_is_taken_to_fill_as_caches_do(
    tmp_path: Path,
) -> None:
    recorded = cached_units(tmp_path, LATENCY_NS, 8000, 8, 0)
    per_unit_ms = recorded.elapsed_s * 1e3
    # In the time of the recording so slow a volume gets through fewer units than were first counted.
    for times in (20, 50, 200):
        latency_ms = times * 1.1 - 0.1
        (found,) = Predictor(group(recorded)).predict([alone(latency_ms)])
        requests = per_unit_ms / (latency_ms + 0.1)
        units = next(number for number in range(12_000) if number + 1000 * (1 - 0.999**number) >= requests)
        assert found.seconds_per_unit == pytest.approx(recorded.elapsed_s / units, rel=0.06)


def test_what_units_read_that_a_slow_recording_never_came_to_is_told_by_a_faster_one(tmp_path: Path) -> None:
    slow = cached_units(tmp_path, LATENCY_NS, 800, 8, 0)
    # As long, so that it gets through more of the same.
    fast = cached_units(tmp_path, 0, 6000, 15, 1)
    predictor = Predictor(group(slow, fast))
    assert predictor.base is slow
    (found,) = predictor.predict([alone(0.2)])
    requests = slow.elapsed_s * 1e3 / 0.3
    units = next(number for number in range(12_000) if number + 1000 * (1 - 0.999**number) >= requests)
    assert found.seconds_per_unit == pytest.approx(slow.elapsed_s / units, rel=0.03)


def committing(
    folder: Path, trial: int, *, write_ns: int, cycle_ns: int, shared: int, **known: Any
) -> MeasuredRecording:
    """Eight clients that commit: a write in each cycle, on its way for so long, shared by so many of them."""
    count = 8000
    requests = [
        (number * cycle_ns, number * cycle_ns + write_ns, "w", number * 8192, 8192) for number in range(count)
    ]
    elapsed_s = count * cycle_ns / 1e9
    return MeasuredRecording(
        trial=trial,
        attempt=1,
        storage=f"constant {write_ns}",
        model=constant(write_ns / 1e6).model_dump(mode="json"),
        elapsed_s=elapsed_s,
        units=shared * count,
        parts=((0, count * cycle_ns),),
        processors=2.0,
        trace=write_trace(folder / f"{trial}.trace", requests),
        progress=((0.0, 0.0), (elapsed_s, float(shared * count))),
        clients=8,
        **known,
    )


def test_of_commits_that_share_a_write_as_many_clients_count_as_there_are_writes(tmp_path: Path) -> None:
    """Eight clients, and two commits for each write: on a slow volume four of them wait for each write."""
    trial = committing(tmp_path, 0, write_ns=20_000, cycle_ns=250_000, shared=2)
    (slow,) = Predictor(group(trial)).predict([alone(4)])
    assert slow.seconds_per_unit == pytest.approx(4 * MS / 4, rel=0.1)


def test_who_waits_for_a_lock_until_another_has_committed_has_no_part_in_a_write(tmp_path: Path) -> None:
    """Where two of eight wait for locks, three share each write: the slower recording tells how many wait."""
    fast = committing(tmp_path, 0, write_ns=20_000, cycle_ns=250_000, shared=2)
    # Computing is short, and others took nothing: the rest is waiting.
    known = {"lock_waits": 2.0, "cpu_s": 24_000 * 50e-6, "processors_min": 2.0}
    slow = committing(tmp_path, 1, write_ns=4_000_000, cycle_ns=4_000_100, shared=3, **known)
    found = [
        Predictor(group(fast, recorded)).predict([alone(4)])[0].seconds_per_unit
        for recorded in (slow, replace(slow, lock_waits=0.0))
    ]
    assert found == pytest.approx([4 * MS / 3, 4 * MS / 4], rel=0.1)


def in_memory_after(reads: int, folder: Path) -> MeasuredRecording:
    """A client that reads so many pages of 1 ms in its warm-up of 5 s; then a unit computes for 1 ms."""
    requests = [
        (number * LATENCY_NS, number * LATENCY_NS + 900_000, "r", number * 7919 % 5003 * 8192, 8192)
        for number in range(reads)
    ]
    progress = [(0.0, 0.0), *((5.0 + second, 5000.0 + 1000 * second) for second in range(31))]
    whole = recorded_on(
        LATENCY_NS, requests, folder, elapsed_ns=35 * 10**9, units=30_000, progress=tuple(progress), clients=1
    )
    return replace(whole, elapsed_s=30.0)


def test_units_that_read_nothing_take_as_long_on_every_volume(tmp_path: Path) -> None:
    predictor = Predictor(group(in_memory_after(5000, tmp_path)))
    same, faster, slower = predictor.predict([alone(0.9), alone(0.1), alone(2.9)])
    assert same.seconds_per_unit == pytest.approx(1 * MS, rel=1e-2)
    # What is read by the time that is measured is no matter of it.
    assert faster.seconds_per_unit == pytest.approx(1 * MS, rel=1e-2)
    # The warm-up's pages take 15 s: 25,000 units by the end, and about a third of the first 5,000 before 5 s.
    assert slower.seconds_per_unit == pytest.approx(30 / (25_000 - 5000 / 3), rel=6e-2)


def test_a_load_that_reads_nothing_is_as_fast_on_every_volume(tmp_path: Path) -> None:
    write_back = [(20 * 10**9, 20 * 10**9 + 900_000, "w", 0, 8192)]
    without_reads = replace(
        in_memory_after(0, tmp_path), trace=write_trace(tmp_path / "w.trace", write_back), progress=()
    )
    progress = tuple((float(second), 1000.0 * second) for second in range(31))
    found = Predictor(group(replace(without_reads, progress=progress))).predict([alone(0.1), alone(9)])
    assert [each.seconds_per_unit for each in found] == pytest.approx([1 * MS] * 2, rel=1e-2)


def test_writes_that_nobody_waits_for_still_have_to_be_written(tmp_path: Path) -> None:
    """500 a second on a volume of 300: no time of the recording says so."""
    every_ns = 2_000_000
    requests = [
        (number * every_ns, number * every_ns + LATENCY_NS, "w", number * 7919 % 2500 * 81920, 8192)
        for number in range(2500)
    ]
    progress = ((0.0, 0.0), (2.5, 1250.0), (5.0, 2500.0))
    trial = recorded_on(
        LATENCY_NS, requests, tmp_path, elapsed_ns=5 * 10**9, units=2500, progress=progress, clients=1
    )
    predictor = Predictor(group(trial))
    (gp2,) = candidates(LOADED, 100, volumes=["gp2,size=100GiB"])
    full, empty = predictor.predict([gp2.attached, gp2.attached.sustained()])
    assert full.unserved_share == 0 and empty.unserved_share == pytest.approx(0.4, abs=0.01)
    assert empty.seconds_per_unit == pytest.approx(full.seconds_per_unit)
    operations, throughput, _ = knees(predictor, gp2.attached)
    assert operations.value is not None and 470 <= operations.value <= 550
    assert throughput.value is not None and 3.6 <= throughput.value <= 4.3
