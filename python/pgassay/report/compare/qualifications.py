"""What a reader must know before believing a result: defaults compared, alarms, confounds, warnings."""

from pgassay.model.result import CompareResult
from pgassay.report import text
from pgassay.report.compare.material import Material
from pgassay.report.section import ALARM, HTML, WARNING, Block, Fold, Paragraph, Section, bullets, plain_table

_ANCHOR = "qualifications"


def alarm(material: Material) -> Section:
    """At the head of the page: failures, a twin that differs, and how much is said at its end."""
    result = material.result
    blocks: list[Block] = []
    if result.failures:
        verb = f"{text.plural(result.failures, 'trial')} failed"
        blocks.append(Paragraph(f"{verb}. The reasons are in the table of trials.", ALARM, link="trials"))
    if result.twin.ok is False:
        blocks.append(
            Paragraph(
                "The twin differs from the control although both have the same settings: verdicts that its "
                "difference could explain are withheld.",
                ALARM,
            )
        )
    return Section("", "alarm", tuple(blocks))


def notice(material: Material) -> Section:
    """How many qualifications there are, with the way to them."""
    found = counted(material.result)
    blocks = (Paragraph(f"{found}: what qualifies this", link=_ANCHOR),) if found else ()
    return Section("", "notice", blocks)


def counted(result: CompareResult) -> str:
    """How many qualifications there are of each kind; '' without any."""
    counts = [
        text.plural(len(result.confounds), "confound") if result.confounds else "",
        text.plural(len(result.warnings), "warning") if result.warnings else "",
        f"{text.plural(len(result.skipped), 'arm')} left out" if result.skipped else "",
    ]
    return text.join([each for each in counts if each])


def compared(material: Material) -> Section:
    """The defaults that are compared with the versions: in sentences, and on a page each with its values."""
    result = material.result
    blocks: list[Block] = []
    if result.compared:
        blocks.append(bullets(result.compared, title="Part of the comparison"))
    for pair in result.compared_defaults:
        rows = [(name, *values) for name, values in pair.settings.items()]
        title = f"{text.plural(len(rows), 'default')} that differ between {pair.builds}"
        heads = ("", *pair.builds.split(" and ", 1))
        blocks.append(Fold(title, (plain_table(heads, rows, names=3),), where=HTML))
    return Section("Defaults that differ", "baseline", tuple(blocks), titled=HTML)


def section(material: Material) -> Section:
    """All of them in full."""
    result = material.result
    lists = (
        ("Confounds", result.confounds, WARNING),
        ("Warnings", result.warning_sentences, WARNING),
        ("Left out", result.skipped, ""),
    )
    return Section(
        "Caveats",
        _ANCHOR,
        tuple(bullets(lines, title=title, tone=tone) for title, lines, tone in lists if lines),
        titled=HTML,
    )
