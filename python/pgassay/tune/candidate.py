"""What the parts of `tune` hand to each other: statements with their values, plans, candidates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import Field

from pgassay.model.base import Frozen
from pgassay.model.build import Build
from pgassay.model.plans.explained_plan import ExplainedPlan
from pgassay.model.storage import StorageSpec
from pgassay.tune.facts.schema import SchemaFacts

Layer = Literal["design", "operations", "infrastructure"]
# `proven`: by keys and constraints of the catalog, whatever the data are. `by test`: rows must be compared.
RewriteProof = Literal["proven", "by test"]
# Statements whose effect stays when what was set beside them is taken back.
_REMAINING = frozenset({"VACUUM", "ANALYZE", "REINDEX", "CLUSTER", "REPACK"})


class TunedStatement(Frozen):
    """A statement of the workload.

    `sql` has $1, $2 … where `parameters` is not empty; each of `parameters` is one set of values in
    PostgreSQL's text form (None: NULL), the most frequent set first. `weight` is how often it runs, relative
    to the others of its workload. `writes`: it changes data.
    """

    name: str
    sql: str
    parameters: tuple[tuple[str | None, ...], ...] = ()
    weight: float = 1.0
    writes: bool = False


class StatementRewrite(Frozen):
    """One rewritten statement.

    `condition` is why it returns the same rows, in a sentence; `kind` the rewrite; `problem` what makes the
    statement slow as it is, in a clause.
    """

    statement: str
    sql: str
    condition: str
    proof: RewriteProof
    kind: str = ""
    problem: str = ""


class Candidate(Frozen):
    """Something that may help, as a patch of the arm that is measured as it is.

    `id` is short, unique within a run and the same whenever the same candidate is found
    ("index:orders(a,b)"). `kind` is the finder's or the rewrite's name. `reason` is the evidence in a
    sentence with the figures of the plan. `statements` are the names of those whose plans or tables it
    touches. `sql` is applied in order, each statement outside of a transaction; `undo` takes it back, ()
    with `undoable` False where nothing can (VACUUM). `settings` are of the server; `restart` says that one
    of them needs a restart. `physical`: it mends what a logical copy does not have (bloat, visibility).
    `at_once`: between its statements the tables are not what a query expects: on a server in use all of them
    but VACUUM belong into one transaction. `described`: told and never tried (deep OFFSET to keyset).
    `predicted` is new time over old time for each statement, as far as it can be said before a trial;
    `bytes` what it is expected to take on the disk. `build`, `storage`: another server's binaries, another
    volume; `per_month` what that costs more in a month. `why_not`: told and not tried, for this reason.
    `on_copy`: those of `sql` that bring about on a copy what comes by itself on a server in use; they are in
    no script. `reason_of`: the statement whose plan the reason is of. `comments`: lines for whoever runs the
    script. `for_one_value`: an index of the rows with one value, where other values are as rare, so that an
    index on the column would serve them as well.
    """

    id: str
    layer: Layer
    kind: str
    title: str
    reason: str
    statements: tuple[str, ...]
    reason_of: str = ""
    sql: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    undoable: bool = True
    settings: dict[str, str] = Field(default_factory=dict)
    rewrites: tuple[StatementRewrite, ...] = ()
    restart: bool = False
    physical: bool = False
    at_once: bool = False
    on_copy: tuple[str, ...] = ()
    comments: tuple[str, ...] = ()
    described: bool = False
    predicted: dict[str, float] = Field(default_factory=dict)
    bytes: int | None = None
    build: Build | None = None
    storage: StorageSpec | None = None
    per_month: float | None = None
    why_not: str = ""
    for_one_value: bool = False

    def in_order(self, statements: Sequence[str]) -> tuple[str, ...]:
        """Its `sql` or `undo` as a server in use is to be given it, in one transaction where it is `at_once`.

        VACUUM refuses to run in one, and follows.
        """
        statements = [each for each in statements if each not in self.on_copy]
        if not self.at_once or not statements:
            return tuple(statements)
        after = [each for each in statements if each.upper().startswith("VACUUM")]
        return ("BEGIN", *(each for each in statements if each not in after), "COMMIT", *after)

    @property
    def is_restored_by_undo(self) -> bool:
        """Whether `undo` brings back the tables, and the statistics that plans rest on, as they were.

        Rows that VACUUM FULL wrote anew stay where they are, and what ANALYZE found with a larger target
        stays known: only where something was made, and is dropped, nothing of it is left. A table that is
        emptied to be filled again has its rows elsewhere.
        """
        if not (self.undoable and self.undo):
            return False
        if any(statement.upper().startswith("TRUNCATE ") for statement in self.undo):
            return False
        return not self.leaves_statistics or any(
            statement.upper().startswith("DROP ") for statement in self.undo
        )

    @property
    def leaves_statistics(self) -> bool:
        """Whether the tables have statistics afterwards that `undo` does not take back."""
        return any(statement.split(maxsplit=1)[0].upper() in _REMAINING for statement in self.sql)


@dataclass(frozen=True)
class OtherVersion:
    """A build of a newer version that is at hand; `why_not`: a clause where its data can't be made here."""

    build: Build
    why_not: str = ""


@dataclass(frozen=True)
class OtherStorage:
    """A faster volume: how many operations and bytes a second it gives, beside those of the one in use.

    `per_month`: by how much its price is higher, in `currency`; None where the catalogue does not know both.
    `why_not`: a clause where this machine can't imitate it.
    """

    storage: StorageSpec
    text: str
    operations: float
    bytes: float
    operations_now: float
    bytes_now: float
    per_month: float | None = None
    currency: str = ""
    why_not: str = ""


@dataclass(frozen=True)
class AdvisedMachine:
    """The machine that the advice is for, as far as it is known; never this one's for a remote server.

    `random_read_us` and `sequential_read_mb_s` are the storage probe's. `reads_memory`: what the statements
    read is in memory, by the cache state that they are measured in; `empties_buffers`: shared buffers are
    empty in it before each statement.
    """

    memory_bytes: int | None = None
    processors: int | None = None
    random_read_us: float | None = None
    sequential_read_mb_s: float | None = None
    reads_memory: bool = False
    empties_buffers: bool = False


@dataclass(frozen=True)
class Symptom:
    """What finders judge: the workload as it is.

    `plans` holds for each statement one executed plan per set of parameters, in their order (one where it has
    none). `share` is each statement's part of the workload's time, 0 to 1. `has_physical_state` is false on a
    logical copy. `clients` is how many connections run it at once. `versions`, `storages`: what else its
    server could run on. `gain_min`: the part of the workload's time that is worth a change of the schema.
    `endless`: the names of statements that did not end in their time, whose plans are the planner's estimate
    with that time laid over its costs. `held_by`: who keeps VACUUM on the source from removing dead rows.
    """

    statements: tuple[TunedStatement, ...]
    plans: Mapping[str, tuple[ExplainedPlan, ...]]
    facts: SchemaFacts
    share: Mapping[str, float]
    machine: AdvisedMachine = field(default_factory=AdvisedMachine)
    has_physical_state: bool = True
    clients: int = 1
    versions: tuple[OtherVersion, ...] = ()
    storages: tuple[OtherStorage, ...] = ()
    gain_min: float = 0.02
    endless: frozenset[str] = frozenset()
    held_by: str = ""
