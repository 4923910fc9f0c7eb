"""What the search came to, as search.json keeps it, and the files of a folder of tune's."""

from collections.abc import Mapping
from pathlib import Path

from pydantic import ConfigDict, Field

from pgassay.durable import replace_file
from pgassay.errors import UsageError
from pgassay.model.base import Frozen
from pgassay.model.tuning.tune_answer import TuneResult
from pgassay.record.documents import read_result, to_json
from pgassay.record.layout import SEARCH_FILE, TUNE_FILE
from pgassay.tune.candidate import Candidate, TunedStatement
from pgassay.tune.facts.schema import SchemaFacts
from pgassay.tune.proof.proof_arms import SharedArms
from pgassay.tune.running.time_needed import proof_s, search_on_s, start_s
from pgassay.tune.search.generic_plans import GenericPlan
from pgassay.tune.search.paired_timing import predicted_gains
from pgassay.tune.search.proof_time import BLOCKS_WANTED, TrialTime
from pgassay.tune.search.record import SearchRecord
from pgassay.tune.search.selection import Baseline, FixSelection, Seconds, faster_of, gain_over, total_s
from pgassay.tune.timeouts.time_limits import proof_limits, proven_state, unsolved


class StoredSearch(SearchRecord, Frozen):
    """The record of a search with the statements as they were, and its proof's figures. Seconds by name.

    `remaining`: of what was taken, the ids that a second stage of the proof confirms; () before it begins.
    `predicted`: by id what each chosen fix gains, which follows from the `rounds` where there are any.
    What was stopped took infinite seconds, which JSON has no number for: they are stored as a text.
    """

    model_config = ConfigDict(ser_json_inf_nan="strings")

    statements: tuple[TunedStatement, ...]
    seconds: dict[str, float]
    predicted: dict[str, float]
    predicted_together: float | None
    facts: SchemaFacts | None
    margin: float
    # By the name of a measured statement why it is not what it is on the server that it was read from.
    unlike: dict[str, str] = Field(default_factory=dict)
    remaining: tuple[str, ...] = ()
    # What a block of its proof takes by the search's figures, and making the data of its arms, in seconds.
    block_s: float = 0.0
    data_s: float = 0.0
    # What a block takes in which nothing is left out that was found.
    whole_block_s: float = 0.0
    # What has another plan where it is prepared once for all values.
    generic: tuple[GenericPlan, ...] = ()
    # Loading the data, in seconds.
    load_s: float = 0.0
    # The measured statements that did not end as they are in the time that they were given, their `seconds`.
    endless: tuple[str, ...] = ()
    # The arms of a proof that take turns in one server; None where each has data and a server of its own.
    shared: SharedArms | None = None
    # What was said until the proof began: what was left out, and what did not end.
    warnings: tuple[str, ...] = ()

    def search_on_s(self, load_s: float | None = None) -> float:
        """How long trying what was not tried, and proving the set anew, takes.

        `load_s`: loading the data, where that is not what it took before.
        """
        return search_on_s(
            self.seconds,
            [each.took_s for each in self.tried.values()],
            len(self.untried),
            self._whole_proof_s(),
            self.load_s if load_s is None else load_s,
        )

    def _whole_proof_s(self) -> float:
        """How long a proof takes of all that may be in it."""
        block_s, is_shared = max(self.block_s, self.whole_block_s), self.shared is not None
        if is_shared or not self.left_for_later:
            return proof_s(block_s, self.data_s, is_shared=is_shared)
        # Where each arm has its own data, `provable` takes no more fixes than so many blocks have time for.
        arms = 1 + len(self.selection.ids)
        data_s = self.data_s * (arms + len(self.left_for_later)) / arms
        return data_s + BLOCKS_WANTED * block_s

    @property
    def untried(self) -> list[Candidate]:
        """What may help, and was not tried for lack of time."""
        known = {*self.tried, *self.screened, *self.unsafe, *self.left_out, *self.selection.ids}
        return [each for each in self.candidates if each.id not in known]

    @property
    def left_for_later(self) -> list[str]:
        """The ids of what helps on top of what was chosen, and was left out of the proof for lack of time."""
        beside, kept = self.selection.beside, {*self.selection.ids, *self.selection.over, *self.unsafe}
        return [name for name, gain in beside.items() if gain >= 1 + self.margin and name not in kept]

    @property
    def remaining_members(self) -> list[Candidate]:
        """What the second stage confirms, in order."""
        return self.named(self.remaining)

    @property
    def chosen_seconds(self) -> Seconds:
        """The seconds of the statements with all that was chosen; as they were without."""
        steps = self.selection.steps
        return steps[-1].seconds if steps else self.seconds

    @property
    def made_faster(self) -> dict[str, frozenset[str]]:
        """By the id of what was tried the statements that it made faster, by a tenth and more.

        Of a proof in one server, the statements that each member touches while the others are in place, and
        by the search those that there was no time to measure in it.
        """
        found = {name: faster_of(tried.seconds, self.seconds) for name, tried in self.tried.items()}
        if self.shared is None:
            return found
        measured_there = frozenset(self.shared.statements)
        return {
            name: frozenset(touched) | (found.get(name, frozenset()) - measured_there)
            for name, touched in self.shared.touched.items()
        }

    @property
    def unsolved(self) -> tuple[str, ...]:
        """The statements that do not end with what was chosen either."""
        return unsolved(self.endless, self.seconds, self.chosen_seconds)

    @property
    def proof_limits(self) -> dict[str, float]:
        """After how many seconds a trial of the proof stops those that end with what was chosen."""
        return proof_limits(self.endless, self.seconds, self.chosen_seconds)

    def ended_with(self, name: str) -> bool:
        """Whether a statement that did not end as it is ended with something that was tried."""
        able = (each for each in self.tried.values() if not each.refused and each.id not in self.unsafe)
        found = (each.seconds.get(name) for each in able)
        return any(each is not None and each < self.seconds[name] for each in found)


