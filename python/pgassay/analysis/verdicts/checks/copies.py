"""What copies of the data qualify: a twin with a copy of its own, and too few copies where arms need theirs.

A copy lies on the disk as chance had it, and where it lies may make it faster or slower than another of the
same data. Two that differ are told apart the more surely the more blocks there are.
"""

from pgassay.analysis.verdicts.study import Study, owns_data
from pgassay.model.experiment import Contrast
from pgassay.model.result import DesignWarning
from pgassay.words import plural

# The factor whose levels are copies: there the difference between them is what is asked for.
_COPY_FACTOR = "copy"


def copy_warnings(study: Study) -> tuple[DesignWarning, ...]:
    """The warnings of a study's copies, one for a stratum or an arm each."""
    return (*_pooled_on_own_copy(study), *_too_few_copies(study))


def _pooled_on_own_copy(study: Study) -> list[DesignWarning]:
    """Of experiments that were planned before a block's trials ran on one copy."""
    found = {}
    for contrast in study.experiment.contrasts:
        if _is_pooled_on_own_copy(study, contrast):
            where = f" at {contrast.stratum}" if contrast.stratum else ""
            sentence = (
                f"The twin{where} ran on its own copy and was pooled with the control: if copies differ, "
                "equal arms may seem to differ and unequal ones equal; if measured again, the trials of a "
                "block run on one copy."
            )
            found[contrast.stratum] = DesignWarning(
                kind="copies",
                stratum=contrast.stratum,
                sentence=sentence,
            )
    return list(found.values())


def _is_pooled_on_own_copy(study: Study, contrast: Contrast) -> bool:
    contract, design = study.experiment.contract, study.experiment.design
    if not contract.pool_twin or contrast.twin_id is None or design.data_copies:
        return False
    arm, control, twin = (
        study.arms[name] for name in (contrast.arm_id, contrast.control_id, contrast.twin_id)
    )
    if control.spec.server is not None or _COPY_FACTOR in arm.levels:
        return False
    return twin.data_copy != control.data_copy


def _too_few_copies(study: Study) -> list[DesignWarning]:
    """Arms with data of their own whose blocks can't have as many fresh copies as a verdict takes."""
    found = []
    each_s_blocks = study.experiment.design.blocks_per_copy
    for index, contrast in enumerate(study.experiment.contrasts):
        if not owns_data(study.experiment, contrast):
            continue
        possible, needed = study.experiment.contract.blocks_max // each_s_blocks, study.rows_min(index)
        if possible < needed:
            arm = study.arms[contrast.arm_id]
            blocks = plural(study.experiment.contract.blocks_max, "block")
            allow = "allows" if study.experiment.contract.blocks_max == 1 else "allow"
            sentence = (
                f"{arm.name} needs its own data, and {blocks} {allow} only {plural(possible, 'set')} of "
                f"fresh copies, {each_s_blocks} for each: a verdict takes at least {needed} "
                f"(--blocks {needed * each_s_blocks})."
            )
            found.append(DesignWarning(kind="copies", arm=arm.name, stratum=arm.stratum, sentence=sentence))
    return found
