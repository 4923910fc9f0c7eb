"""TPC-H after `pgassay tune` beside TPC-H after its peers' advice, in one experiment.

    python benchmarks/tpch/tune_tpch.py [--scale 1] [--seed 1] [--max-time 30m] [--blocks 8] [--out FOLDER]
    python benchmarks/tpch/tune_tpch.py --fetch            # only install what is needed, by the network

The 22 queries with parameters drawn by the seed, and both refresh functions as writes, each weighed so that
it counts alike in the workload's time once it is fast; the weights are kept in FOLDER. `tune` has --max-time.
postgres-mcp advises indexes for the same statements on a copy with HypoPG; it may have as much space as those
of tune take, and what does not fit, once really built, is cut. pgtune's formula gives the settings. Then
one experiment of randomised blocks has each as an arm: tune's recommendations, the peers' indexes, the
formula's settings, both of them, and the data as they are; and, where the peers took less space than tune,
tune's without what exceeds that.

Prints for each arm the geometric mean over the statements of tune's time over the arm's, with its interval,
and the ratio of the total time; and tune's in the peers' space against both peers together. Exit code 1
unless the intervals against both peers together lie below 1.
A statement that an arm does not end within --limit is stopped, and counts with that time, a lower bound: the
experiment's warnings name it. The experiment lies in FOLDER/experiment for `pgassay report`. Results of tune
that lie in FOLDER/tune are taken as they are. --unproven takes what the search chose in at most --max-time,
without tune's own proof: the experiment then is its proof. With --max-space everybody may have so much of
the disk, the peers also where tune takes less.
"""

import argparse
import contextlib
import json
import math
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from peers import FORMULA_SQL, MEGABYTE, Advised, Peers, advised_indexes, fetch, formula, index_bytes
from tpch_data import generate
from tpch_queries import Query, queries, refresh_functions, statements_file
from tpch_report import FACTOR, print_report

from pgassay.cli.options import duration
from pgassay.environment.builds.registry import resolve
from pgassay.environment.datasets import snapshots
from pgassay.environment.linux import machine
from pgassay.errors import MeasurementError, UsageError
from pgassay.experiment.planning.experiment_plan import GivenArms, parse_arms
from pgassay.experiment.planning.request import CompareRequest
from pgassay.experiment.running.run_experiment import host_lock, run_parsed
from pgassay.model.tuning.tune_answer import TuneResult
from pgassay.progress import Progress
from pgassay.storage.storage_options import parse_bytes
from pgassay.terminal.live_progress import choose
from pgassay.tune.candidate import Candidate
from pgassay.tune.copy import TrialCopy
from pgassay.tune.proof.proof_arms import arm_of
from pgassay.tune.proof.stages import remove_copies
from pgassay.tune.run_tune import TOOLS, result_of, run_tune
from pgassay.tune.running.look import STATEMENT_SHARE_MAX, TuneRun, look, measure_and_gather, search_of
from pgassay.tune.stored_search import SEARCH_FILE, TUNE_FILE, read_folder, write_result, write_search
from pgassay.tune.tune_plan import PlannedTune, TuneRequest, plan_tune
from pgassay.tune.tuned_statements import measured

TUNE, TUNE_CUT, AS_IT_IS = "tune", "tune in the peers' space", "as it is"
INDEXES, SETTINGS, BOTH = "postgres-mcp", "pgtune", "postgres-mcp and pgtune"
# At most so long for the peer's advisor; it ends by itself when no index gains enough.
ADVISOR_S = 300.0
CACHE_DEFAULT = "warm-pages"
# Alike for all: how long a disk takes to flush a commit is what nobody advises on, and its noise is large
# beside statements of a millisecond. What an index adds to a write is in the statement's own time.
SETTINGS_OF_ALL = ("synchronous_commit=off",)
WORKLOAD_FILE, WEIGHTS_FILE = "tpch-queries.sql", "weights.json"
# Of 26 statements that count alike one that becomes twice as fast makes the workload 2 % faster.
MARGIN = 0.01


