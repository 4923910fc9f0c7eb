"""From what was typed to what is tuned: the data, the server as it is, the statements."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pgassay.environment import datasets
from pgassay.environment.server.settings import SHARED_BUFFERS_SHIPPED
from pgassay.environment.server.validation import shared_buffers_bytes, with_data_format
from pgassay.errors import UsageError
from pgassay.experiment.planning.experiment_plan import choose_servers
from pgassay.experiment.planning.request import CompareRequest, parse_settings
from pgassay.experiment.planning.servers import Base, OnStage, Servers
from pgassay.model.arm import ArmSpec
from pgassay.model.experiment import CacheState
from pgassay.tune.candidate import TunedStatement
from pgassay.tune.inputs.base import Start, kind_of
from pgassay.tune.inputs.capture import start_of_capture
from pgassay.tune.inputs.diagnosis import start_of_diagnosis
from pgassay.tune.inputs.experiment import start_of_experiment
from pgassay.tune.source.locales import collation_of_dump, installed_locales, locale_of
from pgassay.tune.source.origin import CopyOrigin
from pgassay.tune.tuned_statements import statements_of
from pgassay.workloads.registry import parse_workload

# The cache state unless another is named: in shared buffers where the data fit there with room for what is
# built on them, as a server that runs for a while has them; else in the page cache.
CACHE_FITTING: CacheState = "warm-buffers"
CACHE_DEFAULT: CacheState = "warm-pages"
BUFFERS_SHARE_MAX = 0.6
MAX_TIME_MIN_S = 20.0
COLLATION_NOTE = (
    "the dump does not say its database's collation, and the copy's is {locale}: if the source has "
    "another, plans that compare text differ; name the source's with --locale"
)
LIKE_NOTE = "; a plain index supports LIKE there, and perhaps not on the source"
# A set of fixes may have one for each so many statements, or `members_max` where that is more; and so many
# for each statement where its proof needs no arm for each fix.
STATEMENTS_PER_MEMBER, MEMBERS_PER_STATEMENT = 2, 2


@dataclass(frozen=True)
class TuneRequest:
    """What a user asks for. `compare` holds what a comparison is asked for as well; its factors are none.

    `start`: what earlier results or a server bring, whose statements take the place of a workload that is
    typed. `origin`: what is known of the server that they were read from; `encoding`: that of its database.
    `began_at`: by time.monotonic, where the time began before the planning. `clients`: by how many sessions
    at once the proof executes the statements; None: as the workload says. `max_space_bytes`: what is chosen
    may take so much more on disk together; None: as much as it takes.
    """

    compare: CompareRequest
    out: Path | None = None
    locale: str | None = None
    members_max: int = 8
    start: Start | None = None
    origin: CopyOrigin | None = None
    encoding: str | None = None
    began_at: float | None = None
    clients: int | None = None
    max_space_bytes: int | None = None

    def members_max_of(self, statements: int, *, shares: bool = False) -> int:
        """How many fixes a set may have: many statements need more of them than few.

        `shares`: the proof has all in one server, in arms that don't grow in number with the fixes.
        """
        if shares:
            return max(self.members_max, MEMBERS_PER_STATEMENT * statements)
        return max(self.members_max, statements // STATEMENTS_PER_MEMBER)


@dataclass(frozen=True)
class PlannedTune:
    """A request that was understood. `spec`: the arm of the workload as it is; `notes` qualify it."""

    request: CompareRequest
    servers: Servers
    base: Base
    given: dict[str, str]
    spec: ArmSpec
    statements: tuple[TunedStatement, ...]
    chooses_cache: bool = False
    notes: tuple[str, ...] = ()

    @property
    def has_physical_state(self) -> bool:
        """Whether bloat, dead rows and visibility are those of the source: a dump has lost them."""
        return self.spec.dataset.kind != "dump"

    @property
    def data(self) -> str:
        """The data in words."""
        return datasets.describe(self.spec.dataset)

    def with_data_format(self) -> "PlannedTune":
        """The same with the formats that the build's initdb writes, which name its snapshots."""
        build = with_data_format(self.spec.build)
        return replace(self, spec=self.spec.model_copy(update={"build": build}))

    def with_cache_for(self, relation_bytes: int) -> "PlannedTune":
        """The same in the cache state that data of this size are usually in, unless one was named."""
        build = self.spec.build
        buffers = shared_buffers_bytes(
            build, self.spec.settings.get("shared_buffers", SHARED_BUFFERS_SHIPPED)
        )
        if (
            not self.chooses_cache
            or "pg_prewarm" not in build.extensions
            or relation_bytes > BUFFERS_SHARE_MAX * buffers
        ):
            return self
        protocol = self.base.protocol.model_copy(update={"cache": CACHE_FITTING})
        return replace(
            self,
            base=replace(self.base, protocol=protocol),
            request=replace(self.request, cache=CACHE_FITTING),
        )


