"""Trials too short for the looks at the server's processes to tell what limits it, and by which share.

A share p of n looks has a standard error of √(p (1 − p) / n): a quarter of 50 looks is known to ± 12 % of
the time at 95 % confidence.
"""

from statistics import median

from pgassay.analysis.accounts.arm_accounts import trial_accounts
from pgassay.analysis.accounts.threads import BACKEND
from pgassay.record.experiment import StoredExperiment
from pgassay.words import plural, seconds

LOOKS_MIN = 50


def short_trial_warnings(stored: StoredExperiment) -> tuple[str, ...]:
    """One sentence where the trials of an arm are so short; it names the arm with the fewest looks."""
    fewest: tuple[float, float, str] | None = None
    for arm in stored.experiment.arms:
        of_arm = [
            each for each in stored.trials if each.record.arm_id == arm.id and each.record.status == "ok"
        ]
        accounts = [each for trial in of_arm for each in trial_accounts(trial) if each.process == BACKEND]
        if arm.role == "twin" or not accounts:
            continue
        looks = median(each.samples for each in accounts)
        length_s = median(each.wall_s / max(each.threads, 1e-9) for each in accounts)
        if looks < LOOKS_MIN and (fewest is None or looks < fewest[0]):
            fewest = looks, length_s, arm.name
    if fewest is None:
        return ()
    looks, length_s, name = fewest
    return (
        f"Trials are too short to tell what limits the server, or by which share: {name} was measured for "
        f"{seconds(length_s)}, with {plural(round(looks), 'look')} at its processes, where {LOOKS_MIN} are "
        "the least: measure longer (duration=, executions=), or more data (--scale).",
    )
