"""`pgassay claims`: what was published, judged by stored experiments, or by those that `run` runs."""

import argparse
import shlex
import sys

from pgassay.cli import options
from pgassay.cli.output import publish

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from pgassay.experiment.claims.claim_files import ClaimedFile
    from pgassay.model.further_results.claims import Claim, ClaimsResult, JudgedClaim

RUN = "run"
TIME_DEFAULT_S = 1800.0
OUT_DEFAULT = "pgassay-claims"
JSON_FILE, PAGE_FILE = "claims.json", "claims.md"
EXIT_INTERRUPTED = 130
EPILOG = """examples:
  pgassay claims all
  pgassay claims examples/sort-memory.toml
  pgassay claims examples/sort-memory.toml results/sort
  pgassay claims run all --max-time 30m
  pgassay claims run mine.toml --max-time 10m --out mine-claims --markdown
"""


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "claims",
        help="list published claims, and say which were reproduced here",
        description="Lists the claims in experiment files, or, with a file's results, judges each claim: "
        "reproduced, same direction with another size, no difference here, refuted, undecided, or can't be "
        "tried here. 'run' runs the experiments whose claims fit the time, and continues where it stopped.",
        epilog=EPILOG,
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    parser.add_argument(
        "files",
        type=options.folder,
        metavar="FILE.toml",
        nargs="*",
        help="experiment files with [[claim]] tables, or all: the examples that have claims (default); "
        "after one file, a folder with its results; after 'run', the files to run",
    )
    run_options = parser.add_argument_group("of 'run'")
    options.add_options(
        run_options,
        "claims",
        helps={
            "--max-time": "time for all experiments together",
            "--out": "the results folder, new or from an earlier run",
        },
        defaults={"--max-time": "30m", "--out": OUT_DEFAULT},
    )
    options.add_quiet_and_no_wait(run_options)
    options.add_formats(parser, "the claims")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """List the claims, judge them by what is stored, or run their experiments."""
    from pathlib import Path

    from pgassay.experiment.claims.claim_files import ALL, claimed_files
    from pgassay.report.claims import page_of

    words = list(arguments.files)
    if [str(word) for word in words[:1]] == [RUN]:
        return _run(arguments, claimed_files(words[1:] or [Path(ALL)]))
    running = ("--max-time", "--out", "--seed", "--quiet", "--no-wait")
    options.refuse_without(arguments, running, "'claims run'")
    folder = words.pop() if len(words) > 1 and words[-1].is_dir() else None
    files = claimed_files(words or [Path(ALL)])
    below = _how_to_judge(files, shlex.join(map(str, words)) or ALL) if folder is None else ()
    publish(page_of(_result(files, folder)), arguments, below=below)
    return 0


def _how_to_judge(files: "tuple[ClaimedFile, ...]", typed: str) -> tuple[str, ...]:
    """What to type for verdicts: on the results of an earlier run, where its folder has some, or to run."""
    from pathlib import Path

    from pgassay.record import layout

    folder = Path(OUT_DEFAULT)
    if any((folder / file.name / layout.EXPERIMENT_FILE).is_file() for file in files):
        return ("", f"{folder} has results: 'pgassay claims {typed} {folder}' shows the verdicts")
    return ("", f"'pgassay claims run {typed}' tries them on this machine")


