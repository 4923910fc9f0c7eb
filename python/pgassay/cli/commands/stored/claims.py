"""`pgassay claims`: what was published, judged by a stored experiment; needs no server."""

import argparse

from pgassay.cli import options
from pgassay.cli.output import print_result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from pgassay.model.beside.claims import Claim, ClaimsResult, JudgedClaim


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "claims",
        help="say which published claims of an experiment's file were reproduced here",
        description="Lists the claims that an experiment's file has, or, with that experiment's results, "
        "judges each: reproduced, of another size, refuted, undecided, or out of reach here.",
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    parser.add_argument(
        "file", type=options.folder, metavar="FILE.toml", help="an experiment's file with [[claim]] tables"
    )
    parser.add_argument(
        "folder",
        type=options.folder,
        metavar="FOLDER",
        nargs="?",
        help="the results of 'pgassay run FILE.toml'",
    )
    options.add_formats(parser, "the claims")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read the claims, judge them where there is an experiment, print."""
    from pgassay.report import claims

    print_result(_result(arguments.file, arguments.folder), claims, arguments)
    return 0


def _result(file: "Path", folder: "Path | None") -> "ClaimsResult":
    from pgassay.analysis.verdicts.claims import judge
    from pgassay.analysis.verdicts.compare import analyse
    from pgassay.experiment.planning.claims import read_claims
    from pgassay.model.beside.claims import ClaimsResult
    from pgassay.record.experiment import load

    claims = read_claims(file)
    if folder is None:
        listed = tuple(_listed(file, claim) for claim in claims)
        return ClaimsResult(file=str(file), folder="", family="", claims=listed)
    stored = load(folder)
    result = analyse(stored)
    judged = tuple(judge(claim, result, stored.experiment) for claim in claims)
    return ClaimsResult(file=str(file), folder=str(folder), family=result.family, claims=judged)


def _listed(file: "Path", claim: "Claim") -> "JudgedClaim":
    """A claim that nothing has judged yet: `why` is what it needs."""
    from pgassay.model.beside.claims import JudgedClaim

    needs = claim.needs
    named = [f"{needs.cores} processors"] if needs.cores is not None else []
    named += [f"{needs.memory_gb:g} GB of memory"] if needs.memory_gb is not None else []
    named += [needs.elsewhere] if needs.elsewhere else []
    return JudgedClaim(
        id=claim.id,
        text=claim.text,
        source=claim.source,
        published=claim.published,
        verdict=None,
        here=None,
        interval=None,
        why=", ".join(named),
        command=f"pgassay run {file}",
    )
