"""The section "Toys": which arms are worth playing with."""

from pgassay.report.compare.material import Material
from pgassay.report.section import Paragraph, Section, plain_table


def section(material: Material) -> Section:
    """A sentence, and a row for each arm."""
    rows = [(material.label_at(arm), str(7 * number)) for number, arm in enumerate(material.result.arms, 1)]
    return Section(
        "Toys",
        "toys",
        (
            Paragraph("Every arm has <toys> of its own."),
            plain_table(("arm", "toys"), rows),
        ),
        link="Toys",
    )