@dataclass(frozen=True)
class Space:
    """Who took how many bytes of indexes, and what of both lists that leaves."""

    tune: int
    peers: int
    advised: tuple[Advised, ...]
    kept: tuple[Advised, ...]
    tune_cut: tuple[Candidate, ...]


def main(words: Sequence[str] | None = None) -> int:
    """Tune, ask the peers, compare, print; returns the exit code."""
    arguments = _arguments(words)
    peers = fetch(resolve(arguments.pg).major)
    if arguments.fetch:
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.out or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        request = _request(arguments, peers, folder)
        planned = plan_tune(TuneRequest(request), lambda *_: None).with_data_format()
        progress = choose(quiet=arguments.quiet)
        before = {snapshot.key for snapshot in snapshots.list_snapshots()}
        specs = [planned.spec]
        try:
            weights = _kept_weights(folder / WEIGHTS_FILE)
            if not weights:
                with host_lock(progress, wait=True):
                    weights = even_weights(planned, folder, progress)
                (folder / WEIGHTS_FILE).write_text(json.dumps(weights, indent=1) + "\n")
            workload = folder / WORKLOAD_FILE
            workload.write_text(statements_file(_statements(arguments), weights))
            planned = plan_tune(TuneRequest(request), lambda *_: None).with_data_format()
            arms = _advice(arguments, request, planned, peers, folder, progress)
            specs += arms.specs.values()
            compare = replace(
                request,
                max_time_s=10 * request.max_time_s,
                blocks=arguments.blocks,
                out=folder / "experiment",
            )
            limits = {each.name: arguments.limit for each in measured(planned.statements)}
            protocol = planned.base.protocol.model_copy(update={"statement_limits": limits})
            with host_lock(progress, wait=True):
                base = replace(planned.base, protocol=protocol)
                parsed = parse_arms(compare, planned.servers, base, planned.given, arms)
                stored = run_parsed(parsed, progress, until_decided=False)
        finally:
            progress.close()
            remove_copies(specs, before)
    return print_report(stored, BOTH, TUNE_CUT)


def _kept_weights(file: Path) -> dict[str, float]:
    """The weights of an earlier run in this folder; none without one."""
    return {name: float(each) for name, each in json.loads(file.read_text()).items()} if file.exists() else {}


def _statements(arguments: argparse.Namespace) -> list[Query]:
    return [
        *queries(arguments.seed, arguments.scale, arguments.sets),
        *refresh_functions(arguments.seed, arguments.scale),
    ]


def even_weights(planned: PlannedTune, folder: Path, progress: Progress) -> dict[str, float]:
    """What makes each statement count alike in the workload's time once it is tuned.

    The figure is a mean over statements of ratios, so that is what everybody is asked to make fast: with the
    inverse of the time that a statement can come to as its weight, halving it there counts the same for all.
    What it can come to is what it takes as it is, or with all indexes and settings that were found; where it
    writes, which all of them make slower, the geometric mean of both.
    """
    known = TuneRun(planned, folder, time.monotonic())
    # As tune waits for a statement that does not end.
    limit_s = STATEMENT_SHARE_MAX * planned.request.max_time_s
    cache = planned.base.protocol.cache
    with TrialCopy(planned.spec, cache=cache, statement_timeout_s=limit_s, on_stage=progress.stage) as copy:
        measure_and_gather(known, TOOLS, copy, progress)
        assert known.baseline is not None
        progress.stage("timing each statement with all indexes and settings")
        for each in known.found.to_try:
            if each.settings or all(words.startswith("CREATE INDEX") for words in each.sql):
                with contextlib.suppress(UsageError, MeasurementError):
                    copy.push(each)
        seconds: dict[str, float] = {}
        for statement in known.baseline.statements:
            before = known.baseline.seconds[statement.name]
            # With all indexes what writes may take several times as long: no reason to stop it.
            usual_s = None if statement.of.writes else before
            after = copy.seconds(statement, statement.sql, usual_s=usual_s)
            # Some of the indexes will be there, which what writes has to keep.
            least = math.sqrt(before * after) if statement.of.writes else min(before, after)
            seconds[statement.of.name] = seconds.get(statement.of.name, 0.0) + least
    return {name: 1 / max(took, 1e-4) for name, took in seconds.items()}


