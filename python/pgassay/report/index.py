"""One page over all results of a folder: what was asked, what was found, where the report lies."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from pgassay.model.result import CompareResult
from pgassay.record.experiment import StoredExperiment
from pgassay.report.compare import summary, verdicts
from pgassay.report.html.page import template
from pgassay.report.text import clean
from pgassay.words import plural

_TEMPLATE = "index.html.jinja"


@dataclass(frozen=True)
class IndexRow:
    """One result; `link` is the report's path from the page, '' where there is none.

    `amount`: what it rests on, as '8 blocks'. `error` says why it can't be read.
    """

    folder: str
    link: str
    started: str = ""
    title: str = ""
    verdict: tuple[str, ...] = ()
    tone: str = "inconclusive"
    amount: str = ""
    failures: int = 0
    ended: str = ""
    machine: str = ""
    builds: tuple[str, ...] = ()
    warnings: int = 0
    error: str = ""

    @property
    def address(self) -> str:
        """The link as an address: a relative one, whatever the folder's name holds."""
        return f"./{quote(self.link)}"


def row_of(result: CompareResult, stored: StoredExperiment, *, folder: str, link: str) -> IndexRow:
    """The row of an experiment that was read and analysed."""
    experiment = stored.experiment
    machine = experiment.environment.machine
    known = (machine.hostname, machine.cpu_model)
    lines = verdicts.verdict_lines(result)
    return IndexRow(
        folder=folder,
        link=link,
        started=experiment.created_at,
        title=clean(experiment.title) or clean(result.workload),
        verdict=(verdicts.tally(result),) if len(result.arms) > _ARMS_MAX else tuple(lines),
        tone=_tone(result),
        amount=plural(result.blocks, "block"),
        failures=result.failures,
        ended=summary.ended(result),
        machine=", ".join(clean(str(fact)) for fact in known if fact),
        builds=tuple(
            dict.fromkeys(
                f"PostgreSQL {arm.spec.build.version} ({arm.spec.build.origin})" for arm in experiment.arms
            )
        ),
        warnings=len(result.warnings) + len(result.confounds),
    )


# With more arms than this the verdicts are counted.
_ARMS_MAX = 5


def _tone(result: CompareResult) -> str:
    """The colour of the row's edge: the word that all comparisons share, else 'mixed'."""
    words = {arm.verdict for arm in result.arms if arm.verdict != "control" and not arm.withheld}
    return words.pop() if len(words) == 1 else "mixed"


def render(rows: Sequence[IndexRow], *, title: str) -> str:
    """The page as text, newest experiment first; it runs no script and refers to the reports alone."""
    ordered = sorted(rows, key=lambda row: (row.started, row.folder), reverse=True)
    return template(_TEMPLATE, rows=ordered, title=clean(title), theme_rules="")
