"""What a machine resolves, by its equal arms."""

import math
from functools import partial

from pgassay.model.calibration import CalibrationResult, EqualArms, LedgerResult
from pgassay.report import text
from pgassay.report.page import Page
from pgassay.report.section import QUIET, STRONG, TERMINAL, Code, Paragraph, Section, bullets, plain_table

_COMPONENTS = (
    ("within_trial", "within a trial", "successive seconds"),
    ("between_trials", "between trials", "of one block"),
    ("between_blocks", "between blocks", "slow changes; blocks cancel them"),
)

_LEVELS = {
    "copy": "loads of the data",
    "restart": "starts of the server",
    "measurement": "measurements within a start",
}


def page_of(result: CalibrationResult) -> Page:
    """The sentences, where the noise comes from, what can be resolved, the equal arms, the ledger."""
    title = f"What this machine can detect with {result.workload}"
    return Page(title, result, partial(_sections, result), is_wrapped=False)


def _sections(result: CalibrationResult) -> list[Section]:
    first, *others = result.sentences or ("",)
    sentences = [Paragraph(first, STRONG), *(Paragraph(line) for line in others)]
    return [
        Section("", "verdict", tuple(sentences)),
        Section("", "facts", tuple(Paragraph(line, QUIET) for line in _facts(result))),
        *(
            Section(heading, f"table-{number}", (plain_table(heads, rows),))
            for number, (heading, heads, rows) in enumerate(_tables(result), start=1)
        ),
        Section("", "checks", (bullets(_checks(result)),)),
        Section("Warnings", "warnings", (bullets(result.warnings),) if result.warnings else ()),
        Section("", "folder", (Code(result.folder, label="Folder", where=TERMINAL),)),
    ]


def _facts(result: CalibrationResult) -> list[str]:
    cache = f", cache {result.cache}" if result.cache else ""
    lines = [
        f"Workload {text.clean(result.workload)}{cache}: "
        f"{text.plural(result.blocks, 'complete block')} of equal arms, "
        f"{text.plural(result.trials, 'trial')}."
    ]
    if result.trial_s is not None and result.block_s is not None:
        lines.append(
            f"A trial takes {text.seconds(result.trial_s)} with its preparation, a block of a comparison "
            f"of two levels {text.seconds(result.block_s)}."
        )
    return lines


Table = tuple[str, list[str], list[list[str]]]


def _tables(result: CalibrationResult) -> list[Table]:
    made = (_noise(result), _levels(result), _covariates(result), _resolves(result))
    return [table for table in made if table[2]]


def _noise(result: CalibrationResult) -> Table:
    rows: list[list[str]] = []
    made = result.noise
    if made is not None:
        for name, words, meaning in _COMPONENTS:
            value: float | None = getattr(made, name)
            spread = "n/a" if value is None else text.percent_rounded(value)
            share = "" if value is None else f"{text.percent_fixed(made.shares[name])}"
            rows.append([f"{words} ({meaning})", spread, share])
        rows.append(["a trial compared with the others of its block", text.percent_rounded(made.trial), ""])
        rows.append(["the ratio of two trials of a block", text.percent_rounded(made.paired), ""])
    return "Where the noise comes from (standard deviation)", ["noise", "spread", "share"], rows


def _levels(result: CalibrationResult) -> Table:
    rows = []
    for level in result.levels:
        interval = "" if level.interval is None else _span(level.interval)
        cost = "" if level.cost_s is None else text.seconds(level.cost_s)
        count = "" if level.repetitions is None else str(level.repetitions)
        spread = "not known" if level.spread is None else text.percent_rounded(level.spread)
        rows.append([_LEVELS[level.level], spread, interval, cost, count])
    heads = ["level", "spread", "95 % interval", "one more takes", "take"]
    return "Noise added by each level of repetition (standard deviation)", heads, rows


