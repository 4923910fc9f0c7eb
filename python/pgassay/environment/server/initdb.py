"""Making an empty cluster, with every option explicit and alike in all arms."""

from pathlib import Path

from pgassay.environment.server.programs import run_program
from pgassay.errors import UsageError
from pgassay.model.arm import DatasetSpec
from pgassay.model.build import Build

# From 18 on initdb makes checksums unless told otherwise; before, the word for "none" is unknown.
FIRST_MAJOR_WITH_CHECKSUMS_BY_DEFAULT = 18
# --locale-provider of initdb, and its value `builtin`.
_ICU_SINCE, _BUILTIN_SINCE = 15, 17
WAL_SEGMENT_SIZES_MB = tuple(2**power for power in range(11))


def make_cluster(build: Build, folder: Path, dataset: DatasetSpec) -> None:
    """Run initdb on `folder`, which is missing or empty; it is not synced to the disk.

    The superuser is `postgres`; nobody can connect but by what the server's own start allows.
    Raises UsageError for options that cannot be, MeasurementError with initdb's words when it fails.
    """
    run_program(initdb_command(build, folder, dataset), f"making a cluster in {folder}")


def initdb_command(build: Build, folder: Path, dataset: DatasetSpec) -> list[str]:
    """Return the command line of initdb."""
    if dataset.wal_segment_mb not in WAL_SEGMENT_SIZES_MB:
        raise UsageError(
            f"A WAL segment cannot be {dataset.wal_segment_mb} MB: choose a power of two from 1 to 1024."
        )
    command = [f"{build.bin_directory}/initdb", "--pgdata", str(folder), "--username", "postgres"]
    command += ["--encoding", dataset.encoding, *_locale_options(build, dataset.locale)]
    command += ["--text-search-config", "simple"]
    command += ["--wal-segsize", str(dataset.wal_segment_mb)]
    command += ["--auth-local", "peer", "--auth-host", "reject", "--no-sync", "--no-instructions"]
    return command + checksum_options(build.major, wanted=dataset.checksums)


def can_have_locale(build: Build, locale: str) -> bool:
    """Whether a cluster of this build can have a locale of that provider: libc's always.

    ICU is a database's own from 15 on, the server's own provider from 17 on; 16 and newer are built with ICU
    unless they were told otherwise (configure --without-icu).
    """
    provider, _, name = locale.rpartition(":")
    if provider == "icu":
        is_asked = "--with-icu" in build.configure
        is_usual = build.major >= 16 and "--without-icu" not in build.configure
        return build.major >= _ICU_SINCE and (is_asked or is_usual)
    return provider == "" or (provider == "builtin" and build.major >= _BUILTIN_SINCE and bool(name))


def _locale_options(build: Build, locale: str) -> list[str]:
    """Raises UsageError for a provider that the build does not have."""
    provider, _, name = locale.rpartition(":")
    if not provider:
        return ["--locale", locale]
    if not can_have_locale(build, locale):
        raise UsageError(
            f"--locale {locale}: PostgreSQL {build.version} of {build.origin} has no such provider: name one "
            "of libc's (locale -a), icu:NAME from 15 on, or builtin:C.UTF-8 from 17 on"
        )
    return ["--locale", "C", "--locale-provider", provider, f"--{provider}-locale", name]


def checksum_options(major: int, *, wanted: bool) -> list[str]:
    """The words of initdb for a cluster with data checksums, or without."""
    if wanted:
        return ["--data-checksums"]
    return ["--no-data-checksums"] if major >= FIRST_MAJOR_WITH_CHECKSUMS_BY_DEFAULT else []
