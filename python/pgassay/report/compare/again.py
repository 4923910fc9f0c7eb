"""The last section: where everything lies, how to repeat it, and how to cite it."""

from pgassay.report.compare import summary
from pgassay.report.compare.material import Material
from pgassay.report.section import EVERYWHERE, HTML, MARKDOWN, QUIET, Code, Paragraph, Section


def section(material: Material) -> Section:
    """The folder, the command, the citation."""
    return Section(
        "Again, and how to cite it",
        "again",
        (
            Code(material.result.folder, label="Folder", where=EVERYWHERE - MARKDOWN),
            Paragraph("'pgassay report' with that folder makes this page again.", where=HTML),
            Code(summary.reproduce_command(material.stored), label="Again"),
            Code(summary.citation(material.stored), label="To cite it", where=HTML),
            Paragraph(
                "The last word is a fingerprint of the plan and of every recorded trial: it changes when any "
                "of them does.",
                QUIET,
                where=HTML,
            ),
        ),
        link="Again",
        titled=HTML,
    )