def _covariates(result: CalibrationResult) -> Table:
    fits = result.modes.covariates if result.modes is not None else ()
    rows = [
        [fit.name, text.percent_fixed(max(0.0, fit.explained)), text.percent_rounded(fit.spread)]
        for fit in fits
    ]
    return (
        "Variance explained by readings before a trial",
        ["covariate", "of the variance", "spread left"],
        rows,
    )


def _span(ends: tuple[float, float]) -> str:
    return f"{text.percent_rounded(ends[0])} to {text.percent_rounded(ends[1])}"


def _resolves(result: CalibrationResult) -> Table:
    rows = [
        [str(row.minutes), str(row.blocks), _percent(row.effect), _percent(row.margin)]
        for row in result.resolves
    ]
    heading = "Smallest difference found by a comparison of two levels, at 80 % power"
    return heading, ["minutes", "blocks", "effect found from", "equivalence within"], rows


def _percent(value: float | None) -> str:
    return "nothing yet" if value is None else f"±{text.percent_rounded(value)}"


def _checks(result: CalibrationResult) -> list[str]:
    lines = []
    drift, steal = result.drift, result.steal
    if drift is not None:
        low, high = (_signed(end) for end in drift.interval)
        lines.append(
            f"Drift: {_signed(drift.change)} of speed in {text.duration_rounded(drift.hours * 3600)} "
            f"(95 % interval {low} to {high})."
        )
    if steal is not None:
        lines.append(
            f"Steal: {text.percent_fixed(steal.mean, 1)} of a processor on average, "
            f"at most {text.percent_fixed(steal.highest, 1)} in a trial."
        )
    copies = result.copies
    if copies is not None and copies.evidence is not None:
        lines.append(
            f"Evidence that the {copies.copies} copies of the data differ: {_evidence(copies.evidence)} "
            "(counts from 20 up)."
        )
    lines += [_equal(arm, result.margin) for arm in result.equal_arms]
    lines.append(f"The twin's evidence in this run: {_evidence(result.twin_evidence)} (counts from 100 up).")
    if result.ledger is not None:
        lines.append(_ledger(result.ledger))
    return lines


def _signed(fraction: float) -> str:
    if not math.isfinite(fraction):
        return "unbounded"
    return f"{'+' if fraction >= 0 else '-'}{text.percent_rounded(abs(fraction))}"


def _equal(arm: EqualArms, margin: float) -> str:
    name = text.clean(arm.name)
    if arm.ratio is None:
        return f"Equal arms: {name} can't be compared yet."
    figures = f"{text.ratio(arm.ratio)} (interval {text.interval_or_why(arm.interval, arm.ratio)})"
    if arm.verdict == "inconclusive":
        return f"Equal arms: {name} {figures}: not yet shown equivalent within ±{text.percent(margin)}."
    if arm.verdict == "equivalent":
        return f"Equal arms: {name} {figures}: equivalent within ±{text.percent(margin)}, as expected."
    return (
        f"Equal arms: {name} {figures} was called {arm.verdict}, which is wrong: a 1 in 20 "
        "chance at the usual error rate, or a bias of this machine; calibrate again."
    )


def _ledger(ledger: LedgerResult) -> str:
    so_far = (
        f"Ledger: evidence {_evidence(ledger.evidence)} over "
        f"{text.plural(ledger.experiments, 'experiment')} on this machine"
    )
    if ledger.alarm:
        kinds = " and ".join(text.clean(kind) for kind in ledger.alarm_kinds) or "copy"
        since = f" since {text.clean(ledger.alarm_since)}" if ledger.alarm_since else ""
        return (
            f"{so_far}: ALARM{since}, it exceeded 1000, so this machine does not treat equal trials alike "
            f"({kinds}); the alarm ends when later experiments give 20 to 1 evidence against it."
        )
    return f"{so_far}, no alarm (the threshold is 1000)."


def _evidence(value: float) -> str:
    return text.figure(value)
