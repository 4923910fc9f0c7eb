"""What differs between an arm and its control beside the levels that are compared.

Where each version runs as it is shipped its defaults are part of what is compared, and no confound.
"""

from collections.abc import Callable

from pgassay.analysis.descriptive.binary_differences import builder_difference
from pgassay.analysis.verdicts.blocks import BlockTable
from pgassay.model.arm import Arm
from pgassay.model.experiment import Experiment
from pgassay.model.result import ComparedDefaults
from pgassay.model.trial import TrialRecord

# Settings that the server computes from others, or that name a place: never a confound of their own.
_DERIVED_SETTINGS = frozenset(
    {
        "application_name",
        "cluster_name",
        "commit_timestamp_buffers",
        "config_file",
        "data_directory",
        "external_pid_file",
        "hba_file",
        "ident_file",
        "io_max_concurrency",
        "num_os_semaphores",
        "port",
        "shared_memory_size",
        "shared_memory_size_in_huge_pages",
        "subtransaction_buffers",
        "transaction_buffers",
        "unix_socket_directories",
        # Other differences between two versions' binaries are a confound of their own.
        "version",
        "wal_buffers",
    }
)


def find_confounds(experiment: Experiment, table: BlockTable) -> tuple[str, ...]:
    """The plan's own confounds, then those seen in the trials: binaries, settings, read-ahead, hosts."""
    arms = {arm.id: arm for arm in experiment.arms}
    found = list(experiment.confounds)
    for contrast in experiment.contrasts:
        arm, control = arms[contrast.arm_id], arms[contrast.control_id]
        builders = builder_difference(arm, control, table)
        if builders:
            found.append(f"the binaries of {arm.name} differ from those of {control.name} in {builders}")
        # Two remote servers' settings were read and compared in full when the experiment was planned.
        is_one_server = arm.spec.server == control.spec.server
        differing = _differing_settings(arm, control, table) if is_one_server else []
        if _are_shipped(experiment, arm, control):
            differing = []
        if differing:
            found.append(
                f"{arm.name} differs from {control.name} in settings not asked for: {', '.join(differing)}"
            )
        if arm.spec.storage == control.spec.storage:
            ahead = [_constant(table.valid[item.id], _read_ahead_kb) for item in (arm, control)]
            if None not in ahead and ahead[0] != ahead[1]:
                found.append(
                    f"the read-ahead of {arm.name} was {ahead[0]} kB, that of {control.name} {ahead[1]} kB"
                )
    found += _machine_changes(table)
    return tuple(dict.fromkeys(found))


def compared_settings(experiment: Experiment, table: BlockTable) -> tuple[str, ...]:
    """What the baseline makes part of the comparison: by the plan, then what the running servers differ in.

    Empty with a baseline that is alike in all arms.
    """
    arms = {arm.id: arm for arm in experiment.arms}
    found = list(experiment.compared)
    planned = {name for pair in compared_defaults(experiment) for name in pair.settings}
    for contrast in experiment.contrasts:
        arm, control = arms[contrast.arm_id], arms[contrast.control_id]
        if not _are_shipped(experiment, arm, control):
            continue
        differing = [text for name, text in _differing(arm, control, table).items() if name not in planned]
        if differing:
            found.append(f"{arm.name} differs from {control.name} on its own: {', '.join(differing)}")
    return tuple(dict.fromkeys(found))


def compared_defaults(experiment: Experiment) -> tuple[ComparedDefaults, ...]:
    """The defaults in which the compared versions differ, where each runs on its own; else ()."""
    if experiment.baseline != "shipped":
        return ()
    return tuple(
        ComparedDefaults(
            builds=builds, settings={name: (mine, others) for name, (mine, others) in found.items()}
        )
        for builds, found in experiment.environment.differing_defaults.items()
    )


def _are_shipped(experiment: Experiment, arm: Arm, control: Arm) -> bool:
    """Whether what two arms differ in comes from their versions, each as it is shipped."""
    builds = arm.spec.build.bin_directory, control.spec.build.bin_directory
    return experiment.baseline == "shipped" and builds[0] != builds[1]


def _differing_settings(arm: Arm, control: Arm, table: BlockTable) -> list[str]:
    return list(_differing(arm, control, table).values())


def _differing(arm: Arm, control: Arm, table: BlockTable) -> dict[str, str]:
    """By name the settings in which the running servers differ and that nobody varied, with both values."""
    differing = {}
    made = {
        "data_checksums": (arm.spec.dataset.checksums, control.spec.dataset.checksums),
        "wal_segment_size": (arm.spec.dataset.wal_segment_mb, control.spec.dataset.wal_segment_mb),
    }
    # What initdb was told is a level, or said by the plan.
    told = {name for name, (mine, others) in made.items() if mine != others}
    values = settings_that_differ(table.valid[arm.id], table.valid[control.id])
    for name, (mine, others) in values.items():
        if name not in told and arm.spec.settings.get(name) == control.spec.settings.get(name):
            differing[name] = f"{name} ({mine} against {others})"
    return differing


def settings_that_differ(
    first: tuple[TrialRecord, ...], second: tuple[TrialRecord, ...]
) -> dict[str, tuple[str, str]]:
    """By name the settings of running servers that were one value in some trials and another in others."""
    found = {}
    for name in sorted((set(_settings(first)) & set(_settings(second))) - _DERIVED_SETTINGS):
        mine, others = (_constant(records, _setting(name)) for records in (first, second))
        if mine is not None and others is not None and mine != others:
            found[name] = (mine, others)
    return found


def _settings(records: tuple[TrialRecord, ...]) -> dict[str, str]:
    return records[0].facts.settings if records else {}


def _setting(name: str) -> Callable[[TrialRecord], str | None]:
    def value(record: TrialRecord) -> str | None:
        return record.facts.settings.get(name)

    return value


def _read_ahead_kb(record: TrialRecord) -> str | None:
    value = record.facts.storage.device.read_ahead_kb
    return None if value is None else str(value)


def _constant(records: tuple[TrialRecord, ...], value: Callable[[TrialRecord], str | None]) -> str | None:
    """The value that all trials share; None when they differ or one lacks it."""
    values = {value(record) for record in records}
    return values.pop() if len(values) == 1 else None


def _machine_changes(table: BlockTable) -> list[str]:
    records = [record for row in table.rows for record in row.values()]
    sentences = []
    if len({record.host for record in records}) > 1:
        sentences.append("trials ran on more than one host: compare arms within a host only")
    mixed = sum(len({record.boot_id for record in row.values()}) > 1 for row in table.rows)
    if mixed:
        counted = "1 block spans" if mixed == 1 else f"{mixed} blocks span"
        sentences.append(
            f"{counted} a reboot of the machine, so their arms ran on differently started systems"
        )
    return sentences