def request_from(path: Path, request: TuneRequest, given: Mapping[str, str], arm: str | None) -> TuneRequest:
    """The request with what an experiment's folder or a stored diagnosis brings.

    `given`: the options typed beside it, by name; `arm`: the name of the experiment's arm. Raises UsageError
    for what can't be gone on from, and for options that the record decides.
    """
    if kind_of(path) == "experiment":
        compare, start = start_of_experiment(path, request.compare, arm, given)
        return replace(request, compare=compare, start=start)
    if arm is not None or "demo" in given:
        raise UsageError(
            f"--{'demo' if arm is None else 'arm'} cannot be used with a diagnosis: leave it out"
        )
    if "dataset" not in given:
        raise UsageError(
            f"{path} is a diagnosis, which has no data: give a copy of the server's data with --dataset "
            "dump:FILE or --dataset folder:BASEBACKUP"
        )
    major, start = start_of_diagnosis(path, given.get("workload"))
    compare = replace(request.compare, workload=start.workload.text, build=request.compare.build or major)
    return replace(request, compare=compare, start=start)


def _as_the_dump_s(spec: ArmSpec) -> tuple[ArmSpec, tuple[str, ...]]:
    """The arm with the collation and the encoding that its dump names, and what is said where it can't be."""
    found = collation_of_dump(spec.build, Path(spec.dataset.source))
    if found is None:
        locale = spec.dataset.locale
        # PostgreSQL's own provider compares byte by byte as well, libc's C.utf8 by its own words does not.
        is_by_bytes = locale in ("C", "POSIX") or locale.startswith("builtin:")
        return spec, (COLLATION_NOTE.format(locale=locale) + (LIKE_NOTE if is_by_bytes else ""),)
    locale, said = locale_of(found, installed_locales(), spec.build)
    update = {"locale": locale, "encoding": found.encoding or spec.dataset.encoding}
    return spec.model_copy(update={"dataset": spec.dataset.model_copy(update=update)}), (
        said,
    ) if said else ()


def plan_tune(request: TuneRequest, on_stage: OnStage) -> PlannedTune:
    """Read every word of a request; raises UsageError for the first that can't be meant.

    Needs no lock and starts no server.
    """
    compare = request.compare
    chooses_cache = compare.cache is None
    if chooses_cache:
        compare = replace(compare, cache=CACHE_DEFAULT)
    if compare.max_time_s < MAX_TIME_MIN_S:
        raise UsageError(
            f"--max-time {compare.max_time_s:g} s is too short to try and prove anything: use at least "
            f"{MAX_TIME_MIN_S:g}s"
        )
    given = parse_settings(compare.settings)
    start = request.start or start_of_capture(compare.workload)
    workload = parse_workload(compare.workload) if start is None else start.workload
    statements = statements_of(workload) if start is None else start.statements
    clients = workload.clients if request.clients is None else request.clients
    workload = workload.model_copy(update={"clients": clients if clients > 1 else 0})
    servers = choose_servers(compare, on_stage)
    base = servers.base((), workload, given)
    spec = base.spec
    if start is not None and start.spec is not None:
        # What its record has beside the baseline was given there, and is held fast as if it were here.
        recorded = start.spec.settings
        given |= {name: value for name, value in recorded.items() if spec.settings.get(name) != value}
        spec = start.spec.model_copy(update={"build": spec.build, "workload": workload})
        base = replace(base, spec=spec)
    if request.locale is not None:
        if spec.dataset.kind == "folder":
            raise UsageError("--locale means nothing for a physical copy, which has its own: leave it out")
        spec = spec.model_copy(update={"dataset": spec.dataset.model_copy(update={"locale": request.locale})})
    if request.encoding is not None and spec.dataset.kind != "folder":
        dataset = spec.dataset.model_copy(update={"encoding": request.encoding})
        spec = spec.model_copy(update={"dataset": dataset})
    notes = () if start is None else start.notes
    if request.locale is None and request.start is None and spec.dataset.kind == "dump":
        spec, said = _as_the_dump_s(spec)
        notes = (*notes, *said)
    return PlannedTune(compare, servers, base, given, spec, statements, chooses_cache, notes)