def _request(arguments: argparse.Namespace, peers: Peers, folder: Path) -> CompareRequest:
    script = generate(peers.generator, arguments.scale, folder / "data")
    workload = folder / WORKLOAD_FILE
    workload.write_text(statements_file(_statements(arguments)))
    return CompareRequest(
        factors=(),
        workload=f"sql:{workload}",
        dataset=f"script:{script}",
        settings=(*SETTINGS_OF_ALL, *arguments.settings),
        memory=arguments.memory,
        build=arguments.pg,
        cache=arguments.cache,
        margin=MARGIN,
        max_time_s=arguments.max_time,
        seed=arguments.seed,
    )


def _advice(
    arguments: argparse.Namespace,
    request: CompareRequest,
    planned: PlannedTune,
    peers: Peers,
    folder: Path,
    progress: Progress,
) -> GivenArms:
    """Everybody's advice as arms; says what it is."""
    results = folder / "tune"
    most = arguments.max_space
    most_bytes = None if most is None else parse_bytes("--max-space", most, most, example="100MB")
    if (results / TUNE_FILE).exists():
        result = TuneResult.model_validate_json((results / TUNE_FILE).read_bytes())
    else:
        asked = TuneRequest(request, out=results, max_space_bytes=most_bytes)
        if arguments.unproven:
            with host_lock(progress, wait=True):
                result = searched(asked, progress)
        else:
            result = run_tune(asked, TOOLS, progress, wait=True, isolates=False)
    chosen = _chosen(results, result, proven=not arguments.unproven)
    memory_bytes = planned.spec.memory_bytes or machine.memory_bytes()
    cores = machine.facts().get("cores_usable")
    settings = formula(memory_bytes, int(cores) if isinstance(cores, int | float) else 1)
    with host_lock(progress, wait=True):
        space = _space(planned, peers, result, chosen, most_bytes, progress)
    print(f"tune recommends {len(chosen)} fixes ({_megabytes(space.tune)} of indexes):")
    for each in chosen:
        print(f"  {each.title}  {'; '.join(each.sql)} {each.settings or ''}")
    print(
        f"postgres-mcp advises {len(space.advised)} indexes, {len(space.kept)} fit "
        f"({_megabytes(space.peers)}):"
    )
    for advised in space.advised:
        print(f"  {advised.sql}  {_megabytes(advised.bytes)}{'' if advised in space.kept else ' (cut)'}")
    print(f"pgtune: {', '.join(f'{name}={value}' for name, value in settings.items())}", flush=True)
    indexes = _peer("indexes", tuple(each.sql for each in space.kept), {})
    formulas = _peer("settings", FORMULA_SQL, settings)
    lists: dict[str, Sequence[Candidate]] = {
        TUNE: chosen,
        INDEXES: (indexes,),
        SETTINGS: (formulas,),
        BOTH: (indexes, formulas),
        AS_IT_IS: (),
    }
    if space.tune_cut != tuple(chosen):
        lists[TUNE_CUT] = space.tune_cut
    if arguments.leave_out:
        lists = {name: lists[name] for name in lists if name not in arguments.leave_out.split(",")}
    statements = measured(planned.statements)
    return GivenArms(
        FACTOR, TUNE, {name: arm_of(planned.spec, statements, fixes) for name, fixes in lists.items()}
    )


def searched(asked: TuneRequest, progress: Progress) -> TuneResult:
    """What tune's search chooses in its part of the time, without a proof; kept as tune keeps it."""
    assert asked.out is not None
    folder = asked.out
    folder.mkdir(parents=True, exist_ok=True)
    known = TuneRun(plan_tune(asked, progress.stage).with_data_format(), folder, time.monotonic())
    look(known, TOOLS, asked, progress, proves=False)
    result = result_of(known, is_interrupted=True)
    write_search(folder, search_of(known))
    write_result(folder, result)
    return result


