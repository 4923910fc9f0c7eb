"""`pgassay explain`: plans that EXPLAIN or auto_explain printed, read; needs no server."""

import argparse
import sys

from pgassay.cli import options
from pgassay.cli.output import publish

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from pgassay.model.plans.explained_plan import ExplainedPlan

BYTES_MAX = 256 * 1024**2


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "explain",
        help="read a plan: each node's own time, wrong estimates, spills; or compare two plans",
        description="Reads what EXPLAIN printed (JSON or text, PostgreSQL 14 to 19) or auto_explain's log: "
        "each node's own time, wrong estimates, what spilled to disk. With two files: what changed "
        "from the first (A) to the second (B). With a results folder: the plans that the experiment, "
        "or tune's proof, kept for its statements.",
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    parser.add_argument(
        "first",
        type=options.folder,
        metavar="FILE",
        help="EXPLAIN's output, a log, or an experiment's folder; - for standard input",
    )
    parser.add_argument(
        "second", type=options.folder, metavar="FILE", nargs="?", help="a second plan, to compare with"
    )
    parser.add_argument(
        "--plan",
        type=_numbers,
        metavar="N",
        help="the plan to show if there are several: a number; all; or two to compare: 1,2",
    )
    options.add_formats(parser, "the plans")
    options.add_redact(parser)
    parser.set_defaults(run=run)


def _numbers(text: str) -> tuple[int, ...]:
    """The numbers of plans, from 1; () for all."""
    if text.strip() == "all":
        return ()
    parts = text.split(",")
    if len(parts) > 2 or not all(part.strip().isdigit() and 0 < int(part) < 10**9 for part in parts):
        raise argparse.ArgumentTypeError(f"'{text}' is not the number of a plan: write 3, all, or two as 1,2")
    return tuple(int(part) for part in parts)


def run(arguments: argparse.Namespace) -> int:
    """Read, choose, print, and write the page that was asked for."""
    from pgassay.model.plans.explained_plan import ExplainResult
    from pgassay.plans.plan_comparison import beside
    from pgassay.report.explain.explain_page import list_page, page_of

    plans, is_chosen = _chosen(arguments)
    pair = len(plans) == 2 and (arguments.second is not None or len(arguments.plan or ()) == 2)
    result = ExplainResult(plans=tuple(plans), beside=beside(plans[0], plans[1]) if pair else None)
    publish(page_of(result) if is_chosen else list_page(result, str(arguments.first)), arguments)
    return 0


def _chosen(arguments: argparse.Namespace) -> "tuple[list[ExplainedPlan], bool]":
    """The plans that were asked for, and whether any were: a log of several is listed first."""
    from pgassay.errors import UsageError

    wanted: tuple[int, ...] | None = arguments.plan
    if str(arguments.first) == "-" == str(arguments.second):
        raise UsageError("standard input can only be read once: give one of the two plans as a file")
    first = _plans_of(arguments.first, redact=arguments.redact)
    if arguments.second is None:
        if wanted is None:
            return first, len(first) == 1
        return [_one(first, number, str(arguments.first)) for number in wanted] or first, True
    second = _plans_of(arguments.second, redact=arguments.redact)
    numbers = (wanted[0], wanted[-1]) if wanted else (None, None)
    return [
        _one(plans, number, str(source))
        for plans, number, source in zip(
            (first, second), numbers, (arguments.first, arguments.second), strict=True
        )
    ], True


def _one(plans: "list[ExplainedPlan]", number: int | None, source: str) -> "ExplainedPlan":
    from pgassay.errors import UsageError

    if number is None:
        if len(plans) > 1:
            raise UsageError(
                f"{source} has {len(plans):,} plans: choose one from each file with --plan, as 1,2"
            )
        return plans[0]
    if number > len(plans):
        raise UsageError(f"--plan {number}: {source} has {len(plans):,}")
    return plans[number - 1]


def _plans_of(source: "Path", *, redact: bool) -> "list[ExplainedPlan]":
    from pgassay.plans.explain_plan import read_plans
    from pgassay.report.text import clean

    if source.is_dir():
        return _stored_plans(source, redact=redact)
    name = "standard input" if str(source) == "-" else clean(str(source))
    return read_plans(_read(source), name, redact=redact)


def _stored_plans(folder: "Path", *, redact: bool) -> "list[ExplainedPlan]":
    """The plans of an experiment's statements in each of its arms; of a tune, those of its proof."""
    from pgassay.analysis.redaction.redacted_experiment import redacted
    from pgassay.plans.experiment_plans import explained_plans
    from pgassay.record import layout
    from pgassay.record.experiment import load

    proof = folder / layout.PROOF_FOLDER
    if (folder / layout.TUNE_FILE).is_file() and (proof / layout.EXPERIMENT_FILE).is_file():
        folder = proof
    stored = load(folder)
    return explained_plans(redacted(stored) if redact else stored)


def _read(source: "Path") -> str:
    """The text, with signs that are no UTF-8 replaced; raises UsageError for a file that can't be read."""
    from pgassay.errors import UsageError
    from pgassay.report.text import clean

    if str(source) == "-":
        content = sys.stdin.buffer.read(BYTES_MAX + 1)
    else:
        try:
            with source.open("rb") as file:
                content = file.read(BYTES_MAX + 1)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise UsageError(
                f"can't read {clean(str(source))} ({reason}): name a file with a plan, or -"
            ) from error
    if len(content) > BYTES_MAX:
        raise UsageError(
            f"{clean(str(source))} has more than {BYTES_MAX // 1024**2} MB: give only a part of it"
        )
    coding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    return content.decode(coding, "replace")
