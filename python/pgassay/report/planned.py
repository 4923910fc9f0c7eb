"""A plan that was not run, as lines for a person or one document for scripts; pure."""

from pgassay.model.result import Planned, PlannedCell
from pgassay.report.page import json_text
from pgassay.report.text import ascii_only, clean, duration
from pgassay.words import percent_rounded, plural

_FROM = {
    "earlier experiment": "as in an earlier experiment of its kind on this machine",
    "length of the load": "as long as its load lasts, and some seconds around it",
}


def render(planned: Planned, *, unicode: bool = True) -> str:
    """The size of the experiment, what it takes, and what each cell can decide in the time given."""
    lines = [clean(planned.title), ""]
    cells, arms = len(planned.cells), sum(1 + len(cell.arms) for cell in planned.cells)
    lines.append(
        f"{plural(arms, 'arm')} in {cells} {'stratum' if cells == 1 else 'strata'}; a block of each takes "
        f"{plural(planned.trials_per_round, 'trial')}, the twins' among them."
    )
    lines += _time_lines(planned)
    lines += ["", *(_cell_line(cell, planned) for cell in planned.cells)]
    lines += [f"Skipped: {clean(sentence)}" for sentence in planned.skipped]
    lines += [f"Warning: {clean(sentence)}" for sentence in planned.warnings]
    lines += ["", "Nothing was measured: leave --plan out to run it."]
    text = "\n".join(lines) + "\n"
    return text if unicode else ascii_only(text)


def render_json(planned: Planned) -> str:
    """One JSON document with a newline at its end; schema in schemas/planned.schema.json."""
    return json_text(planned)


def _time_lines(planned: Planned) -> list[str]:
    if planned.trial_s is None or planned.least_s is None or planned.wanted_s is None:
        return [
            "How long a trial takes is not known, as no experiment of its kind has run here: one trial is "
            "rehearsed when it is run, and the time is said then."
        ]
    spread = percent_rounded(planned.spread)
    known = "as it was here before" if planned.spread_known else "as on shared machines"
    least = f"The fewest blocks that can give a verdict ({planned.blocks_least})"
    margin = f"to resolve {percent_rounded(planned.margin)} in all cells"
    return [
        f"A trial takes about {duration(planned.trial_s)}, {_FROM[planned.trial_s_from]}.",
        f"{least} take {duration(planned.least_s)}; {margin}, at a spread of single trials of {spread} "
        f"({known}), takes {plural(planned.blocks_wanted, 'block')}, {duration(planned.wanted_s)}.",
    ]


def _cell_line(cell: PlannedCell, planned: Planned) -> str:
    name = clean(cell.stratum) or "all arms"
    control = cell.control.removesuffix(cell.stratum).strip()
    against = f"{plural(len(cell.arms), 'arm')} against {clean(control)}"
    if cell.blocks is None:
        return f"- {name}: {against}"
    given = f"{plural(cell.blocks, 'block')} in {duration(planned.time_max_s)}"
    if cell.resolves is None:
        return f"- {name}: {against}; {given}: too few for a verdict"
    verdict = "" if cell.is_decidable else f", not the margin of {percent_rounded(planned.margin)}"
    return f"- {name}: {against}; {given} resolve {percent_rounded(cell.resolves)}{verdict}"
