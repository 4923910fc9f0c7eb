"""Why: what limits each arm, what should be mended, what explains a difference, what changed meanwhile."""

from pgassay.report import text
from pgassay.report.compare.causes import HEADING, cause_rows, difference_sentences
from pgassay.report.compare.changes import change_sentences
from pgassay.report.compare.material import Material
from pgassay.report.section import WARNING, Bullets, Item, Section


def section(material: Material) -> Section:
    """Limits and faults with their figures, then sentences on the differences and the changes in time."""
    result = material.result
    items = [
        Item(
            row.sentence,
            WARNING if row.kind == "fault" else "",
            row.figures,
            marks=(f"{row.kind}: {row.cause}", f"layer: {row.layer}"),
        )
        for row in cause_rows(result)
    ]
    crossovers = [text.clean(sentence) for sentence in result.crossovers]
    found = (*crossovers, *difference_sentences(result), *change_sentences(result))
    items += [Item(sentence) for sentence in found]
    return Section(HEADING, "causes", (Bullets(tuple(items)),) if items else (), link="Why")