def _run(arguments: argparse.Namespace, files: "tuple[ClaimedFile, ...]") -> int:

    from pgassay.cli.outcome import progress_of
    from pgassay.errors import MeasurementError
    from pgassay.experiment.claims.run_claims import ClaimsOptions, run_claims
    from pgassay.record.documents import write_file
    from pgassay.report.claims import page_of

    chosen = ClaimsOptions(
        files=files,
        time_max_s=arguments.max_time_s,
        out=arguments.out,
        seed=arguments.seed,
    )
    with progress_of(arguments) as progress:
        result, is_interrupted = run_claims(chosen, progress, wait=not arguments.no_wait)
    page = page_of(result)
    try:
        write_file(chosen.out / JSON_FILE, page.json().encode())
        write_file(chosen.out / PAGE_FILE, page.markdown().encode())
    except MeasurementError as error:
        # What was measured is told, whatever can be kept of it.
        publish(page, arguments)
        why = error.__cause__.strerror if isinstance(error.__cause__, OSError) else error
        again = shlex.join(("pgassay", "claims", *(str(file.path) for file in files), str(chosen.out)))
        raise MeasurementError(
            f"can't write the page into {chosen.out} ({why}): free some space or make it writable; "
            f"{again} shows it again"
        ) from error
    shown = f"page: {chosen.out / PAGE_FILE}"
    if name := next((file.name for file in files if (chosen.out / file.name).is_dir()), ""):
        shown += f"; 'pgassay report {shlex.quote(str(chosen.out / name))}' shows the experiment of a file"
    publish(page, arguments, below=("", shown))
    if is_interrupted:
        print("pgassay: interrupted; nothing is left running: run it again to continue", file=sys.stderr)
        return EXIT_INTERRUPTED
    return 0


def _result(files: "tuple[ClaimedFile, ...]", folder: "Path | None") -> "ClaimsResult":
    """The claims as they are listed, or as the records of `folder` judge them."""
    from pgassay.experiment.claims.claim_status import check_arms
    from pgassay.experiment.claims.run_claims import ClaimsOptions, stored_claims
    from pgassay.model.further_results.claims import ClaimedExperiment, ClaimsResult
    from pgassay.record import layout

    if folder is None:
        notes = {str(file.path): check_arms(file) for file in files}
        listed = tuple(_listed(file.path, claim) for file in files for claim in file.claims)
        name = str(files[0].path) if len(files) == 1 else ""
        unread = tuple(ClaimedExperiment(file=path, note=note) for path, note in notes.items() if note)
        return ClaimsResult(file=name, folder="", family="", claims=listed, experiments=unread)
    is_of_a_run = (folder / JSON_FILE).is_file() or any(
        (folder / file.name / layout.EXPERIMENT_FILE).is_file() for file in files
    )
    if (folder / layout.EXPERIMENT_FILE).is_file() or not is_of_a_run:
        return _judged_by(files, folder)
    return stored_claims(ClaimsOptions(files=files, time_max_s=TIME_DEFAULT_S, out=folder))


def _judged_by(files: "tuple[ClaimedFile, ...]", folder: "Path") -> "ClaimsResult":
    """The claims of one file by the results of 'pgassay run FILE.toml'."""
    from pgassay.analysis.claims.judge_claims import caveats_of, judge
    from pgassay.analysis.verdicts.compare import analyse
    from pgassay.errors import UsageError
    from pgassay.model.further_results.claims import ClaimedExperiment, ClaimsResult
    from pgassay.record.experiment import load

    if len(files) > 1:
        raise UsageError(f"{folder} has the results of one experiment: name its file only")
    stored = load(folder)
    result = analyse(stored)
    file = str(files[0].path)
    judged = tuple(each.model_copy(update={"file": file}) for each in judge(files[0].claims, result, stored))
    measured = ClaimedExperiment(
        file=file,
        folder=str(folder),
        blocks=result.blocks,
        seconds_used=stored.seconds_used,
        cache=stored.experiment.protocol.cache,
        caveats=caveats_of(result),
    )
    return ClaimsResult(
        file=file, folder=str(folder), family=result.family, claims=judged, experiments=(measured,)
    )


def _listed(file: "Path", claim: "Claim") -> "JudgedClaim":
    """A claim that nothing has judged yet: `why` is what it needs."""
    from pgassay.model.further_results.claims import JudgedClaim

    needs = claim.needs
    named = [f"{needs.cores} processors"] if needs.cores is not None else []
    named += [f"{needs.memory_gb:g} GB of memory"] if needs.memory_gb is not None else []
    named += [needs.elsewhere] if needs.elsewhere else []
    return JudgedClaim.of(claim, ", ".join(named), f"pgassay run {file}", file=str(file))