def _chosen(folder: Path, result: TuneResult, *, proven: bool) -> list[Candidate]:
    """What apply.sql holds, the best one first; else what the search chose, and the proof did not refute."""
    wanted = ("recommended",) if proven else ("recommended", "not decided")
    names = [fix.id for fix in result.fixes if fix.verdict in wanted]
    if not names or not (folder / SEARCH_FILE).exists():
        return []
    search, _ = read_folder(folder)
    by_id = {each.id: each for each in search.members}
    return [by_id[name] for name in names if name in by_id]


def _peer(name: str, sql: tuple[str, ...], settings: dict[str, str]) -> Candidate:
    return Candidate(
        id=name, layer="design", kind=name, title=name, reason="", statements=(), sql=sql, settings=settings
    )


def _space(
    planned: PlannedTune,
    peers: Peers,
    result: TuneResult,
    chosen: Sequence[Candidate],
    most_bytes: int | None,
    progress: Progress,
) -> Space:
    """Ask postgres-mcp, build everything once on a copy, and cut the lists.

    The peer's to the space that everybody may have, or else to that of tune's; tune's to that of the peer's.
    """
    spec = planned.spec
    with_hypopg = spec.model_copy(update={"settings": {**spec.settings, **peers.settings(spec.build.major)}})
    workload = [
        {"query": each.sql, "calls": each.weight, "avg_exec_time": 1000 * each.seconds}
        for each in result.symptom.statements
        if not each.writes
    ]
    with TrialCopy(with_hypopg, cache="as-is", statement_timeout_s=3600, on_stage=progress.stage) as copy:
        empty = index_bytes(copy)
        sizes = {}
        for each in chosen:
            before = index_bytes(copy)
            copy.push(each)
            sizes[each.id] = index_bytes(copy) - before
        tune_bytes = index_bytes(copy) - empty
        copy.align(())
        progress.stage("asking postgres-mcp")
        # In whole megabytes, as it is asked: what is over is the peer's.
        allowed_bytes = most_bytes or -(-tune_bytes // MEGABYTE) * MEGABYTE
        advised = advised_indexes(peers, copy, workload, max(allowed_bytes, 1), ADVISOR_S)
        built, kept, taken = [], [], 0
        for each_advised in advised:
            before = index_bytes(copy)
            copy.apply([each_advised.sql])
            real = replace(each_advised, bytes=index_bytes(copy) - before)
            built.append(real)
            if taken + real.bytes <= allowed_bytes:
                kept.append(real)
                taken += real.bytes
    left, cut = taken, []
    for each in chosen:
        if sizes[each.id] <= max(left, 0):
            cut.append(each)
            left -= max(sizes[each.id], 0)
    return Space(tune_bytes, taken, tuple(built), tuple(kept), tuple(cut))


def _megabytes(size: int) -> str:
    return f"{size / (1 << 20):.1f} MB"


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--scale", type=float, default=1.0, help="TPC-H's scale factor")
    add("--seed", type=int, default=1, help="of the parameters and of the trials' order")
    add("--sets", type=int, default=1, help="sets of parameters for each query")
    add("--max-time", type=duration, default=1800.0, metavar="TIME", help="the time that tune has")
    add("--blocks", type=int, default=8, help="blocks of the comparison")
    add("--limit", type=duration, default=120.0, metavar="TIME", help="a trial stops a statement after that")
    add("--pg", default="apt:18", help="the build")
    add("--memory", help="cap on the servers' memory, for which pgtune's formula is asked as well")
    add("--set", action="append", default=[], dest="settings", help="a setting of the data as they are")
    add("--max-space", help="everybody may take so much of the disk, as 100MB (default: as much as tune)")
    add("--cache", default=CACHE_DEFAULT, help="the state of every arm's caches, as for tune")
    add("--leave-out", default="", help="arms that are not measured, with commas between")
    add("--out", type=Path, help="keep data and results here")
    add("--unproven", action="store_true", help="only search: what it chose is not proven before")
    add("--fetch", action="store_true", help="install what is needed and end")
    add("--quiet", action="store_true")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
