"""What makes a statement fast again that the new version slows down: found and proven there by `tune`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pgassay.errors import MeasurementError, UsageError
from pgassay.experiment.planning.request import CompareRequest
from pgassay.model.build import Build
from pgassay.model.tuning.tune_answer import TuneResult
from pgassay.model.workload import Statement
from pgassay.progress import Progress
from pgassay.tune.run_tune import TOOLS, run_held
from pgassay.tune.source.statement_files import plain_text
from pgassay.tune.tune_plan import TuneRequest, plan_tune
from pgassay.words import amount

FOLDER = "fixes"
INTERRUPTED = "the search for fixes was interrupted"
# A search and a proof take so long at least.
TIME_MIN_S = 60.0


@dataclass(frozen=True)
class Mended:
    """A fix that was proven for a statement: in words, and as SQL or settings; '' where there is none."""

    words: str
    sql: str


def proven_fixes(
    request: CompareRequest,
    new: Build,
    slower: Sequence[Statement],
    folder: Path,
    max_time_s: float,
    progress: Progress,
) -> tuple[dict[str, Mended], str]:
    """The fixes by the statement's name, and why there is no more to say, '' where that is all.

    `request`: that of the comparison, whose copy and settings hold. The caller holds the host's lock.
    """
    if max_time_s < TIME_MIN_S:
        return {}, "no time was left to look for fixes of the slower statements: give a longer --max-time"
    file = folder / "slower.sql"
    file.write_text(plain_text(slower))
    compare = replace(
        request, factors=(), build=new.bin_directory, workload=f"sql:{file}", baseline="fixed",
        max_time_s=max_time_s, out=None, cache=None,
    )  # fmt: skip
    asked = TuneRequest(compare, out=folder / FOLDER)
    try:
        planned = plan_tune(asked, progress.stage)
        found = run_held(planned, asked, TOOLS, progress, isolates=False)
    except (UsageError, MeasurementError) as error:
        return {}, f"no fix was looked for: {error}"
    mended = _mended(found, new, folder / FOLDER / "apply.sql")
    return mended, INTERRUPTED if found.interrupted else ""


def _mended(found: TuneResult, new: Build, script: Path) -> dict[str, Mended]:
    fixes = {each.id: each for each in found.fixes if each.verdict == "recommended"}
    mended = {}
    for answer in found.statements:
        own = [fixes[name] for name in answer.fixes if name in fixes]
        if not own or answer.verdict != "faster" or answer.ratio is None:
            continue
        titles = " and ".join(each.title for each in own)
        words = f"{titles}: {amount(answer.ratio)} on {new.version}, proven there"
        # As it stands below it may lock out who writes: the script says what each statement locks.
        words += f"; {script} makes it on a server in use"
        mended[answer.name] = Mended(words, "\n".join(each.sql for each in own))
    return mended
