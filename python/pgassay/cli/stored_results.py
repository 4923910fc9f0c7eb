"""Stored results that are no single experiment: what tune, gate and fleet found, and kept probes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pgassay.errors import UsageError
from pgassay.fleet.spreading import spread_plan as spread_plans
from pgassay.fleet.spreading.results import blocks_done, stored_result
from pgassay.model.probe import ProbeRecord
from pgassay.model.tuning.tune_answer import TuneResult
from pgassay.probe.analysis.analyse import analyse_probe
from pgassay.record import layout
from pgassay.record.documents import read_result
from pgassay.record.experiment_lock import is_held
from pgassay.record.gates import load_gate
from pgassay.report.gate.gate_page import headline, side_words
from pgassay.report.text import plural

# What is at work now.
RUNNING = "at work"
_LOST_AND_FOUND = "lost+found"


@dataclass(frozen=True)
class OtherResult:
    """What `list` and `index` tell of one: `amount` is what it rests on, `ended` why it stopped.

    `verdict`: its sentences. `started`: an ISO time.
    """

    started: str
    title: str
    amount: str
    ended: str
    verdict: tuple[str, ...]


def others_below(parent: Path) -> Iterator[tuple[Path, OtherResult | UsageError]]:
    """Each folder of such results directly below `parent`, or `parent` itself, or why it can't be read."""
    below = sorted(parent.iterdir()) if parent.is_dir() else []
    for folder in (parent, *below):
        try:
            read = next((read for file, read in _READERS.items() if (folder / file).is_file()), None)
            found: OtherResult | UsageError | None = None if read is None else read(folder)
        except UsageError as error:
            found = error
        except PermissionError as error:
            # Whatever it holds; of lost+found, which file systems are made with, there is nothing to say.
            if folder.name == _LOST_AND_FOUND:
                continue
            found = UsageError(f"can't look into {folder} ({error.strerror}): make it readable")
        if found is not None:
            yield folder, found


def read_tuning(folder: Path) -> TuneResult:
    """The answer that `pgassay tune` stored in the folder; raises UsageError for another version's."""
    return read_result(folder / layout.TUNE_FILE, TuneResult, "answer of tune", "run tune again")


def _tuning(folder: Path) -> OtherResult:
    result = read_tuning(folder)
    ended_at = (folder / layout.TUNE_FILE).stat().st_mtime
    proof = result.proof
    amount = "no proof" if proof is None else plural(proof.blocks, "block")
    ended = _unended(folder) if result.interrupted else "" if proof is None else proof.stopped
    return OtherResult(
        started=datetime.fromtimestamp(ended_at - result.seconds_used, UTC).isoformat(timespec="seconds"),
        title=f"tune {result.symptom.workload or result.symptom.data}",
        amount=amount,
        ended=ended or "ended",
        verdict=(result.verdict,),
    )


def _searching(folder: Path) -> OtherResult:
    """A tune that was killed, or is at work: it has its candidates and no answer yet."""
    ended_at = (folder / layout.SEARCH_FILE).stat().st_mtime
    return OtherResult(
        started=datetime.fromtimestamp(ended_at, UTC).isoformat(timespec="seconds"),
        title="tune",
        amount="no proof",
        ended=RUNNING if is_held(folder) else "not ended",
        verdict=(),
    )


def _unended(folder: Path) -> str:
    """What is said of an answer that was written before its proof ended: that is done while it runs, too."""
    return RUNNING if is_held(folder) else "interrupted"


def _gate(folder: Path) -> OtherResult:
    result = load_gate(folder)
    return OtherResult(
        started=result.created_at,
        title=f"gate {Path(result.file).name}: {side_words(result.change)}",
        amount=plural(sum(each.blocks for each in result.workloads), "block"),
        ended=headline(result).lower(),
        verdict=(result.verdict,),
    )


def _spread(folder: Path) -> OtherResult:
    plan = spread_plans.read(folder)
    result = stored_result(plan, folder)
    return OtherResult(
        started=plan.created_at,
        title=f"fleet of {len(plan.machines)}: {' '.join(plan.words)}",
        amount=plural(blocks_done(result), "block"),
        ended=result.stopped,
        verdict=tuple(line for line in result.verdict.splitlines() if line.strip()),
    )


def _probe(folder: Path) -> OtherResult:
    result = analyse_probe(read_result(folder / layout.PROBE_FILE, ProbeRecord, "probe", "probe again"))
    return OtherResult(
        started=result.measured_at,
        title=f"probe {result.path}",
        amount=f"{len(result.cells)} cells",
        ended="ended",
        verdict=result.sentences[:1],
    )


# By a file that tells what a folder is, in the order in which they are looked for.
_READERS: dict[str, Callable[[Path], OtherResult]] = {
    layout.TUNE_FILE: _tuning,
    layout.SEARCH_FILE: _searching,
    layout.GATE_FILE: _gate,
    layout.FLEET_FILE: _spread,
    layout.PROBE_FILE: _probe,
}