def stored_search(
    statements: tuple[TunedStatement, ...],
    baseline: Baseline,
    found: SearchRecord,
    facts: SchemaFacts | None,
    margin: float,
    *,
    unlike: Mapping[str, str] | None = None,
    trial: TrialTime | None = None,
    shared: SharedArms | None = None,
    load_s: float = 0.0,
    generic: tuple[GenericPlan, ...] = (),
    whole_block_s: float = 0.0,
) -> StoredSearch:
    """What is to be kept of a search, with what each chosen fix is predicted to gain."""
    proven, selection = proven_state(baseline, found.selection)
    steps = selection.steps
    together, predicted = _predicted(proven, selection, found, shared)
    trial, count = trial or TrialTime(), len(steps)
    block_s = trial.block_s(selection, proven.seconds, count) if count else 0.0
    if shared is not None and steps:
        block_s = start_s(shared, trial.opened_s, proven.seconds, steps[-1].seconds, proven.endless)
    return StoredSearch(
        **dict(found),
        block_s=block_s,
        data_s=trial.data_s(selection, count) if count else 0.0,
        load_s=load_s,
        whole_block_s=whole_block_s,
        generic=generic,
        endless=baseline.endless,
        statements=statements,
        seconds=dict(baseline.seconds),
        predicted=predicted,
        predicted_together=together,
        facts=facts,
        margin=margin,
        unlike=dict(unlike or {}),
        shared=shared,
    )


def _predicted(
    proven: Baseline,
    selection: FixSelection,
    found: SearchRecord,
    shared: SharedArms | None,
) -> tuple[float | None, dict[str, float]]:
    """What the chosen set gains together by the search, and each member."""
    steps = selection.steps
    together, predicted = None, dict[str, float]()
    if steps and found.rounds:
        together, predicted = predicted_gains(found.rounds, found.named(step.id for step in steps))
    elif steps:
        # No time to time them in turn: by what each gained on top of those before it.
        before = total_s(proven.weights, proven.seconds)
        together = before / steps[-1].total_s
        for step in steps:
            predicted[step.id] = before / step.total_s
            before = step.total_s
    if shared is not None and steps:
        predicted = {
            name: gain_over(proven.weights, proven.seconds, steps[-1].seconds, shared.touched[name])
            for name in predicted
        }
    return together, predicted


def write_search(folder: Path, search: StoredSearch) -> None:
    """search.json, whole or not at all; it holds the predictions, so it is older than the first trial."""
    replace_file(folder / SEARCH_FILE, to_json(search))


def write_result(folder: Path, result: TuneResult) -> None:
    """tune.json, whole or not at all, and the two scripts where something is recommended."""
    replace_file(folder / TUNE_FILE, to_json(result))
    for name, text in (("apply.sql", result.apply_sql), ("undo.sql", result.undo_sql)):
        if text:
            replace_file(folder / name, text.encode())
        else:
            (folder / name).unlink(missing_ok=True)


def read_folder(folder: Path) -> tuple[StoredSearch, TuneResult]:
    """What tune stored in a folder; raises UsageError for one that holds none, or another version's."""
    if not folder.exists():
        raise UsageError(
            f"there is no folder {folder}: name the results of an earlier tune, or a server by a "
            f"connection string, such as dbname={folder.name}"
        )
    if not (folder / SEARCH_FILE).is_file() or not (folder / TUNE_FILE).is_file():
        raise UsageError(
            f"{folder} has no finished search of tune: name a folder that has one, or start "
            "again with --workload"
        )
    return (
        read_result(folder / SEARCH_FILE, StoredSearch, "search of tune", "run tune again"),
        read_result(folder / TUNE_FILE, TuneResult, "answer of tune", "run tune again"),
    )
