"""Did imitating the volumes take processors that the servers on them lacked?

A volume is imitated on the machine that the server runs on, and a faster one takes more of it: the server
that has it gets less. Beyond a share no difference between two storages can be told from that, so there is
no verdict. Arms on equal storages pay alike; nothing is withheld between them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pgassay.analysis.verdicts.study import Study
from pgassay.analysis.verdicts.verdict import Judgement
from pgassay.model.arm import Arm
from pgassay.model.experiment import Contrast
from pgassay.model.result import DesignWarning
from pgassay.model.storage import IMITATION_CPU_SHARE_MAX
from pgassay.model.trial import TrialRecord
from pgassay.words import percent_rounded

_NOTE = "withheld: imitating the volume of {arm} took {share} of the processors"


@dataclass(frozen=True)
class Imitation:
    """The larger of what imitating took of all processors in a contrast's two arms, and whose it is."""

    share: float
    whose: str

    @property
    def forbids_verdict(self) -> bool:
        """Whether it took more than a verdict between two storages allows."""
        return self.share > IMITATION_CPU_SHARE_MAX


def look_for_imitation(study: Study) -> tuple[Imitation | None, ...]:
    """For each contrast between two storages what imitating them took; None where none is imitated."""
    return tuple(_look(study, contrast) for contrast in study.experiment.contrasts)


def imitation_note(found: Imitation | None) -> str:
    """Why there can be no verdict, '' where there can be one."""
    if found is None or not found.forbids_verdict:
        return ""
    return _NOTE.format(arm=found.whose, share=percent_rounded(found.share))


def withhold_imitated(judgement: Judgement, found: Imitation | None) -> Judgement:
    """The judgement, or none where imitating took too much."""
    note = imitation_note(found)
    if not note or judgement.verdict == "inconclusive":
        return judgement
    return replace(judgement, verdict="inconclusive", meaningful=False, withheld=True, note=note)


def imitation_warnings(study: Study) -> tuple[DesignWarning, ...]:
    """A warning for each contrast that can have no verdict for it; () before the first complete block."""
    if not study.blocks:
        return ()
    warnings = []
    for contrast, found in zip(study.experiment.contrasts, look_for_imitation(study), strict=True):
        if found is None or not found.forbids_verdict:
            continue
        arm = study.arms[contrast.arm_id]
        sentence = (
            f"The verdict on {arm.name} is withheld: imitating the volume of {found.whose} took "
            f"{percent_rounded(found.share)} of the processors (limit "
            f"{percent_rounded(IMITATION_CPU_SHARE_MAX)}), which the server lacked, so its cost can't "
            "be separated from the volume's; use a machine with more processors, or slower volumes."
        )
        warnings.append(DesignWarning(kind="imitation", sentence=sentence, arm=arm.name, stratum=arm.stratum))
    return tuple(warnings)


def _look(study: Study, contrast: Contrast) -> Imitation | None:
    return imitated(study, [study.arms[contrast.arm_id]], [study.arms[contrast.control_id]])


def imitated(study: Study, arms: Sequence[Arm], others: Sequence[Arm]) -> Imitation | None:
    """The largest share over arms that stand against others, pair by pair; None between equal storages."""
    if all(arm.spec.storage == other.spec.storage for arm, other in zip(arms, others, strict=True)):
        return None
    found = [
        Imitation(share, each.name)
        for each in (*arms, *others)
        if (share := _share(study.table.valid.get(each.id, ()))) is not None
    ]
    return max(found, key=lambda each: each.share, default=None)


def _share(records: Iterable[TrialRecord]) -> float | None:
    """The median over the trials of the share that imitating took of all processors; None without any."""
    shares = []
    for record in records:
        volumes = (record.facts.volume, record.facts.wal_volume)
        known = [float(each.cpu_share) for each in volumes if each.cpu_share is not None]
        if known:
            shares.append(sum(known))
    return float(np.median(shares)) if shares else None
