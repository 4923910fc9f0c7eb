"""The last section: where everything lies, how to repeat it, and how to cite it."""

import hashlib

from pgassay.record.experiment import StoredExperiment
from pgassay.report.compare.material import Material
from pgassay.report.section import EVERYWHERE, HTML, MARKDOWN, QUIET, Code, Paragraph, Section
from pgassay.report.text import clean, join, plural, shell_word


def section(material: Material) -> Section:
    """The folder, the command, the citation."""
    return Section(
        "Repeat it, and cite it",
        "again",
        (
            Code(material.result.folder, label="Folder", where=EVERYWHERE - MARKDOWN),
            Paragraph("'pgassay report' with that folder writes this page again.", where=HTML),
            Code(reproduce_command(material.stored), label="Again"),
            Code(citation(material.stored), label="To cite it", where=HTML),
            Paragraph(
                "The last word is a fingerprint of the plan and of every recorded trial: it "
                "changes if any of them changes.",
                QUIET,
                where=HTML,
            ),
        ),
        link="Again",
        titled=HTML,
    )


def reproduce_command(stored: StoredExperiment) -> str:
    """The command line that repeats the experiment, quoted for a shell."""
    return " ".join(map(shell_word, stored.experiment.command))


def fingerprint(stored: StoredExperiment) -> str:
    """Twelve hexadecimal digits (of SHA-256) that change with the plan or with any recorded trial."""
    digest = hashlib.sha256(stored.experiment.model_dump_json().encode())
    for trial in stored.trials:
        digest.update(trial.record.model_dump_json().encode())
    return digest.hexdigest()[:12]


def citation(stored: StoredExperiment) -> str:
    """The line by which somebody else can name this experiment, with the fingerprint of its record."""
    experiment = stored.experiment
    builds = dict.fromkeys(
        f"PostgreSQL {arm.spec.build.version} ({arm.spec.build.origin})" for arm in experiment.arms
    )
    cpu = experiment.environment.machine.cpu_model
    # Of a remote server the processor is not known: this machine is only where the client ran.
    is_remote = any(arm.spec.server is not None for arm in experiment.arms)
    where = f" on {cpu}" if cpu and not is_remote else ""
    measured = f"measured {experiment.created_at[:10]} with pgassay {experiment.pgassay_version}"
    record = f"{plural(len(stored.trials), 'trial')}, record {fingerprint(stored)}"
    return clean(f"{experiment.title}: {join(list(builds))}{where}, {measured}, {record}.")
